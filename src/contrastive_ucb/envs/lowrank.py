"""Random low-rank MDPs: every latent leads to a few states, every pair to a few latents.

phi_h(s,a) ~ Dirichlet(.3) over the d latents and psi_{h,j} ~ Dirichlet(.3) over the S states, so
P_h = phi_h psi_h has rank d (Assumption 2.1 with counting measure, hence C_S^- <= 1/S).
"""

from __future__ import annotations

import numpy as np

from contrastive_ucb.arrays import Array
from contrastive_ucb.checks import check_size
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.tabular import TabularMDP
from contrastive_ucb.training.streams import stream

CONCENTRATION = 0.3  # of both Dirichlet distributions; small means peaked


class LowRankMDP(TabularMDP):
    """A random MDP of rank d that starts in state 0; the same seed gives the same MDP.

    reward "sparse"  1 for one action in a tenth of the states at the last step, 0 elsewhere: the
                     states where the first latent of the step before mostly leads. A policy has to
                     steer into that latent and then choose right, so a uniform one earns little.
    reward "linear"  r_h(s,a) = theta_h' phi_h(s,a), theta_h ~ U[0,1]^d, as in linear MDPs. A
                     uniform policy already earns most of V*.
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
        check_size("n_states", n_states)
        check_size("n_actions", n_actions)
        check_size("rank", rank)
        check_size("horizon", horizon)
        if reward not in ("sparse", "linear"):
            raise ValueError(f"reward is {reward!r}; it must be 'sparse' or 'linear'")
        rng = stream(seed, "env")
        features = rng.dirichlet(np.full(rank, CONCENTRATION), (horizon, n_states * n_actions))
        measures = rng.dirichlet(np.full(n_states, CONCENTRATION), (horizon, rank))
        if reward == "sparse":
            rewards = _sparse_rewards(rng, measures, n_actions)
        else:
            theta = rng.random((horizon, rank, 1))
            rewards = np.matmul(features, theta).reshape(horizon, n_states, n_actions)
            rewards = np.minimum(rewards, 1.0)  # a mean of numbers in [0, 1], up to rounding
        super().__init__(
            Kernel(features, measures), rewards, name="lowrank", render_mode=render_mode
        )


def _sparse_rewards(rng: np.random.Generator, measures: Array, n_actions: int) -> Array:
    """Pay one drawn action in each goal state at the last step.

    measures psi  (H, d, S); returns (H, S, A)
    """
    horizon, _, n_states = measures.shape
    n_goals = -(-n_states // 10)
    start = np.eye(1, n_states)  # state 0, which is where a single step is taken
    arrival = np.concatenate([start, measures[:-1, 0]])[-1]
    goals = np.argsort(-arrival, kind="stable")[:n_goals]
    rewards = np.zeros((horizon, n_states, n_actions))
    rewards[-1, goals, rng.integers(n_actions, size=n_goals)] = 1.0
    return rewards
