"""Contrastive UCB and its peers on random low-rank MDPs, with five seeds in one batch."""

import contrastive_ucb as cu

SEEDS = list(range(5))
ROUNDS = 200

envs = [cu.LowRankMDP(n_states=10, n_actions=3, rank=3, horizon=4, seed=seed) for seed in SEEDS]
print(f"{'algorithm':18}{'average regret':>16}{'final gap':>12}{'zeta':>8}")
for algo in cu.PRESETS:
    agent = cu.ContrastiveUCB(envs, seed=SEEDS, algo=algo)
    result = agent.learn(rounds=ROUNDS, progress=False)
    regret, gap, zeta = (x[-1].mean() for x in (result.average_regret, result.gap, result.zeta))
    print(f"{algo:18}{regret:16.4f}{gap:12.4f}{zeta:8.3f}")
