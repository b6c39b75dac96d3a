"""Infrastructure without reinforcement learning: random streams, files, checkpoints, events."""
