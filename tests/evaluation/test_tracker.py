"""The accounts of a run against a slow twin that keeps every policy and averages anew."""

import numpy as np
import pytest

from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs import Lock, LowRankMDP
from contrastive_ucb.evaluation.exact import optimal_value, suboptimality
from contrastive_ucb.evaluation.trackers import STREAK, MDPTracker
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
def test_figures_equal_a_slow_twin(algo: str) -> None:
    mdps = [LowRankMDP(S, A, 2, H, seed=seed) for seed in range(2)]
    session = Session(ContrastiveUCB(mdps, seed=[0, 1], algo=algo))
    agent = session.agent
    policies: list[Array] = []  # those that collected the data
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
            learnt = agent.kernel.table()[b].reshape(H, S, A, S)
            squared = np.abs(table - learnt).sum(-1) ** 2
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
        assert "solved_at" not in summary  # a random MDP is not a task


def feed(agent: ContrastiveUCB, policies: list[Array]) -> MDPTracker:
    """The accounts of rounds in which the agent would have planned these policies (H, S, A)."""
    tracker = MDPTracker(agent)
    agent.round()  # for a kernel; what it planned is replaced
    for policy in policies:
        agent.policies = policy[None]
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
        ("0" + "1" * STREAK + "0" + "1" * (STREAK + 3), 2),  # the first streak counts
    ],
)
def test_solved_is_the_first_round_of_a_streak(pattern: str, solved_at: int | None) -> None:
    mdp = Lock(horizon=3, n_actions=3, n_dead=2)
    best = np.eye(3)[plan(mdp.kernel, mdp.rewards)[0].argmax(-1)]
    worst = np.roll(best, 1, axis=-1)
    tracker = feed(ContrastiveUCB(mdp), [best if mark == "1" else worst for mark in pattern])
    assert tracker.summary(0)["solved_at"] == solved_at


def test_a_policy_may_lose_the_solved_gap_but_no_more() -> None:
    mdp = Lock(horizon=2, n_actions=3, n_dead=2)
    best = np.eye(3)[plan(mdp.kernel, mdp.rewards)[0].argmax(-1)]
    worst = np.roll(best, 1, axis=-1)
    loss = suboptimality(mdp, worst)
    for share, solved in ((0.049 / loss, 1), (0.2, 0)):
        mixed = best.copy()
        mixed[0] = (1 - share) * best[0] + share * worst[0]
        gap = suboptimality(mdp, mixed)
        assert (gap <= 0.05) == bool(solved)
        assert feed(ContrastiveUCB(mdp), [mixed] * STREAK).solved_at[0] == solved


def test_state_goes_round() -> None:
    def fresh() -> Session:
        mdps = [Lock(horizon=2, n_actions=2, n_dead=2, seed=seed) for seed in range(2)]
        return Session(ContrastiveUCB(mdps, seed=[0, 1], negatives="exact"))

    whole, first, second = fresh(), fresh(), fresh()
    expected = [played.figures for played in whole.rounds(20)]
    list(first.rounds(10))
    second.load_states([first.state_of(seed) for seed in range(2)])
    for now, before in zip(second.rounds(20), expected[10:], strict=True):
        for name, value in before.items():
            np.testing.assert_array_equal(now.figures[name], value)
    np.testing.assert_array_equal(whole.tracker.solved_at, second.tracker.solved_at)
    assert whole.tracker.summary(1) == second.tracker.summary(1)


def test_the_model_error_of_a_large_mdp_is_measured_on_the_grid_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("contrastive_ucb.evaluation.trackers.ERROR_CELLS", 0)
    session = Session(ContrastiveUCB(LowRankMDP(S, A, 2, H), seed=0))
    with_error = [p.number for p in session.rounds(130) if "zeta" in p.figures]
    assert with_error[-1] == 130
    assert session.tracker.measured[0] == len(with_error) < 130
