"""PPO of Stable-Baselines3 with the bonuses of the toolkit."""
