"""Exact steps of the proofs, which hold in every round without any probability.

| paper                      | here                 | of                                     |
|----------------------------|----------------------|----------------------------------------|
| Lemmas diff1, diff2        | `MDPSteps`           | value differences (l.678, l.712)       |
| Lemma plan                 | `MDPSteps`           | V-bar_1 and the model (l.874)          |
| Lemmas diff1-mg, diff2-mg  | `GameSteps`          | value differences (l.1220, l.1266)     |
| Lemma plan-mg              | `GameSteps`          | V-upper, V-lower and replies (l.1420)  |

The probes measure the difference of both sides of each equation, and the excess of the smaller side
of each inequality. The model has rewards r + beta (in games also r - beta) and transitions P^. What
concerns V-bar, V-upper or V-lower needs clip = "off", as in the paper.
"""

from __future__ import annotations

import numpy as np

from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs.kernel import Kernel
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
