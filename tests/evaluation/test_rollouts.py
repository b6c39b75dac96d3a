"""Evaluation: the right episodes, scores and observations, whatever runs beside them."""

from typing import Any

import numpy as np
import pytest

from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.data.replay import Replay
from contrastive_ucb.envs.deepsea import DeepSeaGrid
from contrastive_ucb.envs.frames import Step
from contrastive_ucb.envs.registry import make_eval_envs
from contrastive_ucb.envs.snapshot import ReplayedEnv
from contrastive_ucb.evaluation import rollouts
from contrastive_ucb.evaluation.rollouts import (
    ConstantPolicy,
    RandomPolicy,
    digest,
    evaluate,
    summarize_evaluations,
)


class Lives(ReplayedEnv):
    """Three lives of random length; every step pays its number."""

    name, frame_shape, stack, n_actions, value_range = "Lives", (1, 2, 2), 3, 4, (0.0, 1.0)

    def _begin(self, random: np.random.Generator) -> Any:
        self.ends = np.cumsum(random.integers(1, 6, 3)).tolist()
        self.mark = int(random.integers(100))
        return np.full(self.frame_shape, self.mark, np.uint8)

    def _advance(self, action: int) -> Step:
        frame = np.full(self.frame_shape, self.mark + self.n_steps, np.uint8)
        over = self.n_steps == self.ends[-1]
        paid = float(self.n_steps + action)
        return Step(frame, paid, paid, self.n_steps in self.ends, False, over)

    def render(self) -> Any:
        raise NotImplementedError


class Sum:
    """Chooses by all that it sees and remembers it."""

    def __init__(self) -> None:
        self.batches: list[Any] = []

    def best(self, observations: Any) -> Any:
        self.batches.append(observations.copy())
        return observations.reshape(len(observations), -1).sum(-1, dtype=int) % 4


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(name: str, *, seed: int, count: int, first: int = 0, rules: str = "") -> list[Lives]:
        return [Lives(seed=seed, role=f"eval-{at}") for at in range(first, first + count)]

    monkeypatch.setattr(rollouts, "make_eval_envs", make)


def one_by_one(player: Sum, seed: int, at: int, episodes: int, epsilon: float) -> list[float]:
    """The slow twin: one environment, and observations by the rule of the replay memory."""
    env = Lives(seed=seed, role=f"eval-{at}")
    replay = Replay(1000, env.frame_shape, stack=env.stack)
    random, scores = stream(seed, f"eval/{at}"), []
    replay.begin(env.reset())
    while len(scores) < episodes:
        uniform = random.random(2)
        best = int(player.best(replay.observation()[None])[0])
        action = int(uniform[1] * env.n_actions) if uniform[0] < epsilon else best
        step = env.step(action)
        replay.add(action, step.reward, step.frame, step.terminated, step.truncated)
        if step.episode_over:
            scores.append(env.raw_return)
        if step.terminated or step.truncated:
            replay.begin(env.reset())
    return scores


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_scores_equal_those_of_one_environment_after_the_other(lives: None, epsilon: float) -> None:
    scores = evaluate(Sum(), "Lives", 5, 8, epsilon)
    assert scores.tolist() == [one_by_one(Sum(), 5, at, 1, epsilon)[0] for at in range(8)]
    assert len(set(scores)) > 1


def test_more_episodes_than_environments_are_played_in_turn(
    lives: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollouts, "AT_ONCE", 3)
    scores = evaluate(Sum(), "Lives", 0, 7, 0.1)
    for at, count in enumerate((3, 2, 2)):
        assert scores[at::3].tolist() == one_by_one(Sum(), 0, at, count, 0.1)


def test_evaluations_with_different_indices_play_different_episodes(lives: None) -> None:
    for index in range(3):
        scores = evaluate(Sum(), "Lives", 5, 4, 0.3, index)
        expected = [one_by_one(Sum(), 5, 4 * index + at, 1, 0.3)[0] for at in range(4)]
        assert scores.tolist() == expected


def test_all_that_still_play_are_asked_at_once(lives: None) -> None:
    player = Sum()
    evaluate(player, "Lives", 0, 8, 0.0)
    sizes = [len(batch) for batch in player.batches]
    assert sizes[0] == 8
    assert sizes == sorted(sizes, reverse=True)
    assert player.batches[0].shape == (8, 3, 2, 2)
    assert not player.batches[0][:, :2].any()  # blanks before the first frame


def test_seed_and_nothing_else_decides(lives: None) -> None:
    one, again, other = (evaluate(Sum(), "Lives", seed, 6, 1.0) for seed in (1, 1, 2))
    assert one.tolist() == again.tolist() != other.tolist()
    assert evaluate(Sum(), "Lives", 1, 4, 1.0).tolist() == one[:4].tolist()


def test_games_without_an_end_are_cut(lives: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollouts, "LONGEST", 2)
    scores = evaluate(Sum(), "Lives", 0, 5, 0.0)
    assert (scores <= 3 + 2 * 3).all()


def test_the_best_policy_finds_the_treasure_in_the_sea_it_was_trained_in() -> None:
    sea = DeepSeaGrid(6, seed=3).sea

    class Diver:
        def best(self, observations: Any) -> Any:
            return sea.right.reshape(-1)[observations.argmax(-1)]

    scores = evaluate(Diver(), "DeepSea-6", 3, 5, 0.0)
    assert scores.tolist() == [1.0] * 5
    assert evaluate(Diver(), "DeepSea-6", 3, 20, 1.0).mean() < 0.5


def test_raw_scores_of_a_real_game() -> None:
    class Still:
        def best(self, observations: Any) -> Any:
            assert observations.dtype == np.uint8
            return np.zeros(len(observations), int)

    name = "MinAtar/Breakout-v1"
    expected = []
    for env in make_eval_envs(name, seed=0, count=3):
        env.reset()
        while not env.step(0).episode_over:
            pass
        expected.append(env.raw_return)
    assert evaluate(Still(), name, 0, 3, 0.0).tolist() == expected


def test_wrong_numbers_are_errors() -> None:
    for wrong, says in (((0, 0.0), "episodes"), ((1, 1.5), "epsilon"), ((1, 0.0, -1), "index")):
        with pytest.raises(ValueError, match=says):
            evaluate(Sum(), "DeepSea-5", 0, *wrong)


def test_digest_has_mean_median_and_number() -> None:
    assert digest(np.array([1.0, 2.0, 9.0])) == {"mean": 4.0, "median": 2.0, "episodes": 3}


def test_a_summary_is_over_the_scores_of_all_evaluations() -> None:
    evaluations = [{"step": 9, "scores": [0.0, 4.0]}, {"step": 10, "scores": [1.0, 7.0]}]
    assert summarize_evaluations(evaluations) == {
        "mean": 3.0,
        "median": 2.5,
        "episodes": 2,
        "points": [{"step": 9, "mean": 2.0}, {"step": 10, "mean": 4.0}],
    }


def test_simple_policies() -> None:
    frames = np.zeros((3, 4), dtype=np.uint8)
    assert ConstantPolicy(2).best(frames).tolist() == [2, 2, 2]
    drawn = RandomPolicy(4, np.random.default_rng(0)).best(np.zeros((4000, 1)))
    np.testing.assert_allclose(np.bincount(drawn) / 4000, 0.25, atol=0.03)
