"""Data: the samplers of Algorithms 3 and 4, counts, observations, and replay memory."""
