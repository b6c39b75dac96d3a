"""Evaluation of deep agents: the protocol, episodes and scores, and control policies."""

from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.data.replay import Replay
from contrastive_ucb.envs import DeepSea
from contrastive_ucb.envs.frames import FrameEnv, Step
from contrastive_ucb.envs.registry import canonical_name, make_eval_envs
from contrastive_ucb.evaluation import rollouts
from contrastive_ucb.evaluation.rollouts import (
    constant,
    constant_control,
    constant_scores,
    default_episodes,
    digest,
    evaluate,
    evaluation_steps,
    is_atari,
    n_evaluations,
    random_control,
    random_policy,
    summarize_evaluations,
)

# Protocol


@given(st.integers(1, 10**6), st.integers(1, 20))
def test_evaluation_steps_against_fractions(steps: int, count: int) -> None:
    exact = [steps * (Fraction(9, 10) + Fraction(at, 10 * count)) for at in range(1, count + 1)]
    points = evaluation_steps(steps, count)
    assert points == sorted({ceil(point) for point in exact})
    assert points[-1] == steps
    assert points[0] >= 1
    assert len(points) == count or steps < 10 * count


@pytest.mark.parametrize(
    ("name", "atari"),
    [
        ("Pong", True),
        ("ALE/RoadRunner-v5", True),
        ("MinAtar/Breakout-v1", False),
        ("DeepSea-10", False),
        ("RichLock-6", False),
        ("CartPole-v1", False),
        ("Blackjack-v1", False),  # also the name of an Atari game
    ],
)
def test_protocol_of_atari_and_others(name: str, atari: bool) -> None:
    known = canonical_name(name)
    assert is_atari(known) == atari
    assert (n_evaluations(known), default_episodes(known)) == ((1, 100) if atari else (5, 20))


# Episodes


class Lives(FrameEnv):
    """Three lives of random length; the reward of a step is its number plus the action."""

    name, frame_shape, stack, n_actions, value_range = "Lives", (1, 2, 2), 3, 4, (0.0, 1.0)

    def _begin(self, random: np.random.Generator) -> Any:
        self.ends = np.cumsum(random.integers(1, 6, 3)).tolist()
        self.mark = int(random.integers(100))
        return np.full(self.frame_shape, self.mark, np.uint8)

    def _advance(self, action: int) -> Step:
        frame = np.full(self.frame_shape, self.mark + self.n_steps, np.uint8)
        over = self.n_steps == self.ends[-1]
        reward = float(self.n_steps + action)
        return Step(frame, reward, reward, self.n_steps in self.ends, False, over)

    def render(self) -> Any:
        raise NotImplementedError


class Sum:
    """Chooses by the sum of the observation and records it."""

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


def scores_by_replay(player: Sum, seed: int, at: int, episodes: int, epsilon: float) -> list[float]:
    """A slow implementation: one environment, with observations of the replay memory."""
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


