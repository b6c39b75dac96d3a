"""A vault with an intruder and a guard: its equilibrium lies behind doors that a bonus opens."""

import contrastive_ucb as cu

ROUNDS = 200

game = cu.LockGame(horizon=3, seed=0)
print(f"value in equilibrium {cu.nash_value(game):.2f}")
for algo in ("contrastive-ulcb", "no-bonus", "uniform"):
    agent = cu.ContrastiveULCB(game, seed=0, algo=algo, negatives="exact")
    summary = agent.learn(rounds=ROUNDS, progress=False).summary[0]
    found = f"found in round {summary['solved_at']}" if summary["solved_at"] else "not found"
    keys, gates = agent.last.row[0, -1, 0], agent.last.column[0, -1, 0]  # last door, first state
    print(
        f"{algo:16} {found:20} exploitable by {summary['final_gap']:.2f}; at the last door"
        f" keys {keys.round(2)}, gates {gates.round(2)}"
    )
key, gate = game.combination[-1, 0]
print(f"key {key} with gate {gate} opens it, so the guard should take another gate")
