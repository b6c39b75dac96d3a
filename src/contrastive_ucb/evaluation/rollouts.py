"""Evaluation of deep agents: when, on how many episodes, their scores, and control policies.

| environment | evaluations                                   | episodes each |
|-------------|-----------------------------------------------|---------------|
| Atari       | 1, of the final weights (Atari 100K protocol) | 100           |
| all others  | 5, evenly spaced over the last 10% of steps   | 20            |

The score of a run is the mean over all of its evaluations. On small tasks the greedy policy often
changes from one update to the next, so a single evaluation is a noisy estimate. The controls, a
random policy and the best constant action, are evaluated in the same way.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.data.history import Frames
from contrastive_ucb.envs.frames import FrameEnv
from contrastive_ucb.envs.registry import canonical_name, is_atari, make_deep_env, make_eval_envs

ATARI_EPISODES = 100
EPISODES = 20
POINTS = 5
AT_ONCE = 100  # environments that are played in parallel
LONGEST = 27_000  # steps per episode (the limit of Atari), for environments without a time limit
CHOICE_EPISODES = AT_ONCE  # per action, to choose the best constant action


def evaluation_steps(steps: int, count: int) -> list[int]:
    """The steps of `count` evaluations, evenly spaced over the last 10% and ending at `steps`.

    Short runs have fewer points, since each step is listed once.
    """
    check_size("steps", steps)
    check_size("count", count)
    points = (steps - (count - at) * steps // (10 * count) for at in range(1, count + 1))
    return list(dict.fromkeys(points))


def n_evaluations(env: str) -> int:
    """Number of evaluations of runs in `env`, a canonical name, if they are long enough."""
    return 1 if is_atari(env) else POINTS


def default_episodes(env: str) -> int:
    """Episodes per evaluation in `env`, a canonical name, unless the user chose another number."""
    return ATARI_EPISODES if is_atari(env) else EPISODES


# Episodes


class Player(Protocol):
    """A policy that can be evaluated."""

    def best(self, observations: Frames) -> Any:
        """Actions (B,) for observations (B, stack * C, ...)."""
        ...


@runtime_checkable
class StochasticPlayer(Player, Protocol):
    """A policy whose actions are drawn in evaluation."""

    def probabilities(self, observations: Frames) -> Array:
        """Probabilities (B, A) of the actions for observations (B, stack * C, ...)."""
        ...


def evaluate(
    agent: Player,
    env_name: str,
    seed: int,
    episodes: int,
    epsilon: float,
    index: int = 0,
    rules: str = "standard",
) -> Array:
    """Raw scores (episodes,) of the agent when a fraction `epsilon` of its actions is uniform.

    index  evaluations of one seed with different indices play different episodes
    rules  of Atari games, see `envs/atari.py`
    """
    check_size("episodes", episodes)
    check_size("index", index, least=0)
    if not 0 <= epsilon <= 1:
        raise ValueError(f"epsilon must be in [0, 1], got {epsilon}")
    n_envs = min(episodes, AT_ONCE)
    first = index * n_envs
    envs = make_eval_envs(env_name, seed=seed, count=n_envs, first=first, rules=rules)
    slots = [
        _Slot(env, stream(seed, f"eval/{first + at}"), range(at, episodes, n_envs))
        for at, env in enumerate(envs)
    ]
    scores, every_slot = np.zeros(episodes), slots
    while slots:
        frames = np.stack([slot.frames for slot in slots])  # (B, stack, C, ...)
        seen = frames.reshape(len(slots), -1, *frames.shape[3:])
        if isinstance(agent, StochasticPlayer):
            choices = agent.probabilities(seen)
        else:
            choices = agent.best(seen)
        for slot, choice in zip(slots, choices, strict=True):
            slot.play(choice, epsilon, scores)
        slots = [slot for slot in slots if slot.episodes]
    if n_cut := sum(slot.n_cut for slot in every_slot):
        warnings.warn(
            f"{n_cut} of {episodes} episodes of {env_name} did not end within {LONGEST:,} steps and"
            " are scored up to there; give the environment a time limit, such as"
            " gymnasium.wrappers.TimeLimit",
            stacklevel=2,
        )
    return scores


def digest(scores: Array) -> dict[str, Any]:
    """Mean, median and number of the scores (episodes,)."""
    return {
        "mean": float(scores.mean()),
        "median": float(np.median(scores)),
        "episodes": len(scores),
    }


def summarize_evaluations(evaluations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Summary of the evaluations of one run.

    evaluations  each has `step` and `scores`, and all have the same number of scores
    returns      `mean` and `median` over the scores of all evaluations, `episodes` per evaluation,
                 and the `points`: the step and the mean of each evaluation
    """
    scores = np.array([evaluation["scores"] for evaluation in evaluations])  # (points, episodes)
    steps = (evaluation["step"] for evaluation in evaluations)
    points = [
        {"step": step, "mean": float(row.mean())} for step, row in zip(steps, scores, strict=True)
    ]
    return digest(scores) | {"episodes": scores.shape[1], "points": points}


