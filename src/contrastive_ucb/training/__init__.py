"""What every run needs, however it learns: random streams, events, checkpoints."""
