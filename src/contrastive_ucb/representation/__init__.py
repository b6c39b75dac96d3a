"""From counts to features: the contrastive loss, its minimisers, and known features for the peers."""
