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
# # 2. A zero-sum game and its equilibrium
#
# You define a two-player game, compute its Nash equilibrium, and let Contrastive ULCB (Algorithm
# 2 of the paper) learn it without knowing the transitions. Read tutorial 1 first; features and
# bonus are the same here.
#
# ## Matrix games and exploitability
#
# In rock-paper-scissors the row player maximizes and the column player minimizes this payoff:

# %%
import matplotlib.pyplot as plt
import numpy as np

import contrastive_ucb as cu

payoff = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
nash = cu.solve_nash(payoff)
print("equilibrium:", nash.row.round(3), nash.column.round(3))

# %% [markdown]
# The quality of a pair of policies is its **exploitability** (duality gap): how much the row
# player gains by a best response to the column player, plus the reverse. It is 0 only in an
# equilibrium. For a matrix game it is one line. Here the row player favors rock more and more:

# %%
uniform = np.full(3, 1 / 3)
for share in (1 / 3, 0.5, 0.8, 1.0):
    row = np.array([share, (1 - share) / 2, (1 - share) / 2])
    gap = (payoff @ uniform).max() - (row @ payoff).min()
    print(f"rock with probability {share:.2f}: exploitability {gap:.2f}")

# %% [markdown]
# ## A Markov game: pursuit on a ring
#
# A pursuer (row) and an evader (column) move on a ring of five cells for H = 4 steps. Both choose
# left, stay or right at the same time, and each move fails with probability 0.2. The state is the
# distance from the pursuer to the evader. The pursuer gets 1 in every step that starts at
# distance 0.

# %%
N, H = 5, 4
moves, success = [-1, 0, 1], 0.8
P, r = np.zeros((N, 3, 3, N)), np.zeros((N, 3, 3))  # axes: state, row action, column action
for s, a, b in np.ndindex(N, 3, 3):
    for moved_row, p in ((moves[a], success), (0, 1 - success)):
        for moved_column, q in ((moves[b], success), (0, 1 - success)):
            P[s, a, b, (s - moved_row + moved_column) % N] += p * q
r[0] = 1
game = cu.TabularGame(np.tile(P, (H, 1, 1, 1, 1)), np.tile(r, (H, 1, 1, 1)), initial=2, rank=N)

equilibrium = cu.nash(game)
print(f"value of the game: {equilibrium.value:.3f}")
print("first step at distance 2 (left, stay, right):")
print("  pursuer", equilibrium.row[0, 2].round(2))
print("  evader ", equilibrium.column[0, 2].round(2))

# %% [markdown]
# In equilibrium both players randomize at the start. A pursuer who always moves to the nearer
# side would be predictable.
#
# ## Learn it
#
# The agent sees states, actions and rewards, but not P. It estimates two value functions with the
# learned features: Q-upper = r + bonus + P V-upper for the row player, and Q-lower = r - bonus +
# P V-lower for the column player. In every state it solves the general-sum game (Q-upper,
# Q-lower) for a coarse correlated equilibrium, and both players follow it in the next round. So
# each player is optimistic for itself, and both explore.

# %%
agent = cu.ContrastiveULCB(game, seed=0, negatives="exact", alpha=0.3)
result = agent.learn(rounds=1500, progress=False)
row, column = agent.policies
print(f"exploitability {cu.exploitability(game, row, column):.3f}")
print(f"certificate    {agent.certificate:.3f}")
value = cu.game_value(game, row, column)
print(f"value          {value:.3f}, in equilibrium {equilibrium.value:.3f}")

# %% [markdown]
# `agent.certificate` is V-upper - V-lower at the start. It does not use the true game: if the
# bonus covers the error of the model, the exploitability is at most the certificate (plus a small
# tolerance of the equilibrium solver). `agent.policies` are those of the round with the smallest
# one.

