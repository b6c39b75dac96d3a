"""The policy of a round as a function of an observation, instead of a table.

V_{h+1} is used only in P^V(z) = phi^(z)' w_h with the vector w_h = E_{s' ~ P^-}[psi~(s')
V_{h+1}(s')] of d numbers per step. So

    Q_h(o, a) = r_h(o, a) +- beta_h(o, a) + phi^_h(o, a)' w_h

at any observation, and the policy of a round is stored as its networks, a Cholesky factor and w.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from contrastive_ucb.bonus.elliptical import bonus, elliptical_width
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.representation.neural import Fitted, NeuralClass, Observations

SIGNS = (1.0, -1.0)  # of the bonus in the upper bound and, in games, the lower one
KnownReward = Callable[[int, Array], Array]  # step h, observations (n, D) -> (n, A)


@dataclass(frozen=True)
class Uncertainty:
    """beta_h and the learned r_h, both functions of phi^.

    chol         (H, d, d)  Cholesky factor of Sigma_h
    scale, cap              gamma_k and 2H
    reward       (H, d)     weights of the ridge regression of rewards on phi^; None: known
    reward_chol  (H, d, d)  Cholesky factor of lambda_k I + the sum of phi^ phi^' over all data, for
                            the width of the learned reward; the regression itself uses another
                            ridge
    reward_scale            the factor of that width, alpha * reward_alpha
    """

    chol: Array
    scale: float
    cap: float
    reward: Array | None = None
    reward_chol: Array | None = None
    reward_scale: float = 0.0

    def beta(self, phi: Array, steps: slice) -> Array:
        """min{gamma ||phi^||, 2H} plus the width of the learned reward.   (H', n, d) -> (H', n)"""
        features = torch.from_numpy(phi)
        width = elliptical_width(features, torch.from_numpy(self.chol[steps]))
        beta = bonus(width, self.scale, self.cap).numpy()
        if self.reward_chol is not None:
            reward_width = elliptical_width(features, torch.from_numpy(self.reward_chol[steps]))
            beta = beta + self.reward_scale * reward_width.numpy()
        return np.asarray(beta)


@dataclass(frozen=True)
class Lookahead:
    """Q-upper (and in games Q-lower) of one round at any observation.

    ahead      (n, H, d)  w_h of each bound, the upper one first
    low, high  (H,)       the range of Q; None: not clipped
    """

    fitted: Fitted
    uncertainty: Uncertainty
    ahead: Array
    low: Array | None
    high: Array | None

    def bounds(self, step: int, observations: Array, known: KnownReward) -> list[Array]:
        """Q-upper, and in games Q-lower, at one step.   observations (n, D) -> (n, A)"""
        phi = self.fitted.at(step).features(observations[None])[0]  # (n, A, d)
        at = slice(step, step + 1)
        beta = self.uncertainty.beta(phi.reshape(1, -1, phi.shape[-1]), at).reshape(phi.shape[:2])
        weights = self.uncertainty.reward
        reward = known(step, observations) if weights is None else phi @ weights[step]
        bounds = []
        for sign, ahead in zip(SIGNS, self.ahead, strict=False):
            q = reward + sign * beta + phi @ ahead[step]
            if self.low is not None and self.high is not None:
                q = np.clip(q, self.low[step], self.high[step])
            bounds.append(q)
        return bounds

    def state_dict(self) -> dict[str, Any]:
        return {
            **vars(self),
            "fitted": self.fitted.state_dict(),
            "uncertainty": vars(self.uncertainty),
        }

    @staticmethod
    def of_state(shape: NeuralClass, state: dict[str, Any]) -> Lookahead:
        fitted = Fitted.of_state(shape, state["fitted"])
        uncertainty = Uncertainty(**state["uncertainty"])
        return Lookahead(fitted, uncertainty, state["ahead"], state["low"], state["high"])


def kernel_on(fitted: Fitted, states: Observations, nodes: Observations) -> Kernel:
    """P^ between finitely many observations: current states and next states of every step.

    states  (H, m, D)  at steps 1..H
    nodes   (H, m, D)  at steps 2..H+1, equal shares of P^-

    returns features (1, H, m A, d) and measures (1, H, d, m)
    """
    phi = fitted.features(states)
    return Kernel(phi.reshape(1, len(phi), -1, phi.shape[-1]), fitted.measures(nodes)[None])


def ahead_of(kernel: Kernel, values: Array) -> Array:
    """w_h = sum over the nodes of psi^_h V_{h+1}, zero at the last step.

    kernel of one seed, values (H, m) at the states; returns (H, d)
    """
    assert kernel.measures is not None
    later = np.concatenate([values[1:], np.zeros_like(values[:1])])
    return np.asarray(np.matmul(kernel.measures[0], later[..., None])[..., 0])
