"""Contrastive UCB on a combination lock, compared with agents without the bonus.

Wrong actions pay a small reward at once; the correct sequence pays a large one at the end.
"""

import contrastive_ucb as cu

ROUNDS = 300

env = cu.Lock(horizon=4, n_actions=4, n_dead=20, seed=0)
for algo in ("contrastive-ucb", "no-bonus", "uniform"):
    agent = cu.ContrastiveUCB(env, seed=0, algo=algo, negatives="exact")
    summary = agent.learn(rounds=ROUNDS, progress=False).summary[0]
    solved = f"solved in round {summary['solved_at']}" if summary["solved_at"] else "not solved"
    value, gap = summary["optimal_value"], summary["final_gap"]
    print(f"{algo:16} {solved:24} V* {value:.2f}, final gap {gap:.2f}")