class _Slot:
    """An environment, its newest frames, and the indices of the episodes it still has to play."""

    def __init__(self, env: FrameEnv, random: np.random.Generator, episodes: Sequence[int]):
        self.env, self.random, self.episodes = env, random, episodes
        self.n_cut = 0  # episodes that reached LONGEST
        self.frames: Frames = np.zeros((env.stack, *env.frame_shape), env.reset().dtype)
        self.frames[-1] = env.frame  # as in replay, frames before the first one are zero

    def play(self, choice: Any, epsilon: float, scores: Array) -> None:
        """Take one step; if it ends an episode, store the score at the episode's index.

        choice  the best action, or the probabilities of all actions (A,)
        """
        uniform, n_actions = self.random.random(2), self.env.n_actions
        if uniform[0] < epsilon:
            action = int(uniform[1] * n_actions)
        elif np.ndim(choice):
            action = min(
                int(np.searchsorted(np.cumsum(choice), uniform[1], "right")), n_actions - 1
            )
        else:
            action = int(choice)
        step = self.env.step(action)
        cut = self.env.n_steps >= LONGEST
        self.n_cut += cut and not step.episode_over
        if step.episode_over or cut:
            scores[self.episodes[0]] = self.env.raw_return
            self.episodes = self.episodes[1:]
        if step.terminated or step.truncated or cut:
            self.frames[:] = 0
            self.frames[-1] = self.env.reset()
        else:
            self.frames[:-1] = self.frames[1:]
            self.frames[-1] = step.frame


# Controls


def constant(action: int) -> Player:
    """The policy that always takes the same action."""
    return SimpleNamespace(best=lambda seen: np.full(len(seen), action, dtype=np.int64))


def random_policy(n_actions: int, seed: int) -> Player:
    """The policy of uniform actions."""
    draws = stream(seed, "random policy")
    return SimpleNamespace(best=lambda seen: draws.integers(0, n_actions, len(seen)))


def random_control(env: str, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Records of the random policy, one per seed."""
    n_actions = make_deep_env(env, seed=seeds[0], training=False).n_actions
    return [_record("random", env, seed, random_policy(n_actions, seed)) for seed in seeds]


def constant_control(env: str, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Records of the best constant action, one per seed, with the scores of all actions.

    The action is chosen by its mean on episodes that are not part of the reported scores. Where the
    seed draws the task (DeepSea, RichLock) it is chosen for each seed, otherwise once for all.
    """
    env = canonical_name(env)
    by_seed = env.startswith(("DeepSea-", "RichLock-"))
    common = None if by_seed else constant_scores(env, seeds[0])
    records = []
    for seed in seeds:
        means = constant_scores(env, seed) if common is None else common
        action = int(means.argmax())
        choice = {"action": action, "means_of_actions": means.tolist()}
        records.append(_record("constant", env, seed, constant(action)) | choice)
    return records


def constant_scores(env: str, seed: int) -> Array:
    """Mean score of each constant action, (actions,).

    The episodes are not part of any evaluation of an agent, which uses environments with numbers
    below `CHOICE_EPISODES`.
    """
    policies = map(constant, range(make_deep_env(env, seed=seed, training=False).n_actions))
    return np.array(
        [evaluate(policy, env, seed, CHOICE_EPISODES, 0.0, index=1).mean() for policy in policies]
    )


def _record(algo: str, env: str, seed: int, policy: Player) -> dict[str, Any]:
    """The record of a control, with the keys of the summary of a run."""
    name = canonical_name(env)
    episodes = default_episodes(name)
    evaluations = [
        {"step": 0, "scores": evaluate(policy, name, seed, episodes, 0.0, index)}
        for index in reversed(range(n_evaluations(name)))
    ]
    spec = {"algo": algo, "env": name, "seed": seed, "steps": 0, "bonus": "none"}
    return {**spec, "evaluation": summarize_evaluations(evaluations)}
