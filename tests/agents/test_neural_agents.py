"""Contrastive UCB and ULCB on observations: runs, seeds, saving, predictions and bad input."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import contrastive_ucb as cu
from contrastive_ucb.agents.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.agents.contrastive_ulcb import ContrastiveULCB
from contrastive_ucb.agents.observed_world import ObservedWorld
from contrastive_ucb.envs import LowRankGame, LowRankMDP
from contrastive_ucb.envs.continuous import ContinuousMDP
from contrastive_ucb.envs.gym_observed import GymObserved
from contrastive_ucb.envs.rich_lock import RichLock, RichLockGame
from contrastive_ucb.envs.shown import ShownWalk
from contrastive_ucb.evaluation.agreement import errors_of_both
from contrastive_ucb.evaluation.games import exploitability
from contrastive_ucb.planning.markov_game import marginals
from contrastive_ucb.planning.matrix_game import deviation_gain
from contrastive_ucb.representation import neural_fit

QUICK: dict[str, Any] = {
    "trajectories": 4,
    "fit_steps": 5,
    "batch_size": 16,
    "n_negatives": 16,
    "n_draws": 12,
}


def lock_agent(seed: int = 0, **changes: Any) -> ContrastiveUCB:
    return ContrastiveUCB(RichLock(3, 2, seed=1), seed=seed, **{**QUICK, **changes})


def vault_agent(seed: int = 0, **changes: Any) -> ContrastiveULCB:
    return ContrastiveULCB(RichLockGame(3, 2, seed=1), seed=seed, **{**QUICK, **changes})


def world(agent: Any) -> ObservedWorld:
    assert isinstance(agent.world, ObservedWorld)
    return agent.world


def policies(agent: Any, kept: str = "last") -> np.ndarray:
    seen = np.random.default_rng(0).standard_normal((9, agent.envs[0].size))
    return np.stack([agent.policy_at(step, seen, kept) for step in range(agent.envs[0].horizon)])


def planned_values(agent: Any) -> np.ndarray:
    """Q of the last round at observations nobody has seen."""
    seen = np.random.default_rng(0).standard_normal((9, agent.envs[0].size))
    steps = range(agent.envs[0].horizon)
    return np.stack([world(agent).bounds("last", step, seen) or [] for step in steps])


def test_a_rich_lock_is_opened() -> None:
    agent = ContrastiveUCB(RichLock(3, 3, seed=0), seed=0, n_draws=128, fit_steps=100)
    result = agent.learn(30, progress=False)
    assert result.summary[0]["solved_at"] is not None
    assert agent.n_rounds < 30
    assert result.summary[0]["return"] == 1
    assert result.summary[0]["trajectories"] == agent.n_rounds * 3 * 50
    assert result.gap[-1] < 0.1
    with pytest.raises(ValueError, match="solved, so there is nothing left"):
        agent.learn(1)


@pytest.mark.parametrize("make", [lock_agent, vault_agent])
def test_same_seed_same_run_other_seed_other_run(make: Any) -> None:
    one, same, other = make(), make(), make(seed=1)
    for agent in (one, same, other):
        for _ in range(3):
            agent.round()
    np.testing.assert_array_equal(policies(one), policies(same))
    np.testing.assert_array_equal(one.bonus, same.bonus)
    assert (world(one).data.following != world(other).data.following).any()


@pytest.mark.parametrize("make", [lock_agent, vault_agent])
@pytest.mark.parametrize("changes", [{}, {"warm_start": "on"}, {"sampler": "paper"}])
def test_saved_and_loaded_equals_undisturbed(
    make: Any, changes: dict[str, Any], tmp_path: Path
) -> None:
    whole, first = make(**changes), make(**changes)
    whole.learn(4, progress=False)
    first.learn(2, progress=False)
    first.save(tmp_path / "agent")
    again: Any = cu.load(tmp_path / "agent")
    assert again.config == first.config
    result = again.learn(2, progress=False)
    np.testing.assert_array_equal(policies(whole), policies(again))
    assert whole.session.summary(0) == result.summary[0]


def test_what_was_kept_of_a_round_are_weights() -> None:
    agent = vault_agent()
    for _ in range(3):
        agent.round()
    kept = world(agent).kept
    assert set(kept) == {"last", "best", "drawn"}
    assert agent.best.row.shape == (1, 3, 0, 2)  # no tables
    before = policies(agent)
    best = agent.policy_at(1, np.ones((2, agent.envs[0].size)), "best")
    np.testing.assert_allclose(best.sum(-1), 1)
    np.testing.assert_array_equal(policies(agent), before)


def test_the_joint_policy_at_an_observation_is_a_cce_there() -> None:
    agent = vault_agent()
    for _ in range(2):
        agent.round()
    seen = world(agent).states[1]
    upper, lower = world(agent).bounds("last", 1, seen) or []
    joint = agent.policy_at(1, seen).reshape(-1, 2, 2)
    gaps = deviation_gain(joint, upper.reshape(-1, 2, 2), lower.reshape(-1, 2, 2))
    assert gaps.max() <= agent.config.iota / np.sqrt(2) + 1e-9  # of the round that was planned
    np.testing.assert_allclose(joint, agent.bounds.joint[0, 1], atol=1e-4)


def on_twin(agent: Any, kept: str) -> np.ndarray:
    """The joint policy at every observation of the finite twin   (H, S, A)"""
    seen = agent.envs[0].twin().observations
    return np.stack([agent.policy_at(step, row, kept) for step, row in enumerate(seen)])


def test_later_rounds_do_not_change_a_kept_policy(tmp_path: Path) -> None:
    """iota_k falls with the rounds, but a kept policy stays with that of its own."""
    agent = vault_agent()
    agent.learn(3, progress=False)
    best, recorded = on_twin(agent, "best"), agent.session.latest["exploitability"]
    agent.best = replace(agent.best, certificate=np.full(1, -1e9))  # no later round is better
    agent.learn(4, progress=False)
    number = int(agent.best.number[0])
    assert number <= 3
    np.testing.assert_array_equal(on_twin(agent, "best"), best)
    agent.save(tmp_path / "agent")
    np.testing.assert_array_equal(on_twin(cu.load(tmp_path / "agent"), "best"), best)
    # What was recorded in its round is what it comes to now.
    twin = agent.envs[0].twin()
    pair = marginals(best.reshape(*best.shape[:2], 2, 2))
    assert exploitability(twin.env, *pair) == pytest.approx(float(recorded[0]), abs=1e-12)
    assert agent.session.latest["exploitability"] == recorded
    # With the iota of the next round, some observations would get another equilibrium.
    bounds = [world(agent).bounds("best", h, seen) for h, seen in enumerate(twin.observations)]
    later = np.stack([agent._choose(h, q or [], agent.n_rounds + 1) for h, q in enumerate(bounds)])
    assert (later != best).any()


def test_a_kept_policy_that_is_no_number_names_its_round() -> None:
    agent = vault_agent()
    for _ in range(3):
        agent.round()
    own, seen = world(agent), world(agent).states[1]
    agent.best = replace(agent.best, number=np.array([2]))
    own.kept["best"] = replace(own.kept["best"], ahead=np.full((2, 3, 8), np.nan))
    with pytest.raises(ArithmeticError, match=r"Q-upper has a NaN.*step 1 of round 2$"):
        agent.policy_at(1, seen, "best")


def test_policies_of_observations_count_their_steps() -> None:
    agent = lock_agent()
    agent.round()
    seen = np.random.default_rng(0).standard_normal((5, agent.envs[0].size))
    state = None
    for step in range(3):
        actions, state = agent.predict(seen, state)
        np.testing.assert_array_equal(actions, agent.policy_at(step, seen).argmax(-1))
        assert state == step + 1
    with pytest.raises(ValueError, match="step 3 has no action"):
        agent.predict(seen, state)
    with pytest.raises(ValueError, match="has 8 numbers"):
        agent.predict(seen[:, :4])
    with pytest.raises(ValueError, match="NaN"):
        agent.predict(np.full(8, np.nan))
    game = vault_agent()
    game.round()
    (row, column), state = game.predict(seen[0])
    assert row.shape == column.shape == ()
    assert state == 1


def test_the_first_round_rolls_in_uniformly() -> None:
    np.testing.assert_allclose(lock_agent().acts(1, np.zeros((3, 8))), 0.5)


def test_a_finite_mdp_given_as_vectors_is_measured_exactly() -> None:
    mdp = LowRankMDP(4, 2, 2, 3, seed=0)
    agent = ContrastiveUCB(
        mdp, representation="neural", density="uniform", trajectories=100, n_draws=8, fit_steps=150
    )
    result = agent.learn(3, progress=False)
    assert result.summary[0]["optimal_value"] == pytest.approx(cu.optimal_value(mdp))
    # Without training zeta is above 1, the gap .5, and V-bar below V* in every round.
    assert result.zeta[-1] < 0.05
    assert result.gap[-1] < 0.01
    assert result.summary[0]["strictly_optimistic_fraction"] == 1


def test_networks_come_near_the_tables_at_the_same_data() -> None:
    mdp = LowRankMDP(6, 2, 2, 3, seed=1)
    tabular, neural = errors_of_both(mdp, rounds=100, seed=1, fit_steps=300)
    assert neural <= 2 * tabular


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["shared", "paper"])
@pytest.mark.parametrize("seed", range(5))
def test_zeta_of_networks_is_within_twice_that_of_tables(seed: int, sampler: Any) -> None:
    """Must be true, with the same transitions and, for the paper's sampler, the same labels."""
    mdp = LowRankMDP(6, 2, 2, 3, seed=seed)
    tabular, neural = errors_of_both(mdp, rounds=1000, seed=seed, sampler=sampler)
    assert neural <= 2 * tabular


