"""A low-rank MDP with the state space [0, 1]; its values are computed by quadrature.

| paper      | here         |                                                                   |
|------------|--------------|-------------------------------------------------------------------|
| psi_h,j    | `measures`   | 1 + a cos(2 pi j s'), a density on [0, 1] for every j = 1..d      |
| phi_h(s,a) | `features`   | in the simplex, with norm at most 1 / (1 + a)                     |
| r_h(s,a)   | `rewards`    | phi_h(s,a)' theta_h with theta_h in [0, 1]^d                      |

So psi / (1 + a) and (1 + a) phi satisfy Assumption 2.1. Features and densities are smooth with
period 1, and for such functions the trapezoidal rule on G equidistant nodes is exact up to
frequency G: the finite MDP on these nodes is the twin. Errors remain because a maximum over actions
has kinks and the value of a policy jumps where its action changes: with 1,024 nodes the error of V*
is at most 1e-6 and that of the value of a policy at most 2e-4.
"""

from __future__ import annotations

from math import sqrt
from types import MappingProxyType

import numpy as np

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.checks import check_number, check_size
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.observed import ObservedMDP, Random, Twin, Walk
from contrastive_ucb.envs.tabular import TabularMDP

NODES = 1024
SHARPNESS = 3.0  # of the features as functions of the state


class ContinuousMDP(ObservedMDP):
    """A low-rank MDP with states in [0, 1], A actions and H steps; the first state is uniform.

    The densities psi_j(s') = 1 + a cos(2 pi j s') and the features phi_h(s,a), which lie in the
    simplex, satisfy Assumption 2.1 of the paper up to the factor 1 + a. Values are computed by
    quadrature; with 1,024 nodes the error of V* is at most 1e-6.

    Args:
        n_actions: A.
        rank: d.
        horizon: H.
        amplitude: a in (0, sqrt(d) - 1), at most 1, the deviation of the densities from uniform.
            Near sqrt(d) - 1 actions have little effect.
        seed: Seed of the random features and rewards.
        nodes: Number of quadrature nodes, at least 4 d.

    Raises:
        ValueError: The amplitude is out of range, or there are too few nodes.

    Examples:
        >>> import contrastive_ucb as cu
        >>> env = cu.ContinuousMDP(n_actions=2, rank=4, horizon=3)
        >>> observation, info = env.reset(seed=0)
        >>> observation.shape
        (1,)
    """

    reveals_reward = True
    suggested = MappingProxyType(
        {
            "density": "uniform",
            "harmonics": 4,
            "trajectories": 10,
            "warm_start": "on",  # there are no absorbing states, and more data reduces the error
            "fit_steps": 25,
            "learning_rate": 0.02,
            "n_draws": 64,
        }
    )

    def __init__(
        self,
        n_actions: int = 3,
        rank: int = 4,
        horizon: int = 4,
        amplitude: float = 0.5,
        seed: int = 0,
        nodes: int = NODES,
    ):
        check_size("nodes", nodes, least=4 * rank)
        for name, size in (("n_actions", n_actions), ("rank", rank), ("horizon", horizon)):
            check_size(name, size)
        # Mixing points of the simplex with its center by this weight gives norm 1 / (1 + a).
        check_number("amplitude", amplitude)
        self.purity = _purity(rank, amplitude)
        if not self.purity > 0:
            raise ValueError(
                "amplitude must be above 0, at most 1 and below sqrt(rank) - 1 ="
                f" {sqrt(rank) - 1:.3g}, so that features in the simplex have norm 1/(1+a); got"
                f" {amplitude}, use a smaller amplitude or a larger rank"
            )
        self.name, self.horizon, self.action_shape = "continuous", horizon, (n_actions,)
        self.n_actions, self.seed = n_actions, seed
        self.low, self.high, self.rank = np.zeros(1), np.ones(1), rank
        self.amplitude, self.nodes = amplitude, nodes
        random = stream(seed, "env")
        self.centers = random.random((horizon, n_actions, rank))
        self.weights = random.random((horizon, rank))  # theta
        self._set_spaces()

    def features(self, step: int, states: Array) -> Array:
        """Compute phi_h(s,a) for all actions.

        Args:
            step: h, from 0.
            states: States, shape (n,).

        Returns:
            Features of shape (n, A, d).
        """
        angle = 2 * np.pi * (states[:, None, None] - self.centers[step])
        pure = np.exp(SHARPNESS * np.cos(angle))
        pure /= pure.sum(-1, keepdims=True)
        return np.asarray(1 / self.rank + self.purity * (pure - 1 / self.rank))

    def measures(self, states: Array) -> Array:
        """Compute the densities psi_j(s'), which are the same at every step.

        Args:
            states: States, shape (n,).

        Returns:
            Densities of shape (d, n).
        """
        order = np.arange(1, self.rank + 1)[:, None]
        return np.asarray(1 + self.amplitude * np.cos(2 * np.pi * order * states))

    def rewards(self, step: int, observations: Array) -> Array:
        return np.asarray(self.features(step, observations[:, 0]) @ self.weights[step])

    def begin(self, count: int, random: Random) -> ContinuousWalk:
        return ContinuousWalk(self, random.random((count, 1)))

    def twin(self) -> Twin:
        nodes = np.arange(self.nodes) / self.nodes
        steps = range(self.horizon)
        phi = np.stack([self.features(h, nodes).reshape(-1, self.rank) for h in steps])
        psi = np.tile(self.measures(nodes) / self.nodes, (self.horizon, 1, 1))
        rewards = np.stack([self.rewards(h, nodes[:, None]) for h in steps])
        uniform = np.full(self.nodes, 1 / self.nodes)
        env = TabularMDP(Kernel(phi, psi), rewards, uniform, name=self.name)
        return Twin(env, np.tile(nodes[:, None], (self.horizon, 1, 1)), is_even=True)


class ContinuousWalk(Walk):
    """Parallel trajectories of a ContinuousMDP; observed rewards are the means."""

    def __init__(self, env: ContinuousMDP, observations: Array):
        self.env, self.observations, self.step = env, observations, 0

    def move(self, actions: IntArray, random: Random) -> Array:
        env, count = self.env, len(actions)
        at = np.arange(count), actions
        phi = env.features(self.step, self.observations[:, 0])[at]  # (n, d)
        rewards = env.rewards(self.step, self.observations)[at]
        uniform = random.random((3, count))
        order = 1 + (phi.cumsum(-1)[:, :-1] <= uniform[0][:, None]).sum(-1)
        self.observations = draw_cosine(uniform[1], uniform[2], order, env.amplitude)[:, None]
        self.step += 1
        return np.asarray(rewards)


def _purity(rank: int, amplitude: float) -> float:
    """Weight of pure features against the center of the simplex; 0 if the amplitude is too large.

    Just below the limit the result can be rounded to 0, too.
    """
    if not (0 < amplitude <= 1 and amplitude < sqrt(rank) - 1):
        return 0.0
    return sqrt(max((1 + amplitude) ** -2 - 1 / rank, 0.0) / (1 - 1 / rank))


def draw_cosine(start: Array, coin: Array, order: IntArray, amplitude: float) -> Array:
    """Draws from the density 1 + a cos(2 pi j s) on [0, 1], from two uniform numbers each.

    Half a period further the cosine has the opposite sign, so moving a uniform draw by half a
    period with probability (1 - a cos) / 2 gives the density without inversion or rejection.
    """
    moves = 2 * coin < 1 - amplitude * np.cos(2 * np.pi * order * start)
    return np.asarray((start + moves / (2 * order)) % 1.0)
