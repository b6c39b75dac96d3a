"""Metrics of runs: against slow implementations, resume, criteria, and episodes without a twin."""

from typing import Any

import numpy as np
import pytest
from agents.neural_play import lock_agent

from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs import Lock, LowRankMDP
from contrastive_ucb.envs.finite_twin import EmissionWalk
from contrastive_ucb.evaluation.exact import optimal_value, suboptimality
from contrastive_ucb.evaluation.trackers import EPISODES, STREAK, MDPTracker
from contrastive_ucb.planning.value_iteration import plan
from contrastive_ucb.runs.session import Session

H, S, A = 3, 5, 2


def state_distribution(table: Array, initial: Array, policy: Array) -> Array:
    """d_h(s) by loops; table (H, S, A, S)."""
    d = np.zeros((H, S))
    d[0] = initial
    for h in range(H - 1):
        for s, a, t in np.ndindex(S, A, S):
            d[h + 1, t] += d[h, s] * policy[h, s, a] * table[h, s, a, t]
    return d


@pytest.mark.parametrize("algo", ["contrastive-ucb", "epsilon-greedy"])
def test_metrics_against_a_slow_implementation(algo: str) -> None:
    mdps = [LowRankMDP(S, A, 2, H, seed=seed) for seed in range(2)]
    session = Session(ContrastiveUCB(mdps, seed=[0, 1], algo=algo))
    agent = session.agent
    policies: list[Array] = []  # that collected the data
    regret = np.zeros(2)
    optimistic, near = np.zeros((2, 2))
    roll_in = agent.roll_in
    for n, played in enumerate(session.rounds(12), start=1):
        policies.append(roll_in)
        roll_in = agent.roll_in
        assert agent.kernel is not None
        for b, mdp in enumerate(mdps):
            gap = suboptimality(mdp, agent.policies[b])
            regret[b] += gap
            assert played.figures["gap"][b] == pytest.approx(gap, abs=1e-12)
            assert played.figures["regret"][b] == pytest.approx(regret[b], abs=1e-12)
            assert played.figures["average_regret"][b] == pytest.approx(regret[b] / n, abs=1e-12)
            tilde, breve = np.zeros((2, H, S, A))
            table = mdp.transitions
            for past in policies:
                d = state_distribution(table, mdp.initial, past[b])
                tilde += d[..., None] / A / n
                for h, s, a in np.ndindex(H - 1, S, A):
                    breve[h + 1] += (d[h, s] / A * table[h, s, a] / A / n)[:, None]
            learned = agent.kernel.table()[b].reshape(H, S, A, S)
            squared = np.abs(table - learned).sum(-1) ** 2
            zeta = (tilde * squared).sum((1, 2))
            xi = (breve * squared).sum((1, 2))
            assert played.figures["zeta"][b] == pytest.approx(zeta.max(), rel=1e-9)
            assert played.figures["zeta_first"][b] == pytest.approx(zeta[0], rel=1e-9)
            assert played.figures["xi"][b] == pytest.approx(xi.max(), rel=1e-9)
            value = float(mdp.initial @ agent.values[b, 0])
            assert played.figures["optimistic_value"][b] == pytest.approx(value, abs=1e-12)
            optimistic[b] += value >= optimal_value(mdp) - 1e-9
            near[b] += value >= optimal_value(mdp) - H * np.sqrt(A * zeta[0]) - 1e-9
    for b, mdp in enumerate(mdps):
        summary = session.tracker.summary(b)
        assert summary["optimal_value"] == pytest.approx(optimal_value(mdp))
        assert summary["optimistic_fraction"] == near[b] / 12
        assert summary["strictly_optimistic_fraction"] == optimistic[b] / 12
        assert "solved_at" not in summary  # random MDPs have no criterion


def feed(agent: ContrastiveUCB, policies: list[Array]) -> MDPTracker:
    """The metrics of rounds in which the agent plans these policies (H, S, A)."""
    tracker = MDPTracker(agent)
    agent.round()  # provides a kernel; its policies are replaced
    for policy in policies:
        agent.planned = policy[None]
        tracker.follow(agent.policies)
        tracker.measure(agent, error=False)
    return tracker


@pytest.mark.parametrize(
    ("pattern", "solved_at"),
    [
        ("1" * STREAK, 1),
        ("1" * (STREAK - 1), None),
        ("1" * (STREAK - 1) + "0" + "1" * (STREAK - 1), None),
        ("001011" + "1" * STREAK, 5),
        ("0" + "1" * STREAK + "0" + "1" * (STREAK + 3), 2),
    ],
)
def test_solved_is_the_first_round_of_a_streak(pattern: str, solved_at: int | None) -> None:
    mdp = Lock(horizon=3, n_actions=3, n_dead=2)
    best = np.eye(3)[plan(mdp.kernel, mdp.rewards)[0].argmax(-1)]
    worst = np.roll(best, 1, axis=-1)
    tracker = feed(ContrastiveUCB(mdp), [best if mark == "1" else worst for mark in pattern])
    assert tracker.summary(0)["solved_at"] == solved_at


def test_the_model_error_of_large_mdps_is_measured_in_some_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("contrastive_ucb.evaluation.trackers.ERROR_CELLS", 0)
    session = Session(ContrastiveUCB(LowRankMDP(S, A, 2, H), seed=0))
    with_error = [p.step for p in session.rounds(130) if "zeta" in p.figures]
    assert with_error[-1] == 130
    assert session.tracker.measured[0] == len(with_error) < 130


# Episodes


@pytest.mark.parametrize(("what", "step"), [("observation", 1), ("reward", 0)])
def test_nan_in_an_evaluation_raises(what: str, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: a NaN was treated as action 0."""
    agent, move = lock_agent(), EmissionWalk.move
    agent.learn(2, progress=False)

    def broken(self: EmissionWalk, actions: Any, random: Any) -> Any:
        rewards = move(self, actions, random)
        if len(actions) == EPISODES and what == "observation":
            self.observations[3] = np.nan
        elif len(actions) == EPISODES:
            rewards[3] = np.nan
        return rewards

    monkeypatch.setattr(EmissionWalk, "move", broken)
    message = rf"rich-lock returned a NaN.*'{what}' at step {step} of an evaluation after round 3"
    with pytest.raises(ArithmeticError, match=message):
        agent.learn(1, progress=False)
