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
# # 4. A deep agent and its bonus: SPR-UCB
#
# SPR-UCB is Rainbow with self-predictive representations (SPR) and the elliptical bonus of
# tutorial 1. The feature φ is a layer of the Q-network, and the bonus is added to the targets of
# Q-learning. You train it on DeepSea, where exploration decides, and on MinAtar, and watch the
# bonus while it learns. This page needs the extra `minatar` and takes about two minutes.
#
# ## DeepSea
#
# A diver starts in the upper left corner of an N x N grid and moves one row down in every step,
# to the left or to the right. Only N moves to the right reach the treasure (return 1), and each
# of them has a small cost, so the best return without the treasure is 0.01. Random play finds it
# in one of 2^N episodes. The action that means "right" differs from cell to cell.
#
# The agent takes ids such as `"DeepSea-8"`, and any Gymnasium environment. Here we pass our own,
# which counts the visits of each cell:

# %%
import gymnasium
import matplotlib.pyplot as plt
import minatar
import numpy as np

import contrastive_ucb as cu

N = 8


class CountedSea(gymnasium.Wrapper):
    """DeepSea with one-hot observations; `visits` counts the cells."""

    def __init__(self, visits):
        super().__init__(cu.DeepSea(N, seed=0))
        self.observation_space = gymnasium.spaces.Box(0, 1, (N * N,), np.float32)
        self.visits = visits

    def one_hot(self, cell):
        row, column = cell
        cells = np.zeros((N, N), np.float32)
        if row < N:  # all zeros at the end of the episode
            cells[row, column] = 1
            self.visits[row, column] += 1
        return cells.ravel()

    def reset(self, **options):
        cell, info = self.env.reset(**options)
        return self.one_hot(cell), info

    def step(self, action):
        cell, *rest = self.env.step(action)
        return self.one_hot(cell), *rest


