"""Episodes of a trained agent moment by moment, with the bonus of each step.

They are the episodes of evaluation: number k < 100 is the one whose score is the k-th of
`rollouts.evaluate`. Later numbers have the games that evaluation would play there, and uniform
actions of their own: each episode can be watched without those before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from contrastive_ucb.agents.deep.rainbow import Rainbow
from contrastive_ucb.agents.simple.agent import Simple
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.data.history import Frames
from contrastive_ucb.envs.frames import FrameEnv, Picture
from contrastive_ucb.envs.registry import make_eval_envs
from contrastive_ucb.evaluation.rollouts import AT_ONCE


@dataclass(frozen=True)
class Viewing:
    """Which episodes are watched, and how."""

    first: int = 0
    """Number of the first one, as evaluation counts them from 0."""
    episodes: int = 1
    """How many, one after the other."""
    epsilon: float = 0.0
    """Part of uniform actions."""
    max_steps: int = 2000
    """Steps after which an episode is left."""
    draws: bool = True
    """Whether moments have a picture; without it nothing is asked to draw."""

    def __post_init__(self) -> None:
        check_size("first", self.first, least=0)
        check_size("episodes", self.episodes)
        check_size("max_steps", self.max_steps)
        if not 0 <= self.epsilon <= 1:
            raise ValueError(f"epsilon must be in [0, 1], got {self.epsilon}")


class Moment(NamedTuple):
    """What there is to see before an action, and the action; the last of an episode has none.

    episode  its number
    step     actions before this moment
    score    raw rewards before this moment
    picture  (height, width, 3), None if no pictures are drawn
    action   None in the last moment
    value    largest Q, without noise, or the value of the state; None in the last moment
    bonus    of the present observation and action; None in the last moment, and without a bonus
    is_over  whether the game itself ended here; an episode that was left has no such moment
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
    """The moments of all episodes in order; `seed` is that of the run, `rules` those of Atari."""
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
    """The moments of the episode that has just begun in `env`."""
    frames: Frames = np.zeros((env.stack, *env.frame_shape), env.frame.dtype)
    frames[-1] = env.frame  # as in replay, blanks stand for what was before the episode
    previous, is_over = 0, False
    while not is_over and env.n_steps < viewing.max_steps:
        q, bonus = judge(agent, frames.reshape(-1, *frames.shape[2:]))
        uniform = random.random(2)
        greedy = int(q.argmax())
        action = int(uniform[1] * env.n_actions) if uniform[0] < viewing.epsilon else greedy
        moment = _present(env, number, viewing.draws)._replace(action=action, value=float(q.max()))
        if agent.bonus is not None and bonus is not None:
            asked = previous if agent.bonus.is_previous else action
            moment = moment._replace(bonus=float(bonus[asked]))
        yield moment
        step, previous = env.step(action), action
        is_over = step.episode_over
        if (step.terminated or step.truncated) and not is_over:  # a life was lost
            frames[:] = 0
            frames[-1] = env.reset()
        else:
            frames[:-1] = frames[1:]
            frames[-1] = step.frame
    yield _present(env, number, viewing.draws)._replace(is_over=is_over)


def _present(env: FrameEnv, number: int, draws: bool) -> Moment:
    picture = env.render() if draws else None
    return Moment(number, env.n_steps, env.raw_return, picture)


@torch.no_grad()
def judge(agent: Rainbow | Simple, observation: Frames) -> tuple[Array, Array | None]:
    """What the agent makes of one observation (*shape): Q (A,) without noise, and its bonus (A,).

    The bonus is gamma sqrt(phi' inv(Sigma) phi) of each action, None for an agent without one.
    A policy has no Q: what stands in for it is as large as the state's value for the best action.
    """
    if isinstance(agent, Simple):
        return agent.preferences(observation), None
    latent = agent.network.encoder(agent.inputs.plain(observation[None]))
    q = np.asarray(agent.network.q_values(latent, noisy=False)[0].cpu(), dtype=np.float64)
    if agent.bonus is None:
        return q, None
    return q, np.asarray(agent.bonus.of_all(latent)[0].cpu(), dtype=np.float64)
