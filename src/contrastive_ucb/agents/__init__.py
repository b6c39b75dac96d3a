"""Contrastive UCB (Algorithm 1) and its peers, which differ from it by a line of configuration."""
