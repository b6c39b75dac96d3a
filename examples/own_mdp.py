"""Your own MDP as arrays: a corridor of rooms, where only the last room pays."""

import numpy as np

import contrastive_ucb as cu

N_STEPS, N_ROOMS, LEFT, RIGHT = 6, 5, 0, 1

here = np.arange(N_ROOMS)
moves = np.zeros((N_ROOMS, 2, N_ROOMS))
moves[here, LEFT, np.maximum(here - 1, 0)] = 1.0
moves[here, RIGHT, np.minimum(here + 1, N_ROOMS - 1)] += 0.8
moves[here, RIGHT, here] += 0.2  # the door sticks now and then
transitions = np.tile(moves, (N_STEPS, 1, 1, 1))
rewards = np.zeros((N_STEPS, N_ROOMS, 2))
rewards[-1, -1] = 1.0

env = cu.TabularMDP(transitions, rewards, initial=0, rank=N_ROOMS, name="corridor")
agent = cu.ContrastiveUCB(env, seed=0, negatives="exact", reward="learnt", alpha=0.3)
result = agent.learn(rounds=300, progress=False)

print(f"V* {cu.optimal_value(env):.3f}, the learnt policy loses {result.gap[-1]:.3f}")
walk = [int(agent.policy[step, min(step, N_ROOMS - 1)].argmax()) for step in range(N_STEPS)]
print("actions on the way (1 is right):", walk)
