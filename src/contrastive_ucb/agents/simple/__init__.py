"""SimPLe: PPO in a learned world model."""
