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
# # 5. The bonus in your own agent
#
# `cu.EllipticalBonus` computes γ √(φᵀ Σ⁻¹ φ) for any feature vectors. You see what it measures,
# put it into a small Q-learning agent, and add it to the reward of DQN from Stable-Baselines3
# (extra `sb3`).
#
# ## What the bonus measures

# %%
import gymnasium
import matplotlib.pyplot as plt
import numpy as np
import torch
from stable_baselines3 import DQN
from torch import nn

import contrastive_ucb as cu

torch.set_num_threads(1)
bonus = cu.EllipticalBonus(dim=3, scale=1.0, ridge=1.0)
states = torch.eye(3)  # one-hot features
for n in (1, 3, 5):
    bonus.observe(states[0].repeat(n, 1))
    print(f"{bonus.n_seen:.0f} visits of state 0: bonus {bonus(states).numpy().round(3)}")

# %% [markdown]
# With one-hot features the bonus is scale / √(visits + ridge): a count-based bonus. With other
# features, visits count for every feature in a similar direction. Below, 200 visited features
# (black) lie along one direction. The bonus is small along it, also where no data is, and large
# across it.

# %%
rng = np.random.default_rng(0)
visited = rng.normal(size=(200, 1)) * [0.6, 0.3] + 0.03 * rng.normal(size=(200, 2))
bonus = cu.EllipticalBonus(dim=2, scale=1.0, ridge=0.1)
bonus.observe(torch.tensor(visited))
side = np.linspace(-2, 2, 101)
grid = torch.tensor(np.stack(np.meshgrid(side, side), axis=-1))  # (101, 101, 2)

figure, axes = plt.subplots(figsize=(4.8, 3.8), layout="constrained")
contours = axes.contourf(side, side, bonus(grid).numpy(), levels=12, cmap="Oranges")
axes.plot(*visited.T, "k.", markersize=2)
axes.set(xlabel="φ[0]", ylabel="φ[1]", aspect="equal")
figure.colorbar(contours, ax=axes, label="bonus")
plt.show()

# %% [markdown]
# ## Q-learning with the bonus in targets and actions
#
# The task is DeepSea with N = 10: only 10 moves to the right reach the treasure, and each move to
# the right costs a little. The features are one-hot cells, and they do not depend on the action.
# So the bonus gets one block of Σ per action (`blocks=2`). An agent needs three changes:
#
# 1. `observe(feature, action)` after every step,
# 2. act greedily on Q + bonus,
# 3. bootstrap from max over a' of Q(s', a') + bonus(s', a').
#
# With (2) and (3) the bonus of distant states reaches the present one through the values. The
# bonus is computed when it is used, so it is never outdated.

# %%
N, BATCH = 10, 32
cells = torch.eye((N + 1) * N)  # one-hot (row, column); the last row is terminal


