"""Contrastive UCB next to its peers on random low-rank MDPs, five seeds at once."""

import contrastive_ucb as cu

SEEDS = list(range(5))
ROUNDS = 200

envs = [cu.LowRankMDP(n_states=10, n_actions=3, rank=3, horizon=4, seed=seed) for seed in SEEDS]
print(f"{'algorithm':18}{'average regret':>16}{'last gap':>12}{'zeta':>8}")
for algo in cu.PRESETS:
    agent = cu.ContrastiveUCB(envs, seed=SEEDS, algo=algo)
    result = agent.learn(rounds=ROUNDS, progress=False)
    means = [column[-1].mean() for column in (result.average_regret, result.gap, result.zeta)]
    print(f"{algo:18}{means[0]:16.4f}{means[1]:12.4f}{means[2]:8.3f}")
