"""Random low-rank MDPs and games.

phi_h(z) ~ Dirichlet(.3) over the d latents and psi_{h,j} ~ Dirichlet(.3) over the S states, so
P_h = phi_h psi_h has rank d (Assumption 2.1 with counting measure, hence C_S^- <= 1/S). Every z
leads to a few latents and every latent to a few states; z = (s,a) in an MDP, (s,a,b) in a game.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.tabular import TabularGame, TabularMDP, action_counts

CONCENTRATION = 0.3  # of both Dirichlet distributions; small values are peaked


class LowRankMDP(TabularMDP):
    """A random MDP of rank d that starts in state 0; the same seed gives the same MDP.

    P_h = phi_h psi_h (Assumption 2.1 of the paper) with phi_h(s,a) ~ Dirichlet(0.3) over d latents,
    and psi_h,j ~ Dirichlet(0.3) over the S states for each latent j.

    Args:
        n_states: S.
        n_actions: A.
        rank: d.
        horizon: H.
        seed: Seed of the random transitions and rewards.
        reward: "sparse" pays 1 for one action in a tenth of the states at the last step, else 0.
            They are the most likely states after the first latent of the previous step, so a policy
            has to reach that latent. "linear" pays r_h(s,a) = theta_h' phi_h(s,a) with
            theta_h ~ U[0,1]^d, as in linear MDPs; a uniform policy already earns most of V*.
        render_mode: "ansi" makes `render` return a line of text; None switches rendering off.

    Examples:
        >>> import contrastive_ucb as cu
        >>> env = cu.LowRankMDP(n_states=8, n_actions=2, rank=3, horizon=4, seed=1)
        >>> env.transitions.shape
        (4, 8, 2, 8)
    """

    def __init__(
        self,
        n_states: int = 10,
        n_actions: int = 3,
        rank: int = 3,
        horizon: int = 4,
        seed: int = 0,
        reward: str = "sparse",
        *,
        render_mode: str | None = None,
    ):
        check_size("n_actions", n_actions)
        if reward not in ("sparse", "linear"):
            raise ValueError(f"reward is {reward!r}; it must be 'sparse' or 'linear'")
        rng = stream(seed, "env")
        features, measures = _draw_factors(rng, n_states, n_actions, rank, horizon)
        if reward == "sparse":
            rewards = _sparse_rewards(rng, measures, n_actions)
        else:
            theta = rng.random((horizon, rank, 1))
            rewards = np.matmul(features, theta).reshape(horizon, n_states, n_actions)
            rewards = np.minimum(rewards, 1.0)  # a convex combination, up to rounding
        super().__init__(
            Kernel(features, measures), rewards, name="lowrank", render_mode=render_mode
        )


class LowRankGame(TabularGame):
    """A random zero-sum game of rank d that starts in state 0; the same seed gives the same game.

    The transitions are drawn as in `LowRankMDP`; the rewards r_h(s,a,b) ~ U[-1,1] are independent.

    Args:
        n_states: S.
        n_actions: (A1, A2), or one number for both players.
        rank: d.
        horizon: H.
        seed: Seed of the random transitions and rewards.
        render_mode: "ansi" makes `render` return a line of text; None switches rendering off.

    Examples:
        >>> import contrastive_ucb as cu
        >>> cu.LowRankGame(n_states=6, n_actions=(3, 2), rank=3)
        LowRankGame(n_states=6, n_actions=(3, 2), horizon=3, rank=3)
    """

    def __init__(
        self,
        n_states: int = 6,
        n_actions: int | Sequence[int] = 3,
        rank: int = 3,
        horizon: int = 3,
        seed: int = 0,
        *,
        render_mode: str | None = None,
    ):
        rows, columns = action_counts(n_actions)
        rng = stream(seed, "env")
        features, measures = _draw_factors(rng, n_states, rows * columns, rank, horizon)
        super().__init__(
            Kernel(features, measures),
            rng.uniform(-1, 1, (horizon, n_states, rows, columns)),
            name="lowrank-game",
            render_mode=render_mode,
        )


def _draw_factors(
    rng: np.random.Generator, n_states: int, n_actions: int, rank: int, horizon: int
) -> tuple[Array, Array]:
    """Random features phi (H, Z, d) and measures psi (H, d, S) with Z = S * n_actions."""
    check_size("n_states", n_states)
    check_size("rank", rank)
    check_size("horizon", horizon)
    features = rng.dirichlet(np.full(rank, CONCENTRATION), (horizon, n_states * n_actions))
    measures = rng.dirichlet(np.full(n_states, CONCENTRATION), (horizon, rank))
    return features, measures


def _sparse_rewards(rng: np.random.Generator, measures: Array, n_actions: int) -> Array:
    """Pay one random action in each goal state at the last step.

    measures psi  (H, d, S); returns (H, S, A)
    """
    horizon, _, n_states = measures.shape
    n_goals = -(-n_states // 10)
    start = np.eye(1, n_states)  # with H = 1 the only visited state is state 0
    arrival = np.concatenate([start, measures[:-1, 0]])[-1]
    goals = np.argsort(-arrival, kind="stable")[:n_goals]
    rewards = np.zeros((horizon, n_states, n_actions))
    rewards[-1, goals, rng.integers(n_actions, size=n_goals)] = 1.0
    return rewards
