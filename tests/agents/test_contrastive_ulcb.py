"""Algorithm 2: each line against loops; batches, checkpoints, inputs; runs of all baselines."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agents.neural_play import assert_same_state
from planning.matrix_oracles import gain_by_loops

import contrastive_ucb as cu
from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB
from contrastive_ucb.agents.finite.presets import GAME_PRESETS
from contrastive_ucb.core.checkpoint import load_checkpoint, save_checkpoint
from contrastive_ucb.envs import LockGame, LowRankGame, LowRankMDP
from contrastive_ucb.evaluation.exact import exploitability
from contrastive_ucb.runs.session import Session

H, S, A1, A2 = 3, 4, 2, 3

VARIANTS: dict[str, dict[str, Any]] = {
    **{name: {"algo": name} for name in GAME_PRESETS},
    "exact": {"negatives": "exact"},
    "finite": {"function_class": "finite", "class_size": 5},
    "theory": {"schedule": "theory", "covariance": "averaged"},
    "learned reward": {"reward": "learned"},
    "loose": {"iota": 10.0},
}


def game(seed: int = 0) -> LowRankGame:
    return LowRankGame(S, (A1, A2), 2, H, seed=seed)


def play(agent: ContrastiveULCB, n: int) -> ContrastiveULCB:
    for _ in range(n):
        agent.round()
    return agent


@pytest.mark.parametrize("variant", ["contrastive-ulcb", "exact", "tight-cce", "learned reward"])
def test_lines_11_to_16_equal_loops(variant: str) -> None:
    agent = ContrastiveULCB(game(1), seed=3, **VARIANTS[variant])
    for k in range(1, 8):
        agent.round()
        assert agent.kernel is not None
        table = agent.kernel.table()[0].reshape(H, S, A1, A2, S)
        rewards = agent.model.rewards()[0].reshape(H, S, A1, A2)
        beta = agent.bonus[0].reshape(H, S, A1, A2)
        above, below = np.zeros(S), np.zeros(S)
        worst = 0.0
        for h in reversed(range(H)):
            limit = H - h
            upper = np.clip(rewards[h] + beta[h] + table[h] @ above, -limit, limit)  # line 11
            lower = np.clip(rewards[h] - beta[h] + table[h] @ below, -limit, limit)  # line 12
            sigma = agent.bounds.joint[0, h]  # line 15
            np.testing.assert_allclose(sigma.sum((-2, -1)), 1)
            worst = max(worst, *(gain_by_loops(sigma[s], upper[s], lower[s]) for s in range(S)))
            above = (sigma * upper).sum((-2, -1))  # line 13
            below = (sigma * lower).sum((-2, -1))  # line 14
            np.testing.assert_allclose(agent.bounds.v_upper[0, h], above, atol=1e-12)
            np.testing.assert_allclose(agent.bounds.v_lower[0, h], below, atol=1e-12)
            np.testing.assert_allclose(agent.last.row[0, h], sigma.sum(-1))  # line 16
            np.testing.assert_allclose(agent.last.column[0, h], sigma.sum(-2))
        assert agent.cce_gap[0] == pytest.approx(worst, abs=1e-12)
        assert worst <= 0.1 / np.sqrt(k) + 1e-12  # iota_k
        assert agent.last.certificate[0] == pytest.approx(above[0] - below[0])  # starts in state 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_batch_of_seeds_equals_separate_runs(variant: str) -> None:
    settings = VARIANTS[variant]
    seeds = [0, 3, 5]
    together = play(ContrastiveULCB([game(s) for s in seeds], seed=seeds, **settings), 25)
    for at, seed in enumerate(seeds):
        alone = play(ContrastiveULCB(game(seed), seed=seed, **settings), 25)
        assert_same_state(together, alone, at)


@pytest.mark.parametrize("variant", VARIANTS)
def test_saving_and_loading_changes_nothing(variant: str, tmp_path: Path) -> None:
    def session() -> Session:
        games = [game(s) for s in (1, 2)]
        return Session(ContrastiveULCB(games, seed=[1, 2], **VARIANTS[variant]))

    whole, first, second = session(), session(), session()
    expected = [played.figures for played in whole.rounds(24)]
    list(first.rounds(12))
    states = []
    for at in range(2):
        path = save_checkpoint(tmp_path / str(at), 12, first.state_of(at))
        states.append(load_checkpoint(path))
    second.load_states(states)
    for now, before in zip(second.rounds(24), expected[12:], strict=True):
        for name, value in before.items():
            np.testing.assert_array_equal(now.figures[name], value)
    for at in range(2):
        assert whole.summary(at) == second.summary(at)


def test_best_is_the_smallest_certificate_and_drawn_is_uniform() -> None:
    agent = ContrastiveULCB([game()] * 200, seed=list(range(200)))
    certificates, rows = [], []
    for _ in range(6):
        agent.round()
        certificates.append(agent.last.certificate)
        rows.append(agent.last.row)
    table = np.array(certificates)
    np.testing.assert_array_equal(agent.best.certificate, table.min(0))
    last_of_the_best = len(table) - table[::-1].argmin(0)
    np.testing.assert_array_equal(agent.best.number, last_of_the_best)
    for seed in range(200):
        np.testing.assert_array_equal(agent.best.row[seed], rows[agent.best.number[seed] - 1][seed])
        np.testing.assert_array_equal(
            agent.drawn.row[seed], rows[agent.drawn.number[seed] - 1][seed]
        )
    counts = np.bincount(agent.drawn.number, minlength=7)[1:]
    expected = 200 / 6
    assert ((counts - expected) ** 2 / expected).sum() < 20.5  # chi2 with 5 degrees: 99.9 %


def test_the_summary_adds_up() -> None:
    agent = ContrastiveULCB([game(0), game(1)], seed=[0, 1])
    result = agent.learn(40, progress=False)
    np.testing.assert_allclose(result.average_gap[-1], result.gap.mean(0))
    for at, summary in enumerate(result.summaries):
        assert summary["average_gap"] == pytest.approx(result.average_gap[-1, at])
        assert summary["nash_value"] == pytest.approx(cu.nash_value(game(at)))
        pair = agent.best.row[at], agent.best.column[at]
        assert summary["exploitability"] == pytest.approx(exploitability(game(at), *pair))
        pair = agent.drawn.row[at], agent.drawn.column[at]
        assert summary["drawn_gap"] == pytest.approx(exploitability(game(at), *pair))
        pair = agent.last.row[at], agent.last.column[at]
        assert summary["final_gap"] == pytest.approx(exploitability(game(at), *pair))
        assert summary["certificate"] == agent.best.certificate[at]
        assert sum(summary["cce_stages"].values()) == 40 * H * S
        assert 0 < summary["max_cce_gap"] <= 0.1
        upper, lower = (result.figures[f"{side}_value"][:, at] for side in ("upper", "lower"))
        held = (lower <= summary["nash_value"]) & (summary["nash_value"] <= upper)
        assert summary["bracket_fraction"] == held.mean()


def test_a_run_through_the_public_interface() -> None:
    env = cu.LowRankGame(n_states=5, n_actions=(3, 2), rank=2, horizon=2, seed=0)
    agent = cu.ContrastiveULCB(env, rank=2, seed=0)
    result = agent.learn(rounds=300, progress=False)
    assert 0 <= cu.exploitability(env, *agent.policies) < 0.3
    assert agent.certificate == agent.best.certificate[0]
    assert len(result.plot().axes) == 3
    with pytest.raises(AttributeError, match="this run has no 'regret'; it has gap, average_gap"):
        _ = result.regret
    (row, column), _ = agent.predict(np.array([[0, 0], [1, 4]]))
    assert row.shape == column.shape == (2,)
    assert row.max() < 3
    assert column.max() < 2
    (sure, _), _ = agent.predict(np.array([0, 0]), deterministic=True)
    assert sure == agent.policies[0][0, 0].argmax()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ContrastiveULCB(LowRankMDP()), "lowrank is an MDP; use ContrastiveUCB"),
        (lambda: cu.ContrastiveUCB(game()), "lowrank-game is a two-player game"),  # type: ignore[arg-type]
        (lambda: ContrastiveULCB(game(), algo="lsvi-ucb"), "lsvi-ucb is for MDPs; a game takes"),
        (lambda: ContrastiveULCB(game(), iota=0.0), "iota must be positive, got 0.0"),
        (lambda: ContrastiveULCB(game(), algo="midpoint-nash", equilibrium="cce"), "is defined by"),
        (lambda: ContrastiveULCB([game(), LockGame(2)], seed=[0, 1]), "of one size"),
        (
            lambda: ContrastiveULCB([game()] * 2, seed=[0, 1]).policies,
            "has 2 seeds; use agent.best",
        ),
        (lambda: ContrastiveULCB(game()).predict(np.array([9, 0])), "is out of range; steps are 0"),
    ],
)
def test_invalid_input_is_an_error_with_a_remedy(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_nan_is_an_error_that_names_the_round() -> None:
    agent = play(ContrastiveULCB(game(), seed=0), 3)
    agent.batch.rewards[0, 1, 0, 0] = np.nan
    with pytest.raises(ArithmeticError, match=r"Q-upper has a NaN .* at step 1 of round 4"):
        agent.round()
    assert agent.n_rounds == 3


@pytest.mark.parametrize("n_actions", [2, 3])
def test_bounds_hold_and_the_gap_falls(n_actions: int) -> None:
    """Bounds and iota_k hold in every round of every seed; the average gap decreases."""
    games = [LowRankGame(6, n_actions, 3, 3, seed=seed) for seed in range(3)]
    session, averages = Session(ContrastiveULCB(games, seed=[0, 1, 2])), {}
    for played in session.rounds(800):
        assert (played.figures["cce_gap"] <= 0.1 / np.sqrt(played.step) + 1e-12).all()
        averages[played.step] = played.figures["average_gap"].mean()
    assert (session.tracker.bracketed == 800).all()  # type: ignore[attr-defined]
    assert averages[800] <= 0.8 * averages[50]


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["contrastive-ulcb", "no-bonus", "uniform"])
def test_only_contrastive_ulcb_solves_the_lock_game_within_1500_rounds(algo: str) -> None:
    games = [LockGame(5, seed=seed) for seed in range(10)]
    session = Session(ContrastiveULCB(games, seed=list(range(10)), algo=algo), stops=True)
    list(session.rounds(1500))
    n_solved = int((session.tracker.solved_at > 0).sum())
    assert n_solved >= 9 if algo == "contrastive-ulcb" else n_solved == 0
