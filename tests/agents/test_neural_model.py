"""NeuralModel: failed rounds, labels, covariance and rewards, warm starts."""

from typing import Any

import numpy as np
import pytest
import torch
from agents.neural_play import (
    assert_same_state,
    lock_agent,
    model,
    planned_values,
    vault_agent,
)

from contrastive_ucb.envs.finite_twin import EmissionWalk
from contrastive_ucb.representation import neural
from contrastive_ucb.representation.neural import Fitted


def no_plan(*_: Any) -> Any:
    raise ArithmeticError("no equilibrium")


def broken_slopes(shape: Any, weights: dict[str, torch.Tensor], batch: Any) -> Any:
    return {name: torch.full_like(tensor, float("nan")) for name, tensor in weights.items()}


def test_a_nan_in_the_features_names_step_and_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent, features_of = lock_agent(), Fitted.features_of
    agent.round()

    def broken(*given: Any) -> Any:
        phi = features_of(*given)
        phi[1, 0, 0] = np.nan
        return phi

    monkeypatch.setattr(Fitted, "features_of", broken)
    with pytest.raises(ArithmeticError, match=r"features phi have a NaN.*step 1 of round 2"):
        agent.round()
    assert agent.state_of(0)["model"]["data"]["n"].tolist() == [4, 8, 8]


@pytest.mark.parametrize("make", [lock_agent, vault_agent])
@pytest.mark.parametrize("changes", [{"warm_start": "on"}, {"sampler": "paper"}], ids=str)
@pytest.mark.parametrize("place", ["walk", "weights", "plan"])
def test_a_failed_round_is_undone(
    make: Any, changes: dict[str, Any], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, failed = make(**changes), make(**changes)
    for agent in (whole, failed):
        agent.round()
    with monkeypatch.context() as patch:
        if place == "walk":
            move = EmissionWalk.move
            patch.setattr(EmissionWalk, "move", lambda *given: np.nan * move(*given))
            message = r"returned a NaN.*'reward' at step 0 of round 2"
        elif place == "plan":
            for name in ("contrastive_ucb.plan", "contrastive_ulcb.plan_bounds"):
                patch.setattr(f"contrastive_ucb.agents.finite.{name}", no_plan)
            message = "no equilibrium"
        else:
            patch.setattr(neural, "loss_slopes", broken_slopes)
            message = r"weights 'phi'.*round 2"
        for _ in range(2):
            with pytest.raises(ArithmeticError, match=message):
                failed.round()
    assert failed.n_rounds == 1
    np.testing.assert_array_equal(model(failed).data.n, [4, 8, 8])
    if place != "plan":  # `kernel` and `bonus` are those of the last fit
        assert_same_state(whole, failed)
    for agent in (whole, failed):
        agent.round()
    np.testing.assert_array_equal(model(failed).data.n, [8, 16, 16])
    assert np.isfinite(planned_values(failed)).all()
    assert_same_state(whole, failed)


def test_labels_are_drawn_once() -> None:
    """The first step gains half as many rows as the others; old labels must not be drawn again."""
    agent, kept = lock_agent(sampler="paper", trajectories=10), []
    data = model(agent).data
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


def test_covariance_and_reward_equal_loops() -> None:
    """Sigma uses the bonus data, the regression of rewards all data, and spare rows are ignored."""
    agent = lock_agent(covariance="averaged", ridge=2.0, reward_alpha=0.7, alpha=0.2)
    for _ in range(3):
        agent.round()
    own, data = model(agent), model(agent).data
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
        )  # E1: the average over tau, of 4 trajectories per round
        found = own.uncertainty
        assert found.reward is not None
        assert found.reward_chol is not None
        np.testing.assert_allclose(found.chol[step] @ found.chol[step].T, sigma, rtol=1e-5)
        gram = every + 0.1 * np.eye(8)  # of the regression, which has a ridge of its own
        np.testing.assert_allclose(found.reward[step], np.linalg.solve(gram, moment), rtol=1e-4)
        own_width = found.reward_chol[step] @ found.reward_chol[step].T
        np.testing.assert_allclose(own_width, every + 2 * np.eye(8), rtol=1e-5, atol=1e-9)
        assert found.reward_scale == pytest.approx(0.7 * 0.2)


def test_networks_always_regress_unknown_rewards_on_phi() -> None:
    agents = [lock_agent(reward=reward) for reward in ("learned", "linear")]
    for agent in agents:
        agent.round()
    rewards = [model(agent).rewards() for agent in agents]
    np.testing.assert_array_equal(rewards[0], rewards[1])
    np.testing.assert_array_equal(agents[0].bonus, agents[1].bonus)
    assert abs(rewards[0]).max() > 0


@pytest.mark.parametrize("warm_start", ["on", "off"])
def test_warm_starts_keep_the_weights_and_scale_the_learning_rate(warm_start: Any) -> None:
    agent = lock_agent(warm_start=warm_start)
    for _ in range(4):
        agent.round()
    weights, recipe = model(agent)._start()
    fitted = model(agent).fitted
    assert fitted is not None
    assert (weights is fitted.weights) == (warm_start == "on")
    divisor = 2 if warm_start == "on" else 1  # sqrt(4) rounds
    assert recipe.learning_rate == model(agent).recipe.learning_rate / divisor


def test_only_psi_reads_a_predicted_reward() -> None:
    agent = lock_agent(foresee_reward="on")
    agent.round()
    data = model(agent).data
    np.testing.assert_allclose(data.following[..., -1], 5 * data.reward, rtol=1e-6)
    assert data.observation.shape[-1] == agent.envs[0].size
    assert model(agent).states.shape[-1] == agent.envs[0].size
    with pytest.raises(ValueError, match="needs draws with rewards"):
        lock_agent(foresee_reward="on", density="gaussian")
