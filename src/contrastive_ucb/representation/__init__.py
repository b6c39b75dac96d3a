"""Representations: the contrastive loss and its minimization on counts and with networks."""
