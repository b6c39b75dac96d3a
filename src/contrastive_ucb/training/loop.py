"""The loop of the provable tier: a generator of figures, which others log, save and draw."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB
from contrastive_ucb.agents.finite.learner import Learner
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.events import on_grid
from contrastive_ucb.envs.observed import ObservedEnv
from contrastive_ucb.evaluation.trackers import (
    GameOnTwin,
    GameTracker,
    MDPTracker,
    OnTwin,
    ReturnTracker,
    StopRule,
    Tracker,
    play,
)


@dataclass(frozen=True)
class Round:
    """One finished round and its figures, each (B,)."""

    number: int
    figures: dict[str, Array]
    on_grid: bool  # whether to write it down


class Session:
    """An agent and its accounts: what a run is made of, and all that a checkpoint holds."""

    def __init__(self, agent: Learner[Any]):
        self.agent = agent
        self.tracked = _tracked(agent)  # the agent, or its image on a finite twin
        self.tracker = _tracker(self.tracked)
        self.rule = _stop_rule(agent)
        self.latest: dict[str, Array] = {}  # the newest value of every figure

    @property
    def is_over(self) -> bool:
        """Whether the run stops here because the environment says that it is solved."""
        if not getattr(self.agent.envs[0], "stops_when_solved", False):
            return False
        return bool(self.rule.solved_at if self.rule else self.tracker.solved_at.all())

    def rounds(self, until: int) -> Iterator[Round]:
        """Play rounds until the agent has played `until` of them, or has solved what stops then."""
        agent, tracker = self.agent, self.tracker
        if agent.n_rounds != tracker.n_rounds:
            raise ValueError(
                f"the agent has played {agent.n_rounds} rounds and {tracker.n_rounds} of them are "
                "accounted for; play all of them with learn() or none"
            )
        while agent.n_rounds < until and not self.is_over:
            rolled_in = self.tracked.roll_in
            agent.round()
            tracker.follow(rolled_in)  # not before: a round that fails is not accounted for
            noted = on_grid(agent.n_rounds, until)
            # Where the model error is much work, ten times a decade must do.
            error = noted and on_grid(agent.n_rounds, until, per_decade=10)
            figures = self._measure(error)
            self.latest |= figures
            yield Round(agent.n_rounds, figures, noted or self.is_over)

    def summary(self, seed: int) -> dict[str, Any]:
        """What one line says of the run of one seed."""
        agent = self.agent
        latest = {name: float(values[seed]) for name, values in self.latest.items()}
        return {
            "algo": agent.algo,
            "env": agent.envs[seed].name,
            "seed": agent.seeds[seed],
            "rounds": agent.n_rounds,
            "trajectories": agent.trajectories,
            "env_steps": agent.env_steps,
            "final_gap": latest["gap"],
            self.tracker.average: latest[self.tracker.average],
            "alpha": agent.config.alpha,
            **{name: latest[name] for name in ("zeta", "xi") if name in latest},
            **self.tracker.summary(seed),
            **self._rule_summary(latest),
        }

    def state_of(self, seed: int) -> dict[str, Any]:
        """All of one seed, as a copy. A checkpoint falls on any round, so `latest` goes with it."""
        latest = {name: float(values[seed]) for name, values in self.latest.items()}
        agent, tracker = self.agent.state_of(seed), self.tracker.state_of(seed)
        rule = {} if self.rule is None else {"rule": self.rule.state_dict()}
        return deepcopy({"agent": agent, "tracker": tracker, "latest": latest, **rule})

    def load_states(self, states: list[dict[str, Any]]) -> None:
        self.agent.load_states([state["agent"] for state in states])
        self.tracker.load_states([state["tracker"] for state in states])
        if self.rule is not None:
            self.rule.load_state_dict(states[0]["rule"])
        if isinstance(self.tracked, OnTwin):
            self.tracked.look()
        latest = [state["latest"] for state in states]
        self.latest = {name: np.array([one[name] for one in latest]) for name in latest[0]}

    def _measure(self, error: bool) -> dict[str, Array]:
        """The figures of the round just played."""
        agent = self.agent
        if isinstance(self.tracked, OnTwin):
            self.tracked.look()
        figures = self.tracker.measure(self.tracked, error)
        if self.rule is not None:
            returns = play(agent)
            self.rule.note(returns, agent.n_rounds)
            figures["return"] = returns.mean(keepdims=True)
        figures["bonus/mean"] = agent.bonus.mean((1, 2, 3))
        figures["bonus/logdet"] = agent.log_det
        return figures | agent.model.metrics

    def _rule_summary(self, latest: dict[str, float]) -> dict[str, Any]:
        if self.rule is None:
            return {}
        return {"return": latest["return"], "solved_at": self.rule.solved_at or None}


def _tracked(agent: Learner[Any]) -> Any:
    """What the accounts are of: tables, be they the agent's own or those of its image."""
    env = agent.envs[0]
    twin = env.twin() if isinstance(env, ObservedEnv) else None
    if twin is None:
        return agent
    return (GameOnTwin if isinstance(agent, ContrastiveULCB) else OnTwin)(agent, twin)


def _tracker(tracked: Any) -> Tracker[Any]:
    """The accounts that suit it."""
    if isinstance(tracked, (ContrastiveULCB, GameOnTwin)):
        return GameTracker(tracked)
    if isinstance(tracked, Learner) and isinstance(tracked.envs[0], ObservedEnv):
        return ReturnTracker(tracked)
    return MDPTracker(tracked)


def _stop_rule(agent: Learner[Any]) -> StopRule | None:
    target = getattr(agent.envs[0], "solved_return", None)
    return None if target is None else StopRule(target)