def test_training_learns_a_continuous_mdp_and_the_bonus_makes_it_optimistic() -> None:
    """Against the same agent without training, and against the same without a bonus."""
    trained, untrained, plain = (
        ContrastiveUCB(ContinuousMDP(seed=0), seed=0, trajectories=100, **changes).learn(
            6, progress=False
        )
        for changes in ({}, {"learning_rate": 1e-9}, {"algo": "no-bonus"})
    )
    assert trained.zeta[-1] < 0.6 * untrained.zeta[-1]
    assert trained.summary[0]["strictly_optimistic_fraction"] == 1
    assert plain.summary[0]["strictly_optimistic_fraction"] < 1


def test_a_gymnasium_environment_is_measured_by_its_returns() -> None:
    result = ContrastiveUCB(cart_pole(), seed=0, **QUICK).learn(1, progress=False)
    again, env = ContrastiveUCB(cart_pole(), seed=0, **QUICK), cart_pole()
    again.round()
    random, state, returns = again.streams["evaluate"][0], None, np.zeros(20)
    walk = env.begin(20, random)
    for _ in range(15):
        actions, state = again.predict(walk.observations, state)
        random.random(20)  # what a mixed policy would be drawn with
        returns += walk.move(actions, random)
    assert 5 < returns.mean() < 15
    assert result.summary[0]["return"] == pytest.approx(returns.mean())
    assert result.summary[0]["final_gap"] == pytest.approx(15 - returns.mean())
    assert "zeta" not in result.figures