@pytest.mark.parametrize(("epsilon", "index", "at_once"), [(0.0, 0, 8), (0.3, 2, 8), (0.1, 1, 3)])
def test_scores_against_a_slow_implementation(
    epsilon: float, index: int, at_once: int, lives: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with more episodes than environments, and of later evaluations."""
    monkeypatch.setattr(rollouts, "AT_ONCE", at_once)
    scores = evaluate(Sum(), "Lives", 5, 8, epsilon, index)
    for at in range(at_once):
        expected = scores[at::at_once].tolist()
        played = scores_by_replay(Sum(), 5, at_once * index + at, len(expected), epsilon)
        assert played == expected
    assert len(set(scores)) > 1


class Drawn(Sum):
    """Draws its actions, uniformly or always the best one."""

    def __init__(self, is_uniform: bool):
        super().__init__()
        self.is_uniform = is_uniform

    def probabilities(self, observations: Any) -> Any:
        if self.is_uniform:
            return np.full((len(observations), 4), 1 / 4)
        return np.eye(4)[self.best(observations)]


@pytest.mark.parametrize("is_uniform", [False, True])
def test_stochastic_policies_draw_their_actions(is_uniform: bool, lives: None) -> None:
    scores = evaluate(Drawn(is_uniform), "Lives", 5, 8, 0.0)
    assert scores.tolist() == evaluate(Sum(), "Lives", 5, 8, float(is_uniform)).tolist()


def test_long_episodes_are_cut(lives: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollouts, "LONGEST", 2)
    with pytest.warns(UserWarning, match="5 of 5 episodes of Lives .* within 2 steps .*TimeLimit"):
        scores = evaluate(Sum(), "Lives", 0, 5, 0.0)
    assert (scores <= 3 + 2 * 3).all()


def test_the_optimal_policy_of_deep_sea() -> None:
    right = DeepSea(6, seed=3).right.reshape(-1)

    class Optimal:
        def best(self, observations: Any) -> Any:
            return right[observations.argmax(-1)]

    scores = evaluate(Optimal(), "DeepSea-6", 3, 5, 0.0)
    assert scores.tolist() == [1.0] * 5
    assert evaluate(Optimal(), "DeepSea-6", 3, 20, 1.0).mean() < 0.5


def test_invalid_arguments() -> None:
    for arguments, name in (((0, 0.0), "episodes"), ((1, 1.5), "epsilon"), ((1, 0.0, -1), "index")):
        with pytest.raises(ValueError, match=name):
            evaluate(Sum(), "DeepSea-5", 0, *arguments)


def test_summaries_of_scores() -> None:
    assert digest(np.array([1.0, 2.0, 9.0])) == {"mean": 4.0, "median": 2.0, "episodes": 3}
    evaluations = [{"step": 9, "scores": [0.0, 4.0]}, {"step": 10, "scores": [1.0, 7.0]}]
    assert summarize_evaluations(evaluations) == {
        "mean": 3.0,
        "median": 2.5,
        "episodes": 2,
        "points": [{"step": 9, "mean": 2.0}, {"step": 10, "mean": 4.0}],
    }


# Controls


def play_constant(env: str, seed: int, role: int, action: int) -> float:
    """The score of one episode in the evaluation environment `role`."""
    played = make_eval_envs(env, seed=seed, count=role + 1)[role]
    played.reset()
    while not played.step(action).episode_over:
        pass
    return played.raw_return


@pytest.mark.parametrize("env", ["DeepSea-6", "MinAtar/Breakout-v1"])
def test_constant_actions_are_chosen_on_other_episodes(env: str) -> None:
    means = constant_scores(env, 3)
    for action, mean in enumerate(means):
        scores = [play_constant(env, 3, role, action) for role in range(100, 200)]
        assert mean == pytest.approx(np.mean(scores))


def test_constant_control_is_evaluated_like_agents() -> None:
    env = "MinAtar/Breakout-v1"
    first, second = constant_control(env, range(2))
    assert first["means_of_actions"] == second["means_of_actions"]
    assert first["action"] == int(np.argmax(first["means_of_actions"]))
    for seed, record in enumerate((first, second)):
        scores = [
            evaluate(constant(record["action"]), env, seed, 20, 0.0, index).mean()
            for index in range(5)
        ]
        assert record["evaluation"]["mean"] == pytest.approx(np.mean(scores))
        means = [point["mean"] for point in record["evaluation"]["points"]]
        assert means == pytest.approx(scores[::-1])
        assert record["evaluation"]["episodes"] == 20


def test_constant_control_of_deep_sea_is_chosen_per_seed() -> None:
    records = constant_control("DeepSea-6", range(6))
    for seed, record in enumerate(records):
        returns = [play_constant("DeepSea-6", seed, 0, action) for action in range(2)]
        assert record["evaluation"]["mean"] == pytest.approx(max(returns))
    assert {record["action"] for record in records} == {0, 1}


def test_random_control_is_uniform_and_repeatable() -> None:
    assert random_control("DeepSea-6", [4]) == random_control("DeepSea-6", [4])
    drawn = random_policy(3, seed=4).best(np.zeros((3000, 1)))
    np.testing.assert_allclose(np.bincount(drawn) / 3000, 1 / 3, atol=0.05)
