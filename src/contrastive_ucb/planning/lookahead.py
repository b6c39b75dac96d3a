"""The policy of a round as a function of an observation, in place of a table.

With infinitely many states, V_{h+1} is needed in one place only: P^V(z) = phi^(z)' w_h with
w_h = E_{s' ~ P^-}[psi~(s') V_{h+1}(s')], one vector of d numbers a step. So

    Q_h(o, a) = r_h(o, a) +- beta_h(o, a) + phi^_h(o, a)' w_h

at any observation, and a round is kept as its networks, a Cholesky factor and w: no draws, no
tables, no replay.
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
    """beta_h and the learnt r_h, both functions of phi^.

    chol         (H, d, d)  Cholesky factor of Sigma_h, of the bonus data
    scale, cap              gamma_k and 2H
    reward       (H, d)     weights of the ridge regression of rewards on phi^; None: known rewards
    reward_chol  (H, d, d)  Cholesky factor of lambda_k I + the sum of phi^ phi^' over all data, for
                            the width of the learnt reward. The regression has a ridge of its
                            own, so this is not the matrix that its weights are solved with.
    reward_scale            what that width is multiplied with, alpha * reward_alpha
    """

    chol: Array
    scale: float
    cap: float
    reward: Array | None = None
    reward_chol: Array | None = None
    reward_scale: float = 0.0

    def beta(self, phi: Array, steps: slice) -> Array:
        """min{gamma ||phi^||, 2H} plus the width of the learnt reward.   (H', n, d) -> (H', n)"""
        features = torch.from_numpy(phi)
        width = elliptical_width(features, torch.from_numpy(self.chol[steps]))
        beta = bonus(width, self.scale, self.cap).numpy()
        if self.reward_chol is not None:
            own = elliptical_width(features, torch.from_numpy(self.reward_chol[steps]))
            beta = beta + self.reward_scale * own.numpy()
        return np.asarray(beta)


@dataclass(frozen=True)
class Lookahead:
    """Q-upper (and in games Q-lower) of one round at any observation.

    ahead      (n, H, d)  w_h of each bound, the upper one first
    low, high  (H,)       what Q is clipped to; None leaves it as it is
    """

    fitted: Fitted
    uncertainty: Uncertainty
    ahead: Array
    low: Array | None
    high: Array | None

    def bounds(self, step: int, observations: Array, known: KnownReward) -> list[Array]:
        """Q at one step, a bound each.   observations (n, D) -> (n, A)"""
        phi = self.fitted.at(step).features(observations[None])[0]  # (n, A, d)
        at = slice(step, step + 1)
        beta = self.uncertainty.beta(phi.reshape(1, -1, phi.shape[-1]), at).reshape(phi.shape[:2])
        weights = self.uncertainty.reward
        reward = known(step, observations) if weights is None else phi @ weights[step]
        found = []
        for sign, ahead in zip(SIGNS, self.ahead, strict=False):
            q = reward + sign * beta + phi @ ahead[step]
            if self.low is not None and self.high is not None:
                q = np.clip(q, self.low[step], self.high[step])
            found.append(q)
        return found

    def state_dict(self) -> dict[str, Any]:
        own = {"ahead": self.ahead, "low": self.low, "high": self.high}
        return {"fitted": self.fitted.state_dict(), "uncertainty": vars(self.uncertainty), **own}

    @staticmethod
    def of_state(shape: NeuralClass, state: dict[str, Any]) -> Lookahead:
        fitted = Fitted.of_state(shape, state["fitted"])
        uncertainty = Uncertainty(**state["uncertainty"])
        return Lookahead(fitted, uncertainty, state["ahead"], state["low"], state["high"])


def kernel_on(fitted: Fitted, states: Observations, nodes: Observations) -> Kernel:
    """P^ between finitely many observations: those a step starts from and those it leads to.

    states  (H, m, D)  at steps 1..H
    nodes   (H, m, D)  at steps 2..H+1, equal shares of P^-; returns features (1, H, m A, d) and
                       measures (1, H, d, m), which `plan` takes as any other kernel
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
