"""The lock board: any agent on combination locks with rich observations, with equal rules for all.

An agent is an object with one method, and a function of a seed makes it:

    class MyAgent:
        def run(self, env_factory, budget):
            env = env_factory()  # a Gymnasium environment, with env.horizon and env.remaining
            ...                  # learn
            yield policy         # as often as you like, or return one policy at the end

    def make_agent(seed):
        return MyAgent(...)

A policy is a function of the step 0..H-1 and of observations (n, D) that returns n actions. Every
policy is evaluated, without costs for the agent. The lock is solved if five evaluations in a row
return 1 in all of 20 episodes; then the run ends. The last policy is evaluated until the rule has
decided. The budget is a number of trajectories: of calls of `reset`, in all environments together.
The next one raises `BudgetSpent`, which the agent may catch to return a last policy.

experiments/locks.toml contains the locks with their seeds and budgets.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import repeat
from pathlib import Path
from statistics import median
from typing import Any, Protocol, Self

import gymnasium
import numpy as np

from contrastive_ucb.agents.finite.presets import PRESETS
from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.files import sealed, write_atomically
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.core.runtime import threads
from contrastive_ucb.envs.foreign import find_modules_here
from contrastive_ucb.envs.rich_lock import RichLock
from contrastive_ucb.evaluation.trackers import EPISODES, STREAK, StopRule
from contrastive_ucb.runs.grid import experiment_table
from contrastive_ucb.runs.store import read_object

NAME = "locks.json"
DEEP = ("rainbow", "spr", "spr-ucb")  # deep agents of `cucb train` on the board
SOLVED_RETURN = 1.0
Policy = Callable[[int, Array], Any]  # step, observations (n, D) -> actions (n,)


class BudgetSpent(UserError):
    """The agent began more trajectories than its budget."""


class Meter:
    """Trajectories and steps in all environments of a run.

    A copy of an environment has the meter of the original, so that copies are counted.
    """

    def __init__(self, budget: int):
        self.budget, self.trajectories, self.env_steps = budget, 0, 0
        self.is_spent, self.process = False, os.getpid()

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def begin(self) -> None:
        """Count a trajectory."""
        if os.getpid() != self.process:
            raise UserError(
                f"process {os.getpid()} began a trajectory, which is not counted in process"
                f" {self.process}; use the environments in the process of run()"
            )
        if self.trajectories == self.budget:
            self.is_spent = True
            raise BudgetSpent(f"the budget of {self.budget} trajectories is spent; end the run")
        self.trajectories += 1


class LockEnv(gymnasium.Env[Array, np.int64]):
    """A RichLock whose trajectories and steps are counted.

    number  of the environment in its run; without a seed in `reset`, it determines the noise
    """

    def __init__(self, lock: RichLock, meter: Meter, number: int):
        self._lock, self._meter, self.horizon = lock, meter, lock.horizon
        self.observation_space, self.action_space = lock.observation_space, lock.action_space
        lock.np_random = stream(lock.seed, f"lock board {number}")

    @property
    def remaining(self) -> int:
        """Trajectories that the agent may still begin."""
        return self._meter.budget - self._meter.trajectories

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        self._meter.begin()
        return self._lock.reset(seed=seed)

    def step(self, action: int | np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        result = self._lock.step(action)
        self._meter.env_steps += 1
        return result


class LockAgent(Protocol):
    """What competes on the board; see the top of this module."""

    def run(self, env_factory: Callable[[], LockEnv], budget: int) -> Policy | Iterator[Policy]: ...


MakeAgent = Callable[[int], LockAgent]


@dataclass(frozen=True)
class LockRun:
    """One agent on one lock. Numbers are those at the end of the run.

    cpu_seconds  of the agent and its environments, on all cores, without evaluations
    """

    agent: str
    horizon: int
    n_actions: int
    budget: int
    seed: int
    solved: bool
    trajectories: int
    env_steps: int
    cpu_seconds: float
    evaluations: int


@dataclass(frozen=True)
class LockTask:
    """One lock: its length, the seed of its combination and of the agent, and the budget."""

    horizon: int
    n_actions: int
    budget: int
    seed: int

    def make(self) -> RichLock:
        return RichLock(self.horizon, self.n_actions, self.seed)

    def run(self, agent: str, make_agent: MakeAgent) -> LockRun:
        """Run an agent until the lock is solved or the budget is spent."""
        meter, rule = Meter(self.budget), StopRule(SOLVED_RETURN)
        made: list[LockEnv] = []

        def env_factory() -> LockEnv:
            made.append(LockEnv(self.make(), meter, len(made)))
            return made[-1]

        random, evaluations, seconds = stream(self.seed, "lock board evaluation"), 0, 0.0
        began = time.process_time()
        for policy in _policies(make_agent(self.seed), env_factory, meter):
            seconds += time.process_time() - began
            evaluations += 1
            rule.note(play(self.make(), policy, random, agent), evaluations)
            began = time.process_time()
            if rule.solved_at:
                break
        else:
            seconds += time.process_time() - began
        return LockRun(
            agent,
            **asdict(self),
            solved=bool(rule.solved_at),
            trajectories=meter.trajectories,
            env_steps=meter.env_steps,
            cpu_seconds=round(seconds, 3),
            evaluations=evaluations,
        )


def _policies(
    agent: LockAgent, env_factory: Callable[[], LockEnv], meter: Meter
) -> Iterator[Policy]:
    """What the agent yields or returns, then its last policy so often that the rule can decide."""
    last: Policy | None = None
    try:
        result = agent.run(env_factory, meter.budget)
        for last in result if isinstance(result, Iterator) else [result]:
            yield last
    except Exception:
        if not meter.is_spent:
            raise
        # The agent did not catch BudgetSpent.
    if last is not None:
        yield from repeat(last, STREAK)


def play(lock: RichLock, policy: Policy, random: np.random.Generator, agent: str) -> Array:
    """The returns (20,) of one evaluation."""
    if not callable(policy):
        raise UserError(
            f"{agent} returned {policy!r} as a policy; return a function of the step and of"
            " observations (n, D)"
        )
    walk, returns = lock.begin(EPISODES, random), np.zeros(EPISODES)
    for step in range(lock.horizon):
        actions = checked_actions(policy(step, walk.observations.copy()), lock.n_actions, agent)
        returns += walk.move(actions, random)
    return returns


def checked_actions(given: Any, n_actions: int, agent: str) -> IntArray:
    """The actions (20,) of a policy."""
    actions = np.asarray(given)
    valid = actions.shape == (EPISODES,) and actions.dtype.kind in "iu"
    if not valid or (actions < 0).any() or (actions >= n_actions).any():
        raise UserError(
            f"the policy of {agent} returned {actions.dtype} of shape {actions.shape}; return"
            f" {EPISODES} whole numbers from 0 to {n_actions - 1}, one per observation"
        )
    return actions.astype(np.int64)


# Agents


class OwnAgent:
    """An algorithm of this package in the environments of the board, as in those of a user.

    settings  that differ from the defaults of Gymnasium environments
    """

    def __init__(self, algo: str, seed: int, **settings: Any):
        self.algo, self.seed, self.settings = algo, seed, settings

    def run(self, env_factory: Callable[[], LockEnv], budget: int) -> Iterator[Policy]:
        from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB

        horizon = env_factory().horizon
        agent = ContrastiveUCB(
            env_factory, seed=self.seed, algo=self.algo, horizon=horizon, **self.settings
        )
        while True:  # until the budget is spent
            agent.round()
            yield lambda step, observations: agent.predict(observations, step)[0]


class OwnDeepAgent:
    """A deep agent of this package, which yields a policy per 20 episodes."""

    def __init__(self, algo: str, seed: int, **settings: Any):
        self.algo, self.seed = algo, seed
        self.settings = {"support": (0.0, SOLVED_RETURN), **settings}

    def run(self, env_factory: Callable[[], LockEnv], budget: int) -> Iterator[Policy]:
        from contrastive_ucb.runs.deep_agent import DeepAgent

        horizon = env_factory().horizon
        agent = DeepAgent(env_factory, self.seed, algo=self.algo, settings=self.settings)
        trainer = agent.trainer
        trainer.steps = budget * horizon  # for schedules
        for event in trainer.run(trainer.steps):
            if event.step % (EPISODES * horizon) == 0:
                yield lambda step, observations: agent.predict(observations)[0]


def agent_called(name: str) -> MakeAgent:
    """The function `module:function` that makes an agent, or an algorithm of this package."""
    if name in PRESETS:
        return lambda seed: OwnAgent(name, seed)
    if name in DEEP:
        return lambda seed: OwnDeepAgent(name, seed)
    module, colon, function = name.partition(":")
    if not colon:
        known = ", ".join((*PRESETS, *DEEP))
        raise UserError(f"agent is {name!r}; write module:function, or one of {known}")
    find_modules_here(name)
    try:
        make = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise UserError(f"{name} cannot be imported ({error}); check the two names") from error
    if not callable(make):
        raise UserError(f"{name} is {make!r}; it must be a function of a seed that makes an agent")
    made: MakeAgent = make
    return made


# The board


def tasks(
    horizons: Sequence[int] = (), seeds: int | None = None, quick: bool = False
) -> list[LockTask]:
    """The locks in locks.toml.

    horizons  only these; all of them by default
    seeds     only the first seeds of each horizon
    """
    table: Any = experiment_table("locks")
    table = table["quick"] if quick else table
    known = [lock["horizon"] for lock in table["locks"]]
    for horizon in horizons:
        if horizon not in known:
            raise UserError(f"no lock has horizon {horizon}; choose from {known}")
    return [
        LockTask(lock["horizon"], table["n_actions"], lock["budget"], seed)
        for lock in table["locks"]
        if not horizons or lock["horizon"] in horizons
        for seed in lock["seeds"][:seeds]
    ]


def run_board(
    agent: str,
    tasks: Sequence[LockTask],
    out: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> list[LockRun]:
    """Run the agent on all locks; returns its runs, and those of other agents in `out`.

    out  folder of locks.json; runs that it contains are not repeated
    """
    runs = [] if out is None else read_board(out)
    make_agent = agent_called(agent)
    for task in tasks:
        key = {"agent": agent, **asdict(task)}
        if any(key.items() <= asdict(run).items() for run in runs):
            continue
        with threads(1):
            run = task.run(agent, make_agent)
        runs.append(run)
        state = "solved" if run.solved else "not solved"
        say(f"H = {run.horizon}, seed {run.seed}: {state} in {run.trajectories} trajectories")
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            content = sealed({"runs": [asdict(run) for run in runs]})
            write_atomically(out / NAME, json.dumps(content, indent=1) + "\n")
    return runs


def read_board(out: Path) -> list[LockRun]:
    """The runs in locks.json of the folder; none without the file."""
    if not (out / NAME).exists():
        return []
    content = read_object(out / NAME, "remove it to measure again")
    return [LockRun(**run) for run in content["runs"]]


def board_rows(runs: Sequence[LockRun]) -> list[dict[str, Any]]:
    """One row per horizon and agent: solved seeds, and medians over the solved seeds.

    The medians are None if no seed was solved.
    """
    groups: dict[tuple[int, int, int, str], list[LockRun]] = {}
    for run in runs:
        groups.setdefault((run.horizon, run.n_actions, run.budget, run.agent), []).append(run)
    rows = []
    for (horizon, n_actions, budget, agent), group in sorted(groups.items()):
        solved = [run for run in group if run.solved]
        row: dict[str, Any] = {"horizon": horizon, "n_actions": n_actions, "budget": budget}
        row |= {"agent": agent, "solved": len(solved), "seeds": len(group)}
        for name in ("trajectories", "env_steps", "cpu_seconds"):
            row[name] = median(getattr(run, name) for run in solved) if solved else None
        rows.append(row)
    return rows
