"""A combination lock that the bonus opens: wrong actions pay a little, right ones at the end."""

import contrastive_ucb as cu

ROUNDS = 300

env = cu.Lock(horizon=4, n_actions=4, n_dead=20, seed=0)
for algo in ("contrastive-ucb", "no-bonus", "uniform"):
    agent = cu.ContrastiveUCB(env, seed=0, algo=algo, negatives="exact")
    summary = agent.learn(rounds=ROUNDS, progress=False).summary[0]
    opened = f"opened in round {summary['solved_at']}" if summary["solved_at"] else "not opened"
    print(
        f"{algo:16} {opened:24} V* {summary['optimal_value']:.2f}  {summary['final_gap']:.2f} lost"
    )
