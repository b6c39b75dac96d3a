"""What the agent sees: the sampler of Algorithm 3 and the counts that summarise it."""
