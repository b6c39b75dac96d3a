"""Contrastive ULCB on a lock for two players, where the bonus is needed to find the equilibrium."""

import contrastive_ucb as cu

ROUNDS = 200

game = cu.LockGame(horizon=3, seed=0)
print(f"Nash value {cu.nash_value(game):.2f}")
for algo in ("contrastive-ulcb", "no-bonus", "uniform"):
    agent = cu.ContrastiveULCB(game, seed=0, algo=algo, negatives="exact")
    summary = agent.learn(rounds=ROUNDS, progress=False).summary[0]
    solved = f"solved in round {summary['solved_at']}" if summary["solved_at"] else "not solved"
    print(f"{algo:16} {solved:20} exploitability of the final pair {summary['final_gap']:.2f}")
for state, (row, column) in enumerate(game.combination[-1]):
    print(f"last step, state {state}: the correct actions are {row} and {column}")
