"""Playback: the episodes of evaluations, with the values and bonuses of the checkpoint."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from evaluation.test_rollouts import Lives
from runs.training_runs import BREAKOUT, training
from runs.training_runs import run as run_training

from contrastive_ucb.agents.deep.rainbow import Rainbow
from contrastive_ucb.core.checkpoint import latest_checkpoint, load_checkpoint
from contrastive_ucb.envs.registry import make_eval_envs
from contrastive_ucb.evaluation import playback, rollouts
from contrastive_ucb.evaluation.playback import Moment, Viewing
from contrastive_ucb.evaluation.rollouts import evaluate
from contrastive_ucb.runs.deep_agent import DeepAgent, load_weights


def trained(root: Path, env: str = "DeepSea-5", **settings: Any) -> DeepAgent:
    torch.set_num_threads(1)
    return load_weights(Path(run_training(training(env, **settings), root)["run_dir"]))


@pytest.fixture(scope="module")
def breakout(tmp_path_factory: pytest.TempPathFactory) -> DeepAgent:
    return trained(tmp_path_factory.mktemp("breakout"), BREAKOUT)


def watch(run: DeepAgent, **viewing: Any) -> list[Moment]:
    options = Viewing(**{"draws": False, **viewing})
    return list(playback.watch(run.trainer.agent, run.env, run.training.seed, options))


def last_moments(moments: list[Moment]) -> list[Moment]:
    return [moment for moment in moments if moment.action is None]


@torch.no_grad()
def bonuses_by_inversion(run: DeepAgent, moments: list[Moment]) -> list[float]:
    """The bonuses of one episode of DeepSea, from the arrays of the checkpoint."""
    checkpoints = Path(run.run_dir) / "checkpoints"
    state = load_checkpoint(latest_checkpoint(checkpoints))["trainer"]["agent"]
    sigma = np.asarray(state["bonus"]["counted"]["sigma"], dtype=np.float64)
    config, network = run.trainer.config.bonus, run.trainer.agent.network
    network.load_state_dict(state["network"])
    env = make_eval_envs(run.env, seed=run.training.seed, count=1)[0]
    env.reset()
    bonuses, previous = [], 0
    for moment in moments[:-1]:
        latent = network.encoder(torch.tensor(env.frame)[None])
        action = previous if config.action == "previous" else moment.action
        if config.feature == "hidden":
            phi, block = network.head.hidden(latent, config.noisy)[0], action
        else:
            phi, block = network.head(latent, config.noisy)[0, action].softmax(-1), 0
        phi = phi.numpy().astype(np.float64)
        bonuses.append(config.scale * np.sqrt(phi @ np.linalg.inv(sigma[block]) @ phi))
        env.step(moment.action)
        previous = moment.action
    return bonuses


@pytest.mark.parametrize("preset", ["paper", "algorithm-1", "reference"])
def test_bonuses_against_inversion(preset: str, tmp_path: Path) -> None:
    # A ridge of 1e-5 is below the accuracy of float32, so the reference uses a larger one here.
    ridge = {"bonus__ridge": 0.5} if preset == "reference" else {}
    run = trained(tmp_path, bonus__preset=preset, bonus__scale=0.3, **ridge)
    moments = watch(run, epsilon=0.5)
    bonuses = [moment.bonus for moment in moments[:-1]]
    assert len(bonuses) == 5
    assert {moment.action for moment in moments[:-1]} == {0, 1}
    np.testing.assert_allclose(bonuses, bonuses_by_inversion(run, moments), rtol=1e-4)
    seed = run.training.seed
    fresh = Rainbow(run.trainer.config, run.training.frame_shape, 1, 2, (0.0, 1.0), seed)
    fresh.network.load_state_dict(run.trainer.agent.network.state_dict())
    viewing = Viewing(epsilon=0.5, draws=False)
    before = [moment.bonus for moment in playback.watch(fresh, run.env, seed, viewing)][:-1]
    assert all(small < large for small, large in zip(bonuses, before, strict=True))


def test_values_of_agents_without_bonus(tmp_path: Path) -> None:
    run = trained(tmp_path, algo="spr")
    moments = watch(run)
    assert all(moment.bonus is None for moment in moments)
    env = make_eval_envs(run.env, seed=run.training.seed, count=1)[0]
    network = run.trainer.agent.network
    q = network.q_values(network.encoder(torch.tensor(env.reset())[None]), noisy=False).detach()
    assert moments[0].value == pytest.approx(float(q.max()), abs=1e-6)
    assert moments[0].action == int(q.argmax()) == int(run.trainer.agent.best(env.frame[None])[0])
    assert (moments[-1].action, moments[-1].value, moments[-1].is_over) == (None, None, True)


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_scores_equal_those_of_evaluations(breakout: DeepAgent, epsilon: float) -> None:
    scores = evaluate(breakout.trainer.agent, breakout.env, breakout.training.seed, 12, epsilon)
    last = last_moments(watch(breakout, episodes=12, epsilon=epsilon))
    assert [moment.score for moment in last] == scores.tolist()
    assert [moment.episode for moment in last] == list(range(12))
    assert all(moment.is_over for moment in last)
    later = watch(breakout, first=7, episodes=2, epsilon=epsilon)
    assert [moment.score for moment in last_moments(later)] == scores[7:9].tolist()
    assert later == [
        moment
        for moment in watch(breakout, episodes=12, epsilon=epsilon)
        if moment.episode in (7, 8)
    ]


class Weighted:
    """Chooses by a weighted sum of the three stacked frames."""

    bonus = None

    def best(self, observations: Any) -> Any:
        return observations[:, :, 0, 0].astype(int) @ (1, 2, 3) // 2 % 4

    def values(self, observation: Any) -> tuple[Any, None]:
        return np.eye(4)[self.best(observation[None])[0]], None


@pytest.mark.parametrize("at_once", [3, 100])
def test_lives_and_stacks_equal_those_of_evaluations(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(name: str, *, seed: int, count: int, first: int = 0, rules: str = "") -> list[Lives]:
        return [Lives(seed=seed, role=f"eval-{first + at}") for at in range(count)]

    for module in (rollouts, playback):
        monkeypatch.setattr(module, "make_eval_envs", make)
        monkeypatch.setattr(module, "AT_ONCE", at_once)
    scores = evaluate(Weighted(), "Lives", 5, 8, 0.0)
    for first, episodes in ((0, 8), (4, 2)):
        viewing = Viewing(first, episodes, draws=False)
        last = last_moments(list(playback.watch(Weighted(), "Lives", 5, viewing)))
        assert [moment.score for moment in last] == scores[first : first + episodes].tolist()


def test_moments_describe_the_state_before_the_action(breakout: DeepAgent) -> None:
    moments = watch(breakout, epsilon=0.5, draws=True)
    env = make_eval_envs(BREAKOUT, seed=breakout.training.seed, count=1)[0]
    env.reset()
    for moment in moments[:-1]:
        assert (moment.step, moment.score) == (env.n_steps, env.raw_return)
        np.testing.assert_array_equal(moment.picture, env.render())
        env.step(moment.action)
    np.testing.assert_array_equal(moments[-1].picture, env.render())
    assert moments[-1].step == len(moments) - 1


def test_long_episodes_are_abandoned(breakout: DeepAgent) -> None:
    moments = watch(breakout, episodes=2, max_steps=3)
    assert [(moment.episode, moment.step) for moment in moments] == [
        (episode, step) for episode in (0, 1) for step in range(4)
    ]
    assert not any(moment.is_over for moment in moments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"first": -1}, "first must be at least 0"),
        ({"episodes": 0}, "episodes must be at least 1"),
        ({"max_steps": 0}, "max_steps must be at least 1"),
        ({"epsilon": 1.5}, r"epsilon must be in \[0, 1\], got 1.5"),
    ],
)
def test_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Viewing(**options)