def train(bonus, steps=1200, parts=3):
    """Train an agent; returns its result and the visits of each part of the run."""
    visits, seen = np.zeros((N, N)), [np.zeros((N, N))]

    def watch(event):
        if event.step % (steps // parts) == 0:
            seen.append(visits.copy())

    agent = cu.SPRUCB(lambda: CountedSea(visits), seed=0, bonus=bonus)
    result = agent.learn(steps=steps, progress=False, callback=watch)
    found = (agent.returns > 0.5).sum()
    print(f"bonus {bonus}: treasure in {found} of {len(agent.returns)} episodes;", end=" ")
    print("mean return without noise and bonus:", round(cu.evaluate(agent, episodes=5)["mean"], 3))
    return result, np.diff(seen, axis=0)


runs = {name: train(name) for name in ("algorithm-1", "none")}

# %% [markdown]
# `bonus="algorithm-1"` uses the last hidden layer as feature, and Σ of all visited pairs, with
# one block per action. With `bonus="none"` the agent is SPR, which explores with noisy layers
# only.

# %%
figure, axes = plt.subplots(2, 3, figsize=(5.4, 3.6), layout="constrained")
for line, (name, (_, parts)) in zip(axes, runs.items(), strict=True):
    for cell, visits, first in zip(line, parts, (1, 51, 101), strict=True):
        share = np.where(visits > 0, visits / 50, np.nan)
        image = cell.imshow(share, cmap="viridis_r", norm="log", vmin=0.02, vmax=1)
        cell.plot(N - 1, N - 1, "*", color="#D55E00", markersize=9)
        cell.set(xticks=[], yticks=[])
        cell.set_title(f"episodes {first} to {first + 49}", fontsize=9)
    line[0].set_ylabel("no bonus" if name == "none" else "bonus")
figure.colorbar(image, ax=axes, label="share of episodes in a cell")
plt.show()

# %% [markdown]
# White cells were not visited in these episodes; the star is the treasure. With the bonus the
# visits first spread over the whole triangle and then follow the diagonal. Without it they move
# to the left, away from the cost, and the lower right corner remains unknown.
#
# `agent.learn` returns the metrics of the run: the return of every episode, and every 100 steps
# the losses, the mean bonus of the sampled pairs and log det Σ, the information gained so far.

# %%
curves = runs["algorithm-1"][0].curves
episodes = curves.dropna(subset="charts/episodic_return")
updates = curves.dropna(subset="bonus/mean")
figure, axes = plt.subplots(3, 1, figsize=(4.8, 5.4), sharex=True, layout="constrained")
axes[0].plot(episodes["step"], episodes["charts/episodic_return"], ".", color="#D55E00")
axes[0].set_title("return of each episode", fontsize=10)
axes[1].plot(updates["step"], updates["bonus/mean"], color="#D55E00")
axes[1].set_title("mean bonus", fontsize=10)
axes[2].plot(updates["step"], updates["bonus/logdet"], color="#D55E00")
axes[2].set_title("log det Σ - log det λI", fontsize=10)
axes[2].set_xlabel("step")
plt.show()

# %% [markdown]
# The bonus shrinks as the cells become known, and the information gain flattens. A bonus that is
# close to 0 before the reward was found is a warning: the features do not distinguish new
# observations from old ones. Then try another `bonus.feature` or a larger `bonus.scale`.
#
# ## MinAtar
#
# The same agent learns from small images: MinAtar Breakout has four binary channels of 10 x 10
# pixels.

# %%
game = minatar.Environment("breakout")
game.seed(0)
game.reset()
for _ in range(4):
    game.act(0)
frame = game.state()
figure, axes = plt.subplots(1, 4, figsize=(5.4, 1.7), layout="constrained")
for cell, channel, name in zip(axes, range(4), ("paddle", "ball", "trail", "bricks"), strict=True):
    cell.imshow(frame[..., channel], cmap="Oranges", vmin=0, vmax=1)
    cell.set(title=name, xticks=[], yticks=[])
plt.show()

# %% [markdown]
# 2,500 steps with few updates are enough to see the bonus, not to play well.

# %%
agent = cu.SPRUCB(
    "MinAtar/Breakout-v1",
    seed=0,
    bonus="algorithm-1",
    settings={"updates_per_step": 0.1, "first_update": 500},
)
curves = agent.learn(steps=2500, progress=False).curves
updates = curves.dropna(subset="bonus/mean")
figure, axes = plt.subplots(2, 1, figsize=(4.8, 4), sharex=True, layout="constrained")
axes[0].plot(updates["step"], updates["bonus/mean"], color="#D55E00")
axes[0].set_title("mean bonus", fontsize=10)
axes[1].plot(updates["step"], updates["bonus/logdet"], color="#D55E00")
axes[1].set_title("log det Σ - log det λI", fontsize=10)
axes[1].set_xlabel("step")
plt.show()
latest = agent.returns[-50:].mean()
print(f"{len(agent.returns)} episodes, mean return of the last 50: {latest:.2f}")

# %% [markdown]
# Here the bonus does not just decrease: φ changes with every update of the network. Every 100
# updates (`bonus.rebuild_every`), that is, every 1,000 steps, Σ is recomputed with the current
# features, and log det Σ drops. Whether the bonus helps depends on the game. In Freeway it lowers
# the score; see the results of this site for ten seeds.
#
# ## What to try next
#
# - Increase N to 10 or 14. With 2^N in mind: how does the number of episodes until the first
#   treasure grow with the bonus?
# - Compare the other presets, `bonus="paper"` and `bonus="reference"`, on DeepSea. Look at the
#   mean bonus of each.
# - Change one setting: `settings={"bonus.scale": 0.01}`.
# - Train longer, with a run folder: `agent.learn(steps=10_000, resume=True)`. Repeat the script
#   after an interruption; it continues.
# - Tutorial 5 adds the bonus to an agent that is not part of this package.