def cart_pole() -> GymObserved:
    return GymObserved("CartPole-v1", horizon=15)


def test_a_mixed_density_plans_on_what_was_seen_and_on_even_draws() -> None:
    for share in (0.0, 0.5, 1.0):
        agent = ContrastiveUCB(
            ContinuousMDP(horizon=2),
            density="mixed",
            uniform_share=share,
            **{**QUICK, "n_draws": 200},
        )
        agent.learn(2, progress=False)
        own = world(agent)
        seen = np.isin(own.states[1], own.data.following[0, : own.data.n[0]]).mean()
        assert abs(seen - (1 - share)) < 0.15
        assert np.isfinite(planned_values(agent)).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden": 5},
        {"phi_head": "softplus", "psi_head": "softplus"},
        {"density": "gaussian"},
        {"standardise": "on"},
        {"sampler": "paper"},
        {"final_rate": 1.0},
        {"covariance": "averaged"},
        {"clip": "off", "alpha": 1.0},  # a bonus that Q is clipped with
    ],
    ids=str,
)
def test_every_switch_runs_and_changes_what_is_planned(changes: dict[str, Any]) -> None:
    agent, plain = lock_agent(**changes), lock_agent(alpha=changes.get("alpha"))
    for one in (agent, plain):
        one.learn(2, progress=False)
    assert np.isfinite(planned_values(agent)).all()
    assert not np.allclose(planned_values(agent), planned_values(plain), atol=1e-3)


