"""Session: a finite or neural agent with its metrics, as a generator of rounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any

import numpy as np

from contrastive_ucb.agents.finite.learner import Learner
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.events import Event, on_grid
from contrastive_ucb.evaluation.trackers import (
    OnTwin,
    ReturnTracker,
    StopRule,
    make_tracker,
    play,
)


@dataclass(frozen=True)
class Round:
    """A finished round and its metrics, each (B,); the event of finite and neural agents."""

    step: int
    figures: dict[str, Array]
    on_grid: bool  # whether it is logged

    @property
    def values(self) -> dict[str, float]:
        """The metrics as means over seeds."""
        return {name: float(column.mean()) for name, column in self.figures.items()}

    @property
    def logged(self) -> list[Event]:
        """What is written to the log of each seed; nothing if the round is not on the grid."""
        seeds = range(len(self.figures["gap"]) if self.on_grid else 0)
        return [
            Event(self.step, {name: float(column[seed]) for name, column in self.figures.items()})
            for seed in seeds
        ]


class Probe:
    """Additional metrics of a session. It is created before the first round.

    The largest value of each metric is in the summary as `worst_<name>`.
    """

    def __init__(self, session: Session):
        self.session = session

    def measure(self, figures: dict[str, Array], on_grid: bool) -> dict[str, Array]:
        """Metrics of the last round, each (B,), from those of the tracker.

        on_grid  whether expensive metrics are measured: ten times per decade
        """
        return {}

    def totals(self) -> dict[str, Array]:
        """Entries of the summary, each (B,), after the last round; NaN becomes null."""
        return {}

    def state_of(self, seed: int) -> dict[str, Any]:
        return {}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        """Load the states of all seeds."""


class Session:
    """An agent and the trackers of its metrics: everything that a checkpoint contains.

    probes   names of subclasses of `Probe`, such as "package.module:Class"
    stops    whether the run ends when all seeds have solved the environment
    """

    idle = 0.0  # all its time is training
    marks: Mapping[str, dict[str, Any]] = MappingProxyType({})  # of files besides the metrics
    is_complete = True  # whether the last round is measured; otherwise the state cannot be saved

    def __init__(self, agent: Learner[Any], probes: Sequence[str] = (), stops: bool = False):
        self.agent = agent
        self.tracked, self.tracker = make_tracker(agent)  # the agent, or it on a finite twin
        target = getattr(agent.envs[0], "solved_return", None)
        self.rule = None if target is None else StopRule(target)
        self.latest: dict[str, Array] = {}  # the newest value of every metric
        self.stops = stops or getattr(agent.envs[0], "stops_when_solved", False)
        self.probes: list[Probe] = [resolve_name(name)(self) for name in probes]
        self.worst: dict[str, Array] = {}  # the largest value of every metric of a probe

    @property
    def step(self) -> int:
        """Rounds so far."""
        return self.agent.n_rounds

    position = step

    @property
    def is_over(self) -> bool:
        """Whether the run ends early because the environment is solved."""
        if not self.stops:
            return False
        return bool(self.rule.solved_at if self.rule else self.tracker.solved_at.all())

    def rounds(self, until: int) -> Iterator[Round]:
        """Run rounds until there are `until` of them or the run is over."""
        agent, tracker = self.agent, self.tracker
        if agent.n_rounds != tracker.n_rounds:
            raise ValueError(
                f"the agent has run {agent.n_rounds} rounds and {tracker.n_rounds} of them were "
                "measured; run all rounds with learn(), or none"
            )
        while agent.n_rounds < until and not self.is_over:
            rolled_in = self.tracked.roll_in
            agent.round()
            self.is_complete = False
            tracker.follow(rolled_in)  # afterwards: a round that fails is not measured
            noted = on_grid(agent.n_rounds, until)
            # Where the model error is expensive, it is measured ten times per decade.
            error = noted and on_grid(agent.n_rounds, until, per_decade=10)
            if isinstance(self.tracked, OnTwin):
                self.tracked.look()
            figures = tracker.measure(self.tracked, error)
            if self.rule is not None:
                # Without a twin the tracker has played already.
                returns = tracker.returns if isinstance(tracker, ReturnTracker) else play(agent)
                self.rule.note(agent.envs[0].raw_returns(returns), agent.n_rounds)
                figures["return"] = returns.mean(keepdims=True)
            figures["bonus/mean"] = agent.bonus.mean((1, 2, 3))
            figures["bonus/logdet"] = agent.model.log_det
            figures |= agent.model.metrics
            for probe in self.probes:
                measured = probe.measure(figures, error)
                figures |= measured
                for name, values in measured.items():
                    self.worst[name] = np.maximum(self.worst.get(name, values), values)
            self.latest |= figures
            self.is_complete = True
            yield Round(agent.n_rounds, figures, noted or self.is_over)

    def summary(self, seed: int) -> dict[str, Any]:
        """The summary of the run of one seed."""
        agent = self.agent
        latest = {name: float(values[seed]) for name, values in self.latest.items()}
        summary: dict[str, Any] = {
            "algo": agent.algo,
            "env": agent.envs[seed].name,
            "seed": agent.seeds[seed],
            "rounds": agent.n_rounds,
            "trajectories": agent.trajectories,
            "env_steps": agent.env_steps,
            "final_gap": latest["gap"],
            self.tracker.average: latest[self.tracker.average],
            "drawn_gap": float(self.tracker.drawn_gap[seed]),
            "alpha": agent.config.alpha,
            **{name: latest[name] for name in ("zeta", "xi") if name in latest},
            **self.tracker.summary(seed),
        }
        if self.rule is not None:
            summary |= {"return": latest["return"], "solved_at": self.rule.solved_at or None}
        totals = {f"worst_{name}": values for name, values in self.worst.items()}
        for probe in self.probes:
            totals |= probe.totals()
        for name, values in totals.items():
            summary[name] = float(values[seed]) if np.isfinite(values[seed]) else None
        return summary

    def state_of(self, seed: int) -> dict[str, Any]:
        """A copy of the state of one seed. `latest` is part of it, since any round may be saved."""
        latest = {name: float(values[seed]) for name, values in self.latest.items()}
        agent, tracker = self.agent.state_of(seed), self.tracker.state_of(seed)
        more: dict[str, Any] = {} if self.rule is None else {"rule": self.rule.state_dict()}
        if self.probes:
            more["worst"] = {name: float(values[seed]) for name, values in self.worst.items()}
            more["probes"] = [probe.state_of(seed) for probe in self.probes]
        return deepcopy({"agent": agent, "tracker": tracker, "latest": latest, **more})

    def load_states(self, states: list[dict[str, Any]]) -> None:
        self.agent.load_states([state["agent"] for state in states])
        self.tracker.load_states([state["tracker"] for state in states])
        if self.rule is not None:
            self.rule.load_state_dict(states[0]["rule"])
        if isinstance(self.tracked, OnTwin):
            self.tracked.look()
        self.latest = _stacked([state["latest"] for state in states])
        if self.probes:
            self.worst = _stacked([state["worst"] for state in states])
        for at, probe in enumerate(self.probes):
            probe.load_states([state["probes"][at] for state in states])


def _stacked(states: list[dict[str, float]]) -> dict[str, Array]:
    """One array per metric from the states of all seeds."""
    return {name: np.array([state[name] for state in states]) for name in states[0]}
