"""Exact steps of the proofs, which hold in every round without any probability.

| paper                      | here                 | of                                     |
|----------------------------|----------------------|----------------------------------------|
| Lemmas diff1, diff2        | `MDPSteps`           | value differences (l.678, l.712)       |
| Lemma plan                 | `MDPSteps`           | V-bar_1 and the model (l.874)          |
| Lemmas diff1-mg, diff2-mg  | `GameSteps`          | value differences (l.1220, l.1266)     |
| Lemma plan-mg              | `GameSteps`          | V-upper, V-lower and replies (l.1420)  |
| Lemmas expand1, expand2    | `OneStepBack`        | expectations (l.747, l.813)            |
| the same for games         | `OneStepBack`        | expectations (l.1293, l.1356)          |

The probes measure the difference of both sides of each equation, and the excess of the smaller side
of each inequality. The model has rewards r + beta (in games also r - beta) and transitions P^. What
concerns V-bar, V-upper or V-lower needs clip = "off", as in the paper.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB
from contrastive_ucb.bonus.elliptical import cholesky, covariance, elliptical_width
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs.kernel import Kernel, squared_distance
from contrastive_ucb.planning.markov_game import independent, reply_values
from contrastive_ucb.planning.value_iteration import greedy, occupancy, plan, policy_value
from contrastive_ucb.runs.session import Probe, Session

Figures = dict[str, Array]


def ahead(kernel: Kernel, values: Array) -> Array:
    """(P_h V_{h+1})(s, a) at all steps, with V_{H+1} = 0.   values (..., H, S) -> (..., H, S, A)"""
    later = np.concatenate([values[..., 1:, :], np.zeros_like(values[..., :1, :])], axis=-2)
    steps = [kernel.expect(h, later[..., h, :]) for h in range(later.shape[-2])]
    pairs = np.stack(steps, axis=-2)  # (..., H, Z)
    return pairs.reshape(*values.shape, -1)


def expected_sum(kernel: Kernel, policy: Array, initial: Array, terms: Array) -> Array:
    """E[sum_h terms_h(s_h, a_h)] under the policy and the kernel.

    policy, terms  (..., H, S, A)
    initial        (..., S); returns (...)
    """
    reached = occupancy(kernel, policy, initial)
    return np.asarray((reached[..., None] * policy * terms).sum((-3, -2, -1)))


class MDPSteps(Probe):
    """Both value differences and the planning lemma of Algorithm 1."""

    def __init__(self, session: Session):
        super().__init__(session)
        batch = session.tracker.batch
        q, self.optimal = plan(batch.kernel, batch.rewards)  # V*, (B, H, S)
        self.best = greedy(q)  # pi*

    def measure(self, figures: Figures, on_grid: bool) -> Figures:
        agent, tracker = self.session.agent, self.session.tracker
        if not on_grid:
            return {}
        assert isinstance(agent, ContrastiveUCB)
        assert agent.kernel is not None
        true, model, initial = tracker.batch.kernel, agent.kernel, tracker.batch.initial
        rewards, beta = agent.model.rewards(), agent.bonus
        of_best = policy_value(model, rewards + beta, self.best)
        of_last = policy_value(model, rewards + beta, agent.planned)
        earned = policy_value(true, rewards, agent.planned)
        error_of_best = ahead(true, self.optimal) - ahead(model, self.optimal)
        error_of_last = ahead(true, of_last) - ahead(model, of_last)
        best = expected_sum(model, self.best, initial, error_of_best - beta)
        last = expected_sum(true, agent.planned, initial, error_of_last - beta)
        return {
            "difference_of_best": abs(tracker.at_start(self.optimal - of_best) - best),
            "difference_of_last": abs(tracker.at_start(earned - of_last) - last),
            "planning_excess": tracker.at_start(of_best - agent.values),
        }


class GameSteps(Probe):
    """The value differences and the planning lemma of Algorithm 2."""

    def measure(self, figures: Figures, on_grid: bool) -> Figures:
        agent, tracker = self.session.agent, self.session.tracker
        if not on_grid:
            return {}
        assert isinstance(agent, ContrastiveULCB)
        assert agent.kernel is not None
        true, model, initial = tracker.batch.kernel, agent.kernel, tracker.batch.initial
        rewards, beta = agent.model.rewards(), agent.bonus
        row, column, bounds = agent.last.row, agent.last.column, agent.bounds

        above = reply_values(true, rewards, column, fixed="column")  # V^{br(nu), nu}
        below = reply_values(true, rewards, row, fixed="row")  # V^{pi, br(pi)}
        q_above, q_below = (
            (rewards + ahead(true, values)).reshape(bounds.joint.shape) for values in (above, below)
        )
        best_row = greedy((q_above * column[..., None, :]).sum(-1))
        best_column = greedy(-(q_below * row[..., :, None]).sum(-2))
        joint_above, joint_below = (
            independent(*pair).reshape(beta.shape)
            for pair in ((best_row, column), (row, best_column))
        )
        in_model = policy_value(model, rewards + beta, joint_above)
        upper_sum = expected_sum(
            model, joint_above, initial, ahead(true, above) - ahead(model, above) - beta
        )
        upper = abs(tracker.at_start(above - in_model) - upper_sum)
        in_model = policy_value(model, rewards - beta, joint_below)
        lower_sum = expected_sum(
            model, joint_below, initial, ahead(model, below) - ahead(true, below) - beta
        )
        lower = abs(tracker.at_start(in_model - below) - lower_sum)

        width = bounds.v_upper - bounds.v_lower
        width_sum = expected_sum(
            true, agent.planned, initial, 2 * beta + ahead(model, width) - ahead(true, width)
        )
        # The lemma has replies of the true game; those of the model gain at least as much.
        gain_above = reply_values(model, rewards + beta, column, fixed="column") - bounds.v_upper
        gain_below = bounds.v_lower - reply_values(model, rewards - beta, row, fixed="row")
        gain = np.maximum(tracker.at_start(gain_above), tracker.at_start(gain_below))
        allowed = tracker.batch.horizon * agent.config.iota / np.sqrt(agent.n_rounds)
        return {
            "difference_of_replies": np.maximum(upper, lower),
            "difference_of_bounds": abs(tracker.at_start(width) - width_sum),
            "gain_over_allowed": gain / allowed,
        }


class OneStepBack(Probe):
    """Both one-step-back inequalities, for g(z) = |P(.|z) - P^(.|z)|_1 and the policy of the round.

    The expectation of g at step h is bounded by the expected width of phi at step h - 1: of phi^ in
    the model, and of phi* with the true transitions. At h = 1 both are the same, without a model.
    In games the policy is joint. Roll-ins must be those of the policy, with epsilon = 0.

    visited  k rho_h(z)  (B, H, Z)  sum of the distributions of the roll-in policies
    """

    LARGEST = 2.0  # B, the largest g

    def __init__(self, session: Session):
        super().__init__(session)
        self.visited = self._distribution(session.tracker.batch.kernel)  # of pi^0

    def measure(self, figures: Figures, on_grid: bool) -> Figures:
        true = self.session.tracker.batch.kernel
        measured = self._ratios() if on_grid else {}
        self.visited = self.visited + self._distribution(true)
        return measured

    def _ratios(self) -> Figures:
        agent, tracker = self.session.agent, self.session.tracker
        assert agent.kernel is not None
        true, model, k = tracker.batch.kernel, agent.kernel, agent.n_rounds
        n_actions, floor = tracker.batch.n_actions, float(agent.negatives.min())
        _, ridge = agent.model.schedule(k)
        squares = squared_distance(true, model)  # g^2, (B, H, Z)
        zeta = (tracker.rolled_in * squares).sum(-1)  # k zeta_h, (B, H)
        xi = (tracker.one_later * squares).sum(-1)
        largest = self.LARGEST**2 * ridge
        rank = model.features.shape[-1]
        inside = 2 * self.LARGEST**2 * zeta[:, :-1] + 2 * n_actions * xi[:, 1:]
        inside = inside + largest * rank / floor**2
        reached = self._distribution(model)
        width = self._width(model.features, tracker.rolled_in, ridge, reached)
        in_model = np.sqrt(inside) * width[:, :-1]

        rank = true.features.shape[-1]
        inside = n_actions * zeta[:, 1:] + largest * rank
        really = self._distribution(true)
        width = self._width(true.features, self.visited, ridge, really)
        in_truth = np.sqrt(inside) * width[:, :-1]

        of_model, of_truth = ((d * np.sqrt(squares)).sum(-1) for d in (reached, really))
        return {
            "first_step_over_bound": of_truth[:, 0] / np.sqrt(n_actions * zeta[:, 0] / k),
            "model_step_over_bound": (of_model[:, 1:] / in_model).max(-1),
            "true_step_over_bound": (of_truth[:, 1:] / in_truth).max(-1),
        }

    def _distribution(self, kernel: Kernel) -> Array:
        """d_h^pi(z) of the policy of the last round   (B, H, Z)"""
        agent, batch = self.session.agent, self.session.tracker.batch
        reached = occupancy(kernel, agent.planned, batch.initial)[..., None] * agent.planned
        return np.asarray(reached.reshape(*reached.shape[:2], -1))

    @staticmethod
    def _width(phi: Array, visits: Array, ridge: float, reached: Array) -> Array:
        """E |phi_h| in the norm of inv(Sigma_h), Sigma = sum of phi phi' + lambda I."""
        width = elliptical_width(phi, cholesky(covariance(phi, visits, ridge)))
        return np.asarray((reached * width).sum(-1))

    def state_of(self, seed: int) -> dict[str, Any]:
        return {"visited": self.visited[seed]}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        self.visited = np.stack([state["visited"] for state in states])