@pytest.mark.parametrize(
    ("env", "settings", "message"),
    [
        (RichLock(3, 2), {"representation": "tabular"}, "no table holds"),
        (RichLock(3, 2), {"algo": "rep-ucb"}, "features = 'likelihood' needs tables"),
        (RichLock(3, 2), {"negatives": "exact"}, "negatives = 'exact' needs tables"),
        (RichLock(3, 2), {"schedule": "theory"}, "schedule = 'theory' needs tables"),
        (RichLock(3, 2), {"density": "uniform"}, "needs bounds"),
        (RichLock(3, 2), {"harmonics": 2}, "needs bounds"),
        (RichLock(3, 2), {"reward": "known", **QUICK}, "does not tell its rewards"),
        (RichLock(3, 2), {"trajectories": 0}, "trajectories must be at least 1"),
        (RichLock(3, 2), {"learning_rate": 0.0}, "learning_rate must be positive"),
        (RichLock(3, 2), {"final_rate": 1.5}, r"final_rate must be in \[0, 1\], got 1.5"),
        (RichLock(3, 2), {"final_rate": float("nan")}, "final_rate must be in"),
        (RichLock(3, 2), {"density": "flat"}, "density must be one of"),
        (RichLock(3, 2), {"negative_distribution": np.ones(3) / 3}, "is for tables"),
        ([RichLock(3, 2)] * 2, {"seed": [0, 1]}, "one seed at a time"),
        (RichLockGame(3, 2), {}, "game of two players"),
        (LowRankMDP(3, 2, 2, 2), {"trajectories": 5}, "trajectories = 5 is for networks"),
    ],
    ids=str,
)
def test_bad_input_is_one_line(env: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ContrastiveUCB(env, **settings).round()


def test_a_game_is_not_for_contrastive_ucb_and_back() -> None:
    with pytest.raises(ValueError, match="zero-sum game"):
        ContrastiveULCB(RichLock(3, 2))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has no tables"):
        lock_agent().batch  # noqa: B018
    assert ContrastiveULCB(LowRankGame(3, 2, 2, 2), representation="neural", **QUICK).n_rounds == 0


def broken_slopes(*parts: torch.Tensor) -> Any:
    return tuple(torch.full_like(part, float("nan")) for part in parts)


def test_a_nan_in_the_weights_stops_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = lock_agent()
    agent.learn(1, progress=False)
    before = policies(agent)
    monkeypatch.setattr(neural_fit, "shared_slopes", broken_slopes)
    with pytest.raises(ArithmeticError, match=r"weights 'phi'.*round 2"):
        agent.learn(1, progress=False)
    np.testing.assert_array_equal(policies(agent), before)  # the last good policy still acts


def flat(state: Any, path: str = "") -> dict[str, Any]:
    """A nested state as one level: path -> value."""
    if not isinstance(state, dict):
        return {path: state}
    return {k: v for key, value in state.items() for k, v in flat(value, f"{path}/{key}").items()}


def assert_same_state(one: Any, other: Any) -> None:
    left, right = flat(one.state_of(0)), flat(other.state_of(0))
    assert left.keys() == right.keys()
    for path, value in left.items():
        np.testing.assert_array_equal(value, right[path], err_msg=path)


@pytest.mark.parametrize("make", [lock_agent, vault_agent])
@pytest.mark.parametrize("changes", [{"warm_start": "on"}, {"sampler": "paper"}], ids=str)
@pytest.mark.parametrize("place", ["walk", "weights"])
def test_a_round_that_failed_leaves_nothing_behind(
    make: Any, changes: dict[str, Any], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, failed = make(**changes), make(**changes)
    for agent in (whole, failed):
        agent.round()
    with monkeypatch.context() as patch:
        if place == "walk":
            move = ShownWalk.move
            patch.setattr(ShownWalk, "move", lambda *given: np.nan * move(*given))
            message = r"gave a NaN.*'reward' at step 0 of round 2"
        else:
            slopes = "paper_slopes" if "sampler" in changes else "shared_slopes"
            patch.setattr(neural_fit, slopes, broken_slopes)
            message = r"weights 'phi'.*round 2"
        for _ in range(2):
            with pytest.raises(ArithmeticError, match=message):
                failed.round()
    assert failed.n_rounds == 1
    np.testing.assert_array_equal(world(failed).data.n, [4, 8, 8])
    assert_same_state(whole, failed)
    for agent in (whole, failed):
        agent.round()
    np.testing.assert_array_equal(world(failed).data.n, [8, 16, 16])
    assert np.isfinite(planned_values(failed)).all()
    assert_same_state(whole, failed)


@pytest.mark.parametrize("looked_at", [False, True])
def test_a_plan_that_failed_leaves_no_rows(
    looked_at: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, failed = vault_agent(warm_start="on"), vault_agent(warm_start="on")
    for agent in (whole, failed):
        agent.round()

    def no_plan(*_: Any) -> None:
        raise ArithmeticError("no CCE was found")

    with monkeypatch.context() as patch:
        patch.setattr(ContrastiveULCB, "_plan", no_plan)
        with pytest.raises(ArithmeticError, match="no CCE"):
            failed.round()
    if looked_at:
        np.testing.assert_array_equal(failed.state_of(0)["data"]["n"], [4, 8, 8])
    for agent in (whole, failed):
        agent.round()
    assert_same_state(whole, failed)


def test_labels_are_drawn_once() -> None:
    """The first step gains half as many rows as the others, and must not draw the old ones anew."""
    agent, kept = lock_agent(sampler="paper", trajectories=10), []
    data = world(agent).data
    for _ in range(4):
        agent.round()
        for step, (label, contrast) in enumerate(kept):
            np.testing.assert_array_equal(data.label[step, : len(label)], label)
            np.testing.assert_array_equal(data.contrast[step, : len(label)], contrast)
        kept = [
            (data.label[step, :n].copy(), data.contrast[step, :n].copy())
            for step, n in enumerate(data.n)
        ]
    for step, (label, contrast) in enumerate(kept):
        following = data.following[step, : len(label)]
        assert 0.2 < label.mean() < 0.8
        np.testing.assert_array_equal(contrast[label == 1], following[label == 1])
        assert (contrast[label == 0] != following[label == 0]).any(-1).mean() > 0.8


def test_shared_negatives_store_no_contrast() -> None:
    agent = lock_agent()
    agent.round()
    assert {"contrast", "label"}.isdisjoint(agent.state_of(0)["data"])
    old = agent.state_of(0)  # as older ones are: with a contrast, and more of it than is needed
    old["data"] |= {"contrast": old["data"]["following"], "label": old["data"]["reward"]}
    again = lock_agent(seed=3)
    again.load_states([old])
    for one in (agent, again):
        one.round()
    assert_same_state(agent, again)


def test_covariance_and_reward_are_those_of_plain_loops() -> None:
    """Sigma has the bonus data alone, the regression of rewards all data; rows unused count not."""
    agent = lock_agent(covariance="averaged", ridge=2.0, reward_alpha=0.7, alpha=0.2)
    for _ in range(3):
        agent.round()
    own, data = world(agent), world(agent).data
    assert own.fitted is not None
    assert data.n[0] < data.action.shape[1]
    for step in range(3):
        sigma, every, moment = np.zeros((8, 8)), np.zeros((8, 8)), np.zeros(8)
        for row in range(data.n[step]):
            seen = data.observation[step, row][None, None]
            phi = own.fitted.at(step).features(seen)[0, 0, data.action[step, row]]
            sigma += data.rolled_in[step, row] * np.outer(phi, phi)
            every += np.outer(phi, phi)
            moment += phi * data.reward[step, row]
        sigma = sigma / (3 * 4) + 2 * np.eye(
            8
        )  # E1: the average over tau, of 4 trajectories a round
        found = own.uncertainty
        assert found.reward is not None
        assert found.reward_chol is not None
        np.testing.assert_allclose(found.chol[step] @ found.chol[step].T, sigma, rtol=1e-5)
        gram = every + 0.1 * np.eye(8)  # of the regression, which has a ridge of its own
        np.testing.assert_allclose(found.reward[step], np.linalg.solve(gram, moment), rtol=1e-4)
        own_width = found.reward_chol[step] @ found.reward_chol[step].T
        np.testing.assert_allclose(own_width, every + 2 * np.eye(8), rtol=1e-5, atol=1e-9)
        assert found.reward_scale == pytest.approx(0.7 * 0.2)


def test_warm_starts_go_on_with_smaller_steps() -> None:
    cold, warm = lock_agent(), lock_agent(warm_start="on")
    for agent in (cold, warm):
        for _ in range(4):
            agent.round()
    start, recipe = world(warm)._start(16)
    assert world(warm).fitted is not None
    assert start is world(warm).fitted.weights  # type: ignore[union-attr]
    assert recipe.learning_rate == world(warm).recipe.learning_rate / 4
    start, recipe = world(cold)._start(16)
    assert start is not world(cold).fitted.weights  # type: ignore[union-attr]
    assert recipe.learning_rate == world(cold).recipe.learning_rate


def test_a_foreseen_reward_is_read_by_psi_alone() -> None:
    agent = lock_agent(foresee_reward="on")
    agent.round()
    data = world(agent).data
    np.testing.assert_allclose(data.following[..., -1], 5 * data.reward, rtol=1e-6)
    assert data.observation.shape[-1] == agent.envs[0].size
    assert world(agent).states.shape[-1] == agent.envs[0].size
    with pytest.raises(ValueError, match="foresee_reward goes with density"):
        lock_agent(foresee_reward="on", density="gaussian")
