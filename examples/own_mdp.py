"""A finite MDP given as arrays: a corridor of rooms with a reward in the last room."""

import numpy as np

import contrastive_ucb as cu

N_STEPS, N_ROOMS, LEFT, RIGHT = 6, 5, 0, 1

rooms = np.arange(N_ROOMS)
moves = np.zeros((N_ROOMS, 2, N_ROOMS))
moves[rooms, LEFT, np.maximum(rooms - 1, 0)] = 1.0
moves[rooms, RIGHT, np.minimum(rooms + 1, N_ROOMS - 1)] += 0.8
moves[rooms, RIGHT, rooms] += 0.2  # moving right fails with probability 0.2
transitions = np.tile(moves, (N_STEPS, 1, 1, 1))
rewards = np.zeros((N_STEPS, N_ROOMS, 2))
rewards[-1, -1] = 1.0

env = cu.TabularMDP(transitions, rewards, initial=0, rank=N_ROOMS, name="corridor")
agent = cu.ContrastiveUCB(env, seed=0, negatives="exact", reward="learned", alpha=0.3)
result = agent.learn(rounds=300, progress=False)

print(f"V* {cu.optimal_value(env):.3f}, gap of the final policy {result.gap[-1]:.3f}")
actions = [int(agent.policy[step, min(step, N_ROOMS - 1)].argmax()) for step in range(N_STEPS)]
print("greedy actions along the corridor (1 is right):", actions)