def q_learning(scale, episodes=150, seed=0):
    """Returns the return of each episode, and maps of the bonus at three times."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    q = nn.Sequential(nn.Linear(len(cells), 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(q.parameters(), lr=3e-3)
    bonus = cu.EllipticalBonus(len(cells), scale, ridge=0.1, blocks=2)
    env, memory, returns, maps = cu.DeepSea(N, seed=0), [], [], []

    @torch.no_grad()
    def optimistic(cell):
        return q(cells[cell]) + bonus.of_all(cells[cell])

    for episode in range(episodes):
        (row, column), _ = env.reset()
        over, total = False, 0.0
        while not over:
            cell = int(row * N + column)
            explores = rng.random() < 0.05
            action = int(rng.integers(2)) if explores else int(optimistic(cell).argmax())
            (row, column), reward, over, _, _ = env.step(action)
            bonus.observe(cells[cell], torch.tensor(action))
            memory.append((cell, action, float(reward), int(row * N + column), over))
            total += float(reward)

            batch = [memory[i] for i in rng.integers(len(memory), size=BATCH)]
            s, a, r, next_s, done = map(torch.tensor, zip(*batch, strict=True))
            target = r + ~done * optimistic(next_s).max(1).values
            loss = nn.functional.mse_loss(q(cells[s]).gather(1, a[:, None])[:, 0], target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        returns.append(total)
        if episode + 1 in (10, 50, 150):
            maps.append(bonus.of_all(cells[: N * N]).max(1).values.reshape(N, N).numpy())
    return np.array(returns), maps


returns, maps = q_learning(scale=0.1)
control, _ = q_learning(scale=0.0)
print(f"with bonus: treasure in {(returns > 0.5).sum()} of {len(returns)} episodes")
print(f"no bonus  : treasure in {(control > 0.5).sum()} of {len(control)} episodes")

# %%
figure, axes = plt.subplots(1, 3, figsize=(6, 2.1), layout="constrained")
reachable = np.tril(np.ones((N, N))) > 0
for cell, table, episode in zip(axes, maps, (10, 50, 150), strict=True):
    shown = np.where(reachable, table, np.nan)
    image = cell.imshow(shown, cmap="Oranges", vmin=0, vmax=maps[0].max())
    cell.plot(N - 1, N - 1, "*", color="#0072B2", markersize=9)
    cell.set(xticks=[], yticks=[])
    cell.set_title(f"after {episode} episodes", fontsize=9)
figure.colorbar(image, ax=axes, label="bonus")
plt.show()

# %% [markdown]
# The larger of the bonuses of both actions is shown; the star is the treasure. The agent visits
# the cells with the largest bonus, which moves the dark region toward the treasure. After 50
# episodes only the last cells of the diagonal are unknown; after 150 the bonus is small
# everywhere, and the agent follows the diagonal.
#
# If your features are learned, Σ sums outdated features. Call `bonus.rebuild(features, actions)`
# with the current features of the replay memory from time to time.
#
# ## An agent that you cannot change: BonusWrapper
#
# `cu.BonusWrapper` adds a bonus to the reward of a Gymnasium environment, so any agent can use it.
# `"elliptical"` with `of="pair"` and the observation as feature is the same bonus as above. The
# default `"contrastive"` learns the features of s'.


# %%
def make_env():
    space = gymnasium.spaces.Box(0.0, 1.0, (len(cells),))
    return gymnasium.wrappers.TransformObservation(
        cu.DeepSea(N, seed=0), lambda cell: cells[cell[0] * N + cell[1]].numpy(), space
    )


def greedy_return(agent):
    """The return of one greedy episode, without the bonus."""
    env = make_env()
    observation, over, total = env.reset()[0], False, 0.0
    while not over:
        action, _ = agent.predict(observation, deterministic=True)
        observation, reward, over, _, _ = env.step(int(action))
        total += float(reward)
    return total


for scale in (0.3, 0.0):
    agent = DQN(
        "MlpPolicy",
        cu.BonusWrapper(
            make_env(), "elliptical", scale, normalize=False, of="pair", encoder=nn.Identity()
        ),
        learning_rate=1e-3,
        gamma=1.0,
        train_freq=1,
        target_update_interval=100,
        exploration_fraction=0.1,
        seed=0,
    )
    agent.learn(4000)
    print(f"DQN with scale {scale}: greedy return {greedy_return(agent):.2f}")

# %% [markdown]
# This is simpler and weaker than the agent above. The bonus applies only to actions that were
# taken, the replay memory stores bonuses that become outdated, and the greedy policy also
# collects bonuses. So decrease `scale`, or evaluate as above, without the bonus in the reward.
# `BonusCallback` in `contrastive_ucb.bonus` removes the second disadvantage: it computes the bonus
# of replayed transitions with the present counts.
#
# ## What to try next
#
# - Remove change (3): bootstrap from Q alone. How many episodes does the agent need now?
# - Vary `scale` from 0.01 to 1. Too small fails to explore; what does too large do?
# - Replace the one-hot feature by the hidden layer of `q`, and call `rebuild` every 10 episodes.
# - Replace `"elliptical"` by `"contrastive"`, `"rnd"` or `"counts"`, and remove `of` and `encoder`.
# - Wrap your own environment. Images, symbolic grids, vectors and Dict observations have encoders;
#   pass `encoder=` for your own.
