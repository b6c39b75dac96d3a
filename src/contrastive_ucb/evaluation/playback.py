"""Episodes of a trained deep agent step by step, with the value and the bonus of each step.

They are the episodes of evaluation: the score of episode k < 100 is the k-th score of
`rollouts.evaluate`. Later episodes have the same initial states as in an evaluation but separate
random streams for uniform actions, so that each episode can be played without the earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from contrastive_ucb.core.checks import check_range, check_size
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.data.history import Frames
from contrastive_ucb.envs.frames import FrameEnv, Picture
from contrastive_ucb.envs.registry import make_eval_envs
from contrastive_ucb.evaluation.rollouts import AT_ONCE

if TYPE_CHECKING:
    from contrastive_ucb.agents.deep.rainbow import Rainbow
    from contrastive_ucb.agents.simple.agent import Simple


@dataclass(frozen=True)
class Viewing:
    """Which episodes are played, and how."""

    first: int = 0
    """Index of the first episode, from 0 as in evaluations."""
    episodes: int = 1
    """Number of episodes."""
    epsilon: float = 0.0
    """Fraction of uniform actions."""
    max_steps: int = 2000
    """Maximum number of steps per episode."""
    draws: bool = True
    """Whether moments have an image; otherwise nothing is rendered."""

    def __post_init__(self) -> None:
        check_size("first", self.first, least=0)
        check_size("episodes", self.episodes)
        check_size("max_steps", self.max_steps)
        check_range(self, epsilon=(0, 1))


class Moment(NamedTuple):
    """The situation before an action, and the action; the last moment of an episode has no action.

    episode  index of the episode
    step     number of actions so far
    score    sum of the raw rewards so far
    picture  (height, width, 3), None if nothing is rendered
    action   None in the last moment
    value    largest Q, without noise, or the value of the state; None in the last moment
    bonus    of the observation and action; None in the last moment and for agents without bonus
    is_over  whether the episode ended here; always False if it was abandoned
    """

    episode: int
    step: int
    score: float
    picture: Picture | None
    action: int | None = None
    value: float | None = None
    bonus: float | None = None
    is_over: bool = False


def watch(
    agent: Rainbow | Simple, env_name: str, seed: int, viewing: Viewing, rules: str = "standard"
) -> Iterator[Moment]:
    """The moments of all episodes in order.

    seed   of the run
    rules  of Atari games, see `envs/atari.py`
    """
    numbers = range(viewing.first, viewing.first + viewing.episodes)
    count = min(numbers.stop, AT_ONCE)
    envs = make_eval_envs(env_name, seed=seed, count=count, rules=rules)
    for number in numbers:
        turn, at = divmod(number, AT_ONCE)
        while envs[at].episode < turn:
            envs[at].reset()
        yield from _episode(agent, envs[at], stream(seed, f"eval/{number}"), number, viewing)


def _episode(
    agent: Rainbow | Simple,
    env: FrameEnv,
    random: np.random.Generator,
    number: int,
    viewing: Viewing,
) -> Iterator[Moment]:
    """The moments of the episode that has begun in `env`."""

    def moment(**more: Any) -> Moment:
        picture = env.render() if viewing.draws else None
        return Moment(number, env.n_steps, env.raw_return, picture, **more)

    frames: Frames = np.zeros((env.stack, *env.frame_shape), env.frame.dtype)
    frames[-1] = env.frame  # as in replay, frames before the first one are zero
    previous, is_over = 0, False
    while not is_over and env.n_steps < viewing.max_steps:
        q, bonuses = agent.values(frames.reshape(-1, *frames.shape[2:]))
        uniform = random.random(2)
        greedy = int(q.argmax())
        action = int(uniform[1] * env.n_actions) if uniform[0] < viewing.epsilon else greedy
        bonus = None
        if agent.bonus is not None and bonuses is not None:
            bonus = float(bonuses[previous if agent.bonus.is_previous else action])
        yield moment(action=action, value=float(q.max()), bonus=bonus)
        step, previous = env.step(action), action
        is_over = step.episode_over
        if (step.terminated or step.truncated) and not is_over:  # a life was lost
            frames[:] = 0
            frames[-1] = env.reset()
        else:
            frames[:-1] = frames[1:]
            frames[-1] = step.frame
    yield moment(is_over=is_over)