# %%
curves = result.curves
figure, axes = plt.subplots(2, 1, figsize=(4.8, 5.6), sharex=True, layout="constrained")
axes[0].fill_between(
    curves["step"], curves["lower_value"], curves["upper_value"], color="#D55E00", alpha=0.3
)
axes[0].axhline(equilibrium.value, color="#333333", linestyle="--")
axes[0].set_title("V-lower to V-upper, and the value of the game (dashed)", fontsize=10)
axes[1].semilogy(curves["step"], curves["certificate"], color="#D55E00", label="certificate")
axes[1].semilogy(curves["step"], curves["gap"], color="#0072B2", label="exploitability")
axes[1].set_title("certificate and exploitability of each round", fontsize=10)
axes[1].set(xlabel="round", xscale="log")
axes[1].legend()
plt.show()

# %% [markdown]
# The interval contains the value of the game in every round, and the certificate stays above the
# exploitability. It is conservative. A smaller `alpha` narrows the interval, but at some point it
# is no longer valid.
#
# How does the learned pursuer differ from the exact one? A game can have several equilibria, so
# compare what the policies achieve, not their probabilities:

# %%
states = [f"distance {s}" for s in range(N)]
figure, axes = plt.subplots(2, 2, figsize=(4.8, 4), sharex=True, sharey=True, layout="constrained")
tables = {"pursuer": (row, equilibrium.row), "evader": (column, equilibrium.column)}
for line, (player, (learned, exact)) in zip(axes, tables.items(), strict=True):
    for cell, table, kind in zip(line, (learned, exact), ("learned", "exact"), strict=True):
        cell.imshow(table[0], cmap="Blues", vmin=0, vmax=1, aspect="auto")
        cell.set_title(f"{player}, {kind}", fontsize=10)
        for s, a in np.ndindex(N, 3):
            value = table[0, s, a]
            color = "white" if value > 0.6 else "black"
            cell.text(a, s, f"{value:.2f}", ha="center", va="center", color=color, fontsize=8)
axes[0, 0].set(xticks=range(3), yticks=range(N), yticklabels=states)
axes[0, 0].set_xticklabels(["left", "stay", "right"])
figure.suptitle("probabilities of the actions at the first step", fontsize=10)
plt.show()
print(f"learned pursuer against exact evader {cu.game_value(game, row, equilibrium.column):.3f}")
print(f"exact pursuer against learned evader {cu.game_value(game, equilibrium.row, column):.3f}")

# %% [markdown]
# The episode starts at distance 2, so at the first step only that row is played. The other rows
# of the first step cannot be reached, and there the agent has no data.
#
# ## When the bonus is needed
#
# The pursuit game is easy to explore: random moves reach every distance. `cu.LockGame` is not. At
# each step an intruder (row) chooses a key and a guard (column) chooses a gate, and only the
# right pair leads to the next step. Players that have not seen the last step do not know that it
# pays 1, and their policies are exploitable.

# %%
lock = cu.LockGame(horizon=3, seed=0)
figure, axes = plt.subplots(figsize=(4.8, 3), layout="constrained")
styles = {"contrastive-ulcb": "-", "no-bonus": "--", "uniform": ":"}
for algo, style in styles.items():
    agent = cu.ContrastiveULCB([lock] * 3, seed=[0, 1, 2], algo=algo, negatives="exact")
    result = agent.learn(rounds=300, progress=False)
    axes.plot(result.rounds, result.gap.mean(-1), style, label=algo)
    print(f"{algo:16} solved in round {[row['solved_at'] for row in result.summaries]}")
axes.set(xlabel="round", ylabel="exploitability, mean of 3 seeds")
axes.legend(fontsize=8)
plt.show()

# %% [markdown]
# `uniform` collects data with random actions and then computes an equilibrium of the estimated
# game, `no-bonus` sets the bonus to 0.
#
# ## What to try next
#
# - Let the evader move two cells, or give the pursuer a bonus for distance 1. How does the value
#   change?
# - Set `alpha=0.1` or `0.02` in the pursuit game. In how many rounds is the certificate still
#   valid?
# - Play against the agent: `agent.predict(np.array([step, state]))` draws the actions of both
#   players.
# - Lengthen the lock: `cu.LockGame(horizon=4)` needs more rounds. How many?
# - Tutorial 3 replaces states by noisy observations and tables by networks.
