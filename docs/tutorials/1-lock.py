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
# # 1. Contrastive UCB step by step
#
# You write Algorithm 1 of the paper in NumPy, one part at a time (collect, fit, bonus, plan), and
# watch it solve a problem on which greedy agents fail. The whole page runs in a few seconds.
#
# ## The problem: a combination lock
#
# The lock is an MDP with H = 6 steps, A = 5 actions and 12 states. States 0 and 1 are good, the
# other ten are dead. In each good state one action is correct, and which one depends on the step.
#
# - The correct action leads to one of the two good states, each with probability 1/2.
# - Any other action pays 0.1 with probability 1/2 and leads to the dead states, which have no
#   reward and no exit.
# - The correct action of the last step pays 1.
#
# So V\* = 1, and an agent that maximizes what it has seen so far takes the 0.1. A uniformly
# random policy reaches the reward in one of 5⁶ = 15,625 episodes.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import HTML

import contrastive_ucb as cu

env = cu.Lock(horizon=6, n_actions=5, n_dead=10, seed=0)
H, S, A = env.rewards.shape
print(f"H = {H}, S = {S}, A = {A}, V* = {cu.optimal_value(env):.2f}")
print("correct actions in state 0:", env.combination[:, 0])
print("correct actions in state 1:", env.combination[:, 1])

# %% [markdown]
# ## What exploration looks like
#
# Below are 241 rounds of two agents that differ only in the bonus. Each column is a step and each
# row is an action in one of the good states. Press Play, or move the slider.
# (`python tools/animation.py` repeats the two runs and writes this animation.)

# %%
HTML(Path("docs/tutorials/exploration.html").read_text(encoding="utf-8"))

# %% [markdown]
# - **With the bonus** each step is solved in turn. The bonus is large where the agent knows
#   little, and it becomes large for the correct actions as soon as their successor differs from
#   the dead states (round 100). The policy then goes there, and the visits move one step to the
#   right.
# - **Without the bonus** the policy takes the reward of 0.1 at one of the first steps. The few
#   visits of later steps come from the uniform actions with which both agents collect data.
#
# The rest of this page builds the agent on the left.
#
# ## 1. Collect
#
# For every step h, one episode follows the current policy up to step h and then takes two
# uniformly random actions. This gives one transition at h and one at h + 1. Counts are enough to
# store them: `visits[h, z, s']` for pairs z = (s, a), numbered z = s · A + a.

# %%
rng = np.random.default_rng(0)
Z = S * A
visits = np.zeros((H, Z, S))  # transitions (z, s') of each step
first = np.zeros((H, Z))  # visits by the first of the two uniform actions
rewards = np.zeros((H, Z))  # sums of observed rewards
policy = rng.integers(A, size=(H, S))


def collect(policy):
    for target in range(H):
        (_, s), _ = env.reset()
        for h in range(min(target + 2, H)):
            a = policy[h, s] if h < target else rng.integers(A)
            (_, next_s), reward, *_ = env.step(a)
            if h >= target:
                z = s * A + a
                visits[h, z, next_s] += 1
                rewards[h, z] += reward
                first[h, z] += h == target
            s = next_s


env.reset(seed=0)
for _ in range(30):
    collect(policy)
in_good = visits.reshape(H, S, A, S)[:, :2].sum((1, 2, 3))
print("transitions from good states at each step:", in_good.astype(int))

# %% [markdown]
# Random data hardly gets past the third step. Exploration has to come from the policy.
#
# ## 2. Fit: contrastive features
#
# In a low-rank MDP the transition probabilities have the form P(s'|z) = ψ(s')ᵀ φ(z) with d
# features. Here d = 2: one latent for good and one for dead states. The agent learns φ and ψ as a
# classifier. A pair (z, s') has label 1 if s' was observed after z, and label 0 if s' was drawn
# from a fixed distribution P⁻, here the uniform one. The logistic loss
#
# `Σ N₁ log(1 + 1/f) + N₀ log(1 + f)`, where `f(z, s') = ψ(s')ᵀ φ(z)`,
#
# is minimal at the density ratio f = P(s'|z) / P⁻(s'). So the classifier contains the model. N₁
# counts transitions. N₀ counts negatives; we use their expectation, the number of visits of z
# times P⁻(s').
#
# All entries of φ and ψ are positive, and alternating multiplicative updates decrease this loss,
# as in non-negative matrix factorization. A small prior (0.1 visits per pair, with next states
# drawn from P⁻) defines the features of pairs without data.

