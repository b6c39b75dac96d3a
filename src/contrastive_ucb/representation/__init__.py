"""From counts to features: the contrastive loss, its minimisers, known features for peers."""
