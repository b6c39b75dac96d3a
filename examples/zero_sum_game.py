"""A vault with an intruder and a guard: its equilibrium lies behind doors that a bonus opens."""

import contrastive_ucb as cu

ROUNDS = 200

game = cu.LockGame(horizon=3, seed=0)
print(f"value in equilibrium {cu.nash_value(game):.2f}")
for algo in ("contrastive-ulcb", "no-bonus", "uniform"):
    agent = cu.ContrastiveULCB(game, seed=0, algo=algo, negatives="exact")
    summary = agent.learn(rounds=ROUNDS, progress=False).summary[0]
    found = f"found in round {summary['solved_at']}" if summary["solved_at"] else "not found"
    print(f"{algo:16} {found:20} the last pair is exploitable by {summary['final_gap']:.2f}")
for state, (key, gate) in enumerate(game.combination[-1]):
    print(f"last door, state {state}: key {key} with gate {gate} opens it")
