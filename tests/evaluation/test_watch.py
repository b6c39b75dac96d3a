"""Episodes moment by moment: those of evaluation, with the bonus that the checkpoint holds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from evaluation.test_rollouts import Lives
from experiments.training_runs import BREAKOUT, run, training

from contrastive_ucb.agents.deep.rainbow import Rainbow
from contrastive_ucb.core.checkpoint import latest_checkpoint, load_checkpoint
from contrastive_ucb.envs.registry import make_eval_envs
from contrastive_ucb.evaluation import playback, rollouts
from contrastive_ucb.evaluation.playback import Moment, Viewing
from contrastive_ucb.evaluation.rollouts import evaluate
from contrastive_ucb.experiments.trained import Trained, load_trained


def trained(root: Path, env: str = "DeepSea-5", **settings: Any) -> Trained:
    torch.set_num_threads(1)
    return load_trained(Path(run(training(env, **settings), root)["run_dir"]))


@pytest.fixture(scope="module")
def breakout(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return trained(tmp_path_factory.mktemp("breakout"), BREAKOUT)


def seen(one: Trained, **viewing: Any) -> list[Moment]:
    shown = Viewing(**{"draws": False, **viewing})
    return list(playback.watch(one.agent, one.env, one.seed, shown))


def ends(moments: list[Moment]) -> list[Moment]:
    return [moment for moment in moments if moment.action is None]


@torch.no_grad()
def slow_bonuses(one: Trained, moments: list[Moment]) -> list[float]:
    """The bonuses of one episode in a deep sea, from the arrays of the checkpoint alone."""
    state = load_checkpoint(latest_checkpoint(one.run_dir / "checkpoints"))["trainer"]["agent"]
    sigma = np.asarray(state["bonus"]["counted"]["sigma"], dtype=np.float64)
    config, network = one.config.bonus, one.agent.network
    network.load_state_dict(state["network"])
    env = make_eval_envs(one.env, seed=one.seed, count=1)[0]
    env.reset()
    found, previous = [], 0
    for moment in moments[:-1]:
        latent = network.encoder(torch.tensor(env.frame)[None])
        action = previous if config.action == "previous" else moment.action
        if config.feature == "hidden":
            phi, block = network.head.hidden(latent, config.noisy)[0], action
        else:
            phi, block = network.head(latent, config.noisy)[0, action].softmax(-1), 0
        phi = phi.numpy().astype(np.float64)
        found.append(config.scale * np.sqrt(phi @ np.linalg.inv(sigma[block]) @ phi))
        env.step(moment.action)
        previous = moment.action
    return found


@pytest.mark.parametrize("preset", ["paper", "algorithm-1", "reference"])
def test_bonuses_are_those_of_the_checkpoint(preset: str, tmp_path: Path) -> None:
    # The reference's ridge of 1e-5 is lost in float32; a larger one lets both ways agree.
    ridge = {"bonus__ridge": 0.5} if preset == "reference" else {}
    one = trained(tmp_path, bonus__preset=preset, bonus__scale=0.3, **ridge)
    moments = seen(one, epsilon=0.5)
    bonuses = [moment.bonus for moment in moments[:-1]]
    assert len(bonuses) == 5
    assert {moment.action for moment in moments[:-1]} == {0, 1}
    np.testing.assert_allclose(bonuses, slow_bonuses(one, moments), rtol=1e-4)
    fresh = Rainbow(one.config, one.frame_shape, 1, 2, (0.0, 1.0), one.seed)
    fresh.network.load_state_dict(one.agent.network.state_dict())
    unseen = playback.watch(fresh, one.env, one.seed, Viewing(epsilon=0.5, draws=False))
    before = [moment.bonus for moment in unseen][:-1]
    assert all(small < large for small, large in zip(bonuses, before, strict=True))


def test_without_a_bonus_there_is_the_value(tmp_path: Path) -> None:
    one = trained(tmp_path, algo="spr")
    moments = seen(one)
    assert all(moment.bonus is None for moment in moments)
    env = make_eval_envs(one.env, seed=one.seed, count=1)[0]
    network = one.agent.network
    q = network.q_values(network.encoder(torch.tensor(env.reset())[None]), noisy=False).detach()
    assert moments[0].value == pytest.approx(float(q.max()), abs=1e-6)
    assert moments[0].action == int(q.argmax()) == int(one.agent.best(env.frame[None])[0])
    assert (moments[-1].action, moments[-1].value, moments[-1].is_over) == (None, None, True)


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_scores_are_those_of_evaluation(breakout: Trained, epsilon: float) -> None:
    scores = evaluate(breakout.agent, breakout.env, breakout.seed, 12, epsilon)
    found = ends(seen(breakout, episodes=12, epsilon=epsilon))
    assert [moment.score for moment in found] == scores.tolist()
    assert [moment.episode for moment in found] == list(range(12))
    assert all(moment.is_over for moment in found)
    later = seen(breakout, first=7, episodes=2, epsilon=epsilon)
    assert [moment.score for moment in ends(later)] == scores[7:9].tolist()
    assert later == [
        moment
        for moment in seen(breakout, episodes=12, epsilon=epsilon)
        if moment.episode in (7, 8)
    ]


class Weigher:
    """Chooses by each of the three frames that it sees, and by their order."""

    bonus = None

    def best(self, observations: Any) -> Any:
        return observations[:, :, 0, 0].astype(int) @ (1, 2, 3) // 2 % 4


@pytest.mark.parametrize("at_once", [3, 100])
def test_lives_stacks_and_turns_are_those_of_evaluation(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(name: str, *, seed: int, count: int, first: int = 0, rules: str = "") -> list[Lives]:
        return [Lives(seed=seed, role=f"eval-{first + at}") for at in range(count)]

    def judge(agent: Any, observation: Any) -> tuple[Any, None]:
        return np.eye(4)[agent.best(observation[None])[0]], None

    for module in (rollouts, playback):
        monkeypatch.setattr(module, "make_eval_envs", make)
        monkeypatch.setattr(module, "AT_ONCE", at_once)
    monkeypatch.setattr(playback, "judge", judge)
    scores = evaluate(Weigher(), "Lives", 5, 8, 0.0)
    for first, episodes in ((0, 8), (4, 2)):
        viewing = Viewing(first, episodes, draws=False)
        found = ends(list(playback.watch(Weigher(), "Lives", 5, viewing)))  # type: ignore[arg-type]
        assert [moment.score for moment in found] == scores[first : first + episodes].tolist()


def test_the_number_of_the_episode_and_nothing_else_decides(breakout: Trained) -> None:
    one, again, other = (seen(breakout, first=first, epsilon=0.5) for first in (3, 3, 4))
    assert one == again
    assert [moment[1:] for moment in one] != [moment[1:] for moment in other]


def test_moments_tell_what_was_before_the_action(breakout: Trained) -> None:
    moments = seen(breakout, epsilon=0.5, draws=True)
    env = make_eval_envs(BREAKOUT, seed=breakout.seed, count=1)[0]
    env.reset()
    for moment in moments[:-1]:
        assert (moment.step, moment.score) == (env.n_steps, env.raw_return)
        np.testing.assert_array_equal(moment.picture, env.render())
        env.step(moment.action)
    np.testing.assert_array_equal(moments[-1].picture, env.render())
    assert moments[-1].step == len(moments) - 1


def test_long_episodes_are_left(breakout: Trained) -> None:
    moments = seen(breakout, episodes=2, max_steps=3)
    assert [(moment.episode, moment.step) for moment in moments] == [
        (episode, step) for episode in (0, 1) for step in range(4)
    ]
    assert not any(moment.is_over for moment in moments)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"first": -1}, "first must be at least 0"),
        ({"episodes": 0}, "episodes must be at least 1"),
        ({"max_steps": 0}, "max_steps must be at least 1"),
        ({"epsilon": 1.5}, r"epsilon must be in \[0, 1\], got 1.5"),
    ],
)
def test_wrong_numbers_are_errors(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Viewing(**wrong)
