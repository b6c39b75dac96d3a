# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 3. Rich observations and networks
#
# In tutorial 1 the agent saw the state. Here it sees a noisy vector, no two of which are equal,
# so counting visits is useless. Algorithm 1 stays the same; networks replace the tables.
#
# ## The observations
#
# `cu.RichLock` is a combination lock with three latent states: good 0, good 1 and dead. With H =
# 8 steps and A = 8 actions a random policy reaches the reward in one of 8⁸ = 16,777,216 episodes.
# An observation is the one-hot code of latent and step, plus Gaussian noise, multiplied by a
# Hadamard matrix that spreads every entry over all coordinates.

# %%
import matplotlib.pyplot as plt
import numpy as np

import contrastive_ucb as cu

env = cu.RichLock(horizon=8, n_actions=8, seed=0)
rng = np.random.default_rng(0)
latents = np.repeat([0, 1, 2], 100)
observations = env.emit(3, latents, rng)  # of known latents at step 3, counted from 0
print("shape:", observations.shape, "distinct:", len(np.unique(observations, axis=0)))
print("two observations of latent 0:", *observations[:2].round(1), sep="\n")

# %%
centered = observations - observations.mean(0)
components = np.linalg.svd(centered, full_matrices=False)[2][:2]
figure, axes = plt.subplots(1, 2, figsize=(6, 3), layout="constrained")
names = ("good 0", "good 1", "dead")
for latent, name in enumerate(names):
    chosen = latents == latent
    axes[0].scatter(*observations[chosen][:, [1, 4]].T, s=8)
    axes[1].scatter(*(centered[chosen] @ components.T).T, s=8, label=name)
axes[0].set(title="two of the 16 coordinates", xlabel="o[1]", ylabel="o[4]")
axes[1].set(title="two principal components", xlabel="1st", ylabel="2nd")
axes[1].legend(fontsize=8, loc="lower right")
plt.show()

# %% [markdown]
# The information is there, but not in single coordinates. The agent has to find a feature φ(o, a)
# that depends on the latent, and it has to find it from transitions alone: latents are never
# observed.
#
# ## Learn
#
# Every round collects 50 trajectories per step, trains φ and ψ from scratch as a classifier of
# real against random next observations, and plans with the bonus. In each round we ask the policy
# for its action at 50 fresh observations of both good latents, and compare with the correct one.

# %%
correct = cu.Lock(horizon=8, n_actions=8, n_dead=1, seed=0).combination  # (H, 2), same seed
probes = np.repeat([0, 1], 25)


def accuracy(agent):
    """Share of observations of good latents with the correct action, per step."""
    shares = []
    for step in range(env.horizon):
        actions = agent.policy_at(step, env.emit(step, probes, rng)).argmax(-1)
        shares.append((actions == correct[step, probes]).mean())
    return shares


def run(algo, rounds):
    agent = cu.ContrastiveUCB(env, seed=0, algo=algo)
    shares = []
    result = agent.learn(
        rounds=rounds, progress=False, callback=lambda event: shares.append(accuracy(agent))
    )
    print(f"{algo:16} {agent.trajectories:5} trajectories, gap {result.gap[-1]:.2f}")
    return agent, result, np.array(shares)


agent, result, shares = run("contrastive-ucb", rounds=30)
_, control_result, control = run("no-bonus", rounds=len(shares))

# %%
figure, axes = plt.subplots(1, 2, figsize=(6, 3), sharey=True, layout="constrained")
for cell, table, title in zip(axes, (shares, control), ("with bonus", "no bonus"), strict=True):
    extent = (0.5, len(table) + 0.5, env.horizon + 0.5, 0.5)
    image = cell.imshow(table.T, cmap="viridis", vmin=0, vmax=1, aspect="auto", extent=extent)
    cell.set(title=title, xlabel="round", xticks=range(1, len(table) + 1, 2))
axes[0].set_ylabel("step h")
figure.colorbar(image, ax=axes, label="correct actions")
plt.show()

# %% [markdown]
# With the bonus the correct actions are found from the first step to the last. Without it the
# policy takes a wrong action at the first step in every round, because that pays 0.1 with
# probability 1/2, and nothing better was ever observed. (Values of 0.5 are chance: one action for
# both latents.)

# %%
figure, axes = plt.subplots(2, 1, figsize=(4.8, 4.4), sharex=True, layout="constrained")
axes[0].plot(result.rounds, result.gap, color="#D55E00", label="with bonus")
axes[0].plot(control_result.rounds, control_result.gap, "--", color="#333333", label="no bonus")
axes[0].set_title("gap V* - V^π", fontsize=10)
axes[0].legend(fontsize=8)
axes[1].plot(result.rounds, result.curves["bonus/mean"], color="#D55E00")
axes[1].set_title("mean bonus over observations and actions", fontsize=10)
axes[1].set_xlabel("round")
plt.show()

# %% [markdown]
# The run ends by itself when all 20 test episodes of five consecutive rounds return 1. The mean
# bonus decreases from the start, while the gap does not change for several rounds: during this
# time the agent explores one step after the other.
#
# ## Use the policy
#
# The policy is a function of observations. Its `state` counts the steps of the episode.

# %%
returns = []
for episode in range(20):
    observation, _ = env.reset(seed=episode)
    state, over, total = None, False, 0.0
    while not over:
        action, state = agent.predict(observation, state)
        observation, reward, over, truncated, _ = env.step(action)
        over, total = over or truncated, total + reward
    returns.append(total)
print(f"mean return of 20 episodes: {np.mean(returns):.2f}")

# %% [markdown]
# ## What to try next
#
# - Increase the horizon to 12 and A to 10. The number of action sequences grows by a factor of
#   60,000; by how much does the number of trajectories grow?
# - Give the networks hidden units (`hidden=32`). Does the lock need them?
# - Take another seed, or `fit_steps=50`. What fails first, the features or the exploration?
# - Use your own environment: `cu.ContrastiveUCB("CartPole-v1", horizon=50)` learns in any Gymnasium
#   environment with vector observations and discrete actions.
# - Tutorial 4 uses the bonus in a deep agent for longer episodes and images.