# %%
d = 2
negative = np.full(S, 1 / S)  # P⁻
PRIOR, SWEEPS = 0.1, 10
phi = rng.uniform(0.5, 1.5, (H, Z, d))  # starting values: no latent has a meaning yet
psi = rng.uniform(0.5, 1.5, (H, d, S))


def fit(phi, psi):
    positives = visits + PRIOR * negative
    negatives = (visits.sum(-1, keepdims=True) + PRIOR) * negative
    both = positives + negatives
    for _ in range(SWEEPS):
        f, other = phi @ psi, psi.swapaxes(1, 2)
        phi = phi * (positives / f @ other) / (both / (1 + f) @ other)
        f, other = phi @ psi, phi.swapaxes(1, 2)
        psi = psi * (other @ (positives / f)) / (other @ (both / (1 + f)))
        phi, psi = (np.maximum(x, 0.01 * x.mean((1, 2), keepdims=True)) for x in (phi, psi))
    return phi, psi


def normalized(phi, psi):
    """Features that sum to 1 and measures that sum to 1, so that their product is P^."""
    mass = (psi * negative).sum(-1)
    features = phi * mass[:, None]
    return features / features.sum(-1, keepdims=True), psi * negative / mass[..., None]


for _ in range(20):
    phi, psi = fit(phi, psi)
features, measures = normalized(phi, psi)
print("model of the next state after the correct action of step 1 in state 0:")
print((features @ measures)[0, env.combination[0, 0]].round(2))

# %% [markdown]
# The true probabilities are 0.5 for states 0 and 1 and 0 otherwise. The features of the first
# step show how: pairs that were tried have a feature close to one of the two latents, and the
# correct actions (blue triangles) share one. The pair (0, 1) is an error: its four next states
# are rare in these data, and the fit put them into the wrong latent. More data will correct it.


# %%
def show_features(axes, features, step):
    table = features[step].reshape(S, A, d)[:2].reshape(2 * A, d)
    axes.imshow(table, cmap="Oranges", vmin=0, vmax=1, aspect="auto")
    for row in env.combination[step] + [0, A]:  # the correct actions
        place = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points"}
        axes.annotate("▶", (0, row), (-9, 0), **place, va="center", color="#0072B2")
    axes.set(title=f"h = {step + 1}", xlabel="latent", xticks=range(d), yticks=range(2 * A))
    axes.set_yticklabels([f"({s}, {a})" for s in range(2) for a in range(A)])
    axes.tick_params(axis="y", pad=11, length=0)


figure, axes = plt.subplots(1, 2, figsize=(4.8, 3.2), layout="constrained")
show_features(axes[0], features, 0)
show_features(axes[1], features, 3)
axes[0].set_ylabel("pair (state, action)")
figure.suptitle("φ after 30 rounds of random data", fontsize=10)
plt.show()

# %% [markdown]
# At h = 4 no good state was visited, so all its pairs have the same feature, that of the prior.
#
# ## 3. Bonus: uncertainty in the direction of a feature
#
# With Σ = λI + Σᵢ φ(zᵢ) φ(zᵢ)ᵀ over the visited pairs, the bonus is
#
# `β(z) = γ √(φ(z)ᵀ Σ⁻¹ φ(z))`.
#
# It behaves like γ / √n, but n counts visits in the *direction* of φ(z): pairs with the same
# feature share their visits. All pairs that lead to the dead states soon have the same small
# bonus, and a feature in a rare direction has a large one. We use λ = 1 and γ = H. Rewards are
# unknown too, which adds a small term that counts visits of the pair itself.


# %%
def bonus(features):
    beta = np.empty((H, Z))
    for h in range(H):
        sigma = np.eye(d) + (features[h] * first[h][:, None]).T @ features[h]
        beta[h] = H * np.sqrt((features[h] @ np.linalg.inv(sigma) * features[h]).sum(-1))
    return beta + 0.3 / np.sqrt(visits.sum(-1) + 1)


beta = bonus(features)
print(f"bonus of all pairs: {beta.min():.2f} to {beta.max():.2f}")

# %% [markdown]
# ## 4. Plan: value iteration with reward plus bonus
#
# Backward from the last step, with Q clipped to the largest possible return:


# %%
def plan(features, measures, beta):
    policy, v = np.empty((H, S), dtype=int), np.zeros(S)
    mean_reward = rewards / (visits.sum(-1) + 0.1)
    for h in reversed(range(H)):
        q = mean_reward[h] + beta[h] + features[h] @ (measures[h] @ v)
        q = np.clip(q, 0, H - h).reshape(S, A)
        policy[h], v = q.argmax(-1), q.max(-1)
    return policy


# %% [markdown]
# ## The loop
#
# Algorithm 1 repeats the four parts. `cu.suboptimality` computes V\* - V^π exactly; it uses the
# true transitions, which the agent does not know.

# %%
ROUNDS = 330
gaps, bonus_by_step, visits_by_step = [], [], []
for _ in range(ROUNDS):
    collect(policy)
    phi, psi = fit(phi, psi)
    features, measures = normalized(phi, psi)
    beta = bonus(features)
    policy = plan(features, measures, beta)

    gaps.append(cu.suboptimality(env, policy))
    pairs = np.arange(2) * A + env.combination  # the correct pairs of each step
    bonus_by_step.append(np.take_along_axis(beta, pairs, 1).mean(-1) / np.median(beta, 1))
    visits_by_step.append(visits.reshape(H, S, A, S)[:, :2].sum((1, 2, 3)))
print(f"suboptimality of the last policy: {gaps[-1]:.3f}")
print("correct actions:", *env.combination.T)
print("policy         :", *policy[:, :2].T)

# %%
figure, axes = plt.subplots(3, 1, figsize=(4.8, 6.4), sharex=True, layout="constrained")
shades = plt.get_cmap("viridis")(np.linspace(0, 0.9, H))
for h in range(H):
    axes[0].plot(np.array(visits_by_step)[:, h], color=shades[h], label=f"h = {h + 1}")
    axes[1].plot(np.array(bonus_by_step)[:, h], color=shades[h])
axes[2].plot(gaps, color="#D55E00")
axes[0].legend(fontsize=8, ncols=2)
axes[0].set_title("visits of good states", fontsize=10)
axes[1].set_title("bonus of the correct actions, relative to the median", fontsize=10)
axes[2].set_title("suboptimality V* - V^π", fontsize=10)
axes[2].set_xlabel("round")
plt.show()

# %% [markdown]
# The three plots show one mechanism. When the correct actions of step h have been seen a few
# times, their features separate and their bonus rises above the median. The policy then plans
# through step h, and visits of step h + 1 begin. The features of all steps at the end:

# %%
figure, axes = plt.subplots(1, H, figsize=(6.4, 3.2), sharey=True, layout="constrained")
for step in range(H):
    show_features(axes[step], features, step)
axes[0].set_ylabel("pair (state, action)")
plt.show()

# %% [markdown]
# In every column the correct actions have one latent and most others the second one. (Which
# latent is called 0 is arbitrary.) The rows in between have few visits; the agent does not need
# them.
#
# ## The same with the package
#
# `cu.ContrastiveUCB` is the same algorithm with a few refinements of the fit, for several seeds
# at once. `algo="no-bonus"` and `algo="uniform"` are controls, and `ucbvi` is UCB with counts
# instead of features.

# %%
figure, axes = plt.subplots(figsize=(4.8, 3), layout="constrained")
styles = {"contrastive-ucb": "-", "ucbvi": "-.", "no-bonus": "--", "uniform": ":"}
seeds = list(range(5))
for algo, style in styles.items():
    agent = cu.ContrastiveUCB([env] * 5, seed=seeds, algo=algo, negatives="exact")
    result = agent.learn(rounds=ROUNDS, progress=False)
    axes.plot(result.rounds, result.gap.mean(-1), style, label=algo)
    print(f"{algo:16} solved in round {[row['solved_at'] for row in result.summaries]}")
axes.set(xlabel="round", ylabel="suboptimality, mean of 5 seeds")
axes.legend(fontsize=8)
plt.show()

# %% [markdown]
# ## What to try next
#
# - Set the bonus to 0 in the loop (`beta = 0 * beta`) and run it again.
# - Make the lock harder or easier: `n_dead=2`, `n_dead=20`, `horizon=8`. Which of
#   `contrastive-ucb` and `ucbvi` depends more on the number of dead states, and why?
# - Replace the expected negatives by sampled ones as in the paper: `negatives="sampled"`. How
#   many more rounds does it take?
# - Define your own MDP with `cu.TabularMDP(transitions, rewards, rank=d)`.
# - Tutorial 2 applies the same bonus to two players.
