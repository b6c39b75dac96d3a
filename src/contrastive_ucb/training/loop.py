"""The loop of the provable tier: a generator of figures, which others log, save and draw."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from contrastive_ucb.agents.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.agents.contrastive_ulcb import ContrastiveULCB
from contrastive_ucb.agents.learner import Learner
from contrastive_ucb.arrays import Array
from contrastive_ucb.evaluation.game_tracker import GameTracker
from contrastive_ucb.evaluation.mdp_tracker import MDPTracker
from contrastive_ucb.evaluation.tracker import Tracker
from contrastive_ucb.training.grid import on_grid


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
        self.tracker = _tracker(agent)
        self.latest: dict[str, Array] = {}  # the newest value of every figure

    def rounds(self, until: int) -> Iterator[Round]:
        """Play rounds until the agent has played `until` of them."""
        agent, tracker = self.agent, self.tracker
        if agent.n_rounds != tracker.n_rounds:
            raise ValueError(
                f"the agent has played {agent.n_rounds} rounds and {tracker.n_rounds} of them are "
                "accounted for; play all of them with learn() or none"
            )
        while agent.n_rounds < until:
            tracker.follow(agent.roll_in)
            agent.round()
            noted = on_grid(agent.n_rounds, until)
            # Where the model error is much work, ten times a decade must do.
            error = noted and on_grid(agent.n_rounds, until, per_decade=10)
            figures = tracker.measure(agent, error)
            figures["bonus/mean"] = agent.bonus.mean((1, 2, 3))
            figures["bonus/logdet"] = agent.log_det
            self.latest |= figures
            yield Round(agent.n_rounds, figures, noted)

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
            "zeta": latest["zeta"],
            "xi": latest["xi"],
            **self.tracker.summary(seed),
        }

    def state_of(self, seed: int) -> dict[str, Any]:
        """All of one seed, as a copy. A checkpoint falls on any round, so `latest` goes with it."""
        latest = {name: float(values[seed]) for name, values in self.latest.items()}
        agent, tracker = self.agent.state_of(seed), self.tracker.state_of(seed)
        return deepcopy({"agent": agent, "tracker": tracker, "latest": latest})

    def load_states(self, states: list[dict[str, Any]]) -> None:
        self.agent.load_states([state["agent"] for state in states])
        self.tracker.load_states([state["tracker"] for state in states])
        latest = [state["latest"] for state in states]
        self.latest = {name: np.array([one[name] for one in latest]) for name in latest[0]}


def _tracker(agent: Learner[Any]) -> Tracker[Any]:
    """The accounts that suit the agent."""
    if isinstance(agent, ContrastiveULCB):
        return GameTracker(agent)
    assert isinstance(agent, ContrastiveUCB)  # there is no third kind
    return MDPTracker(agent)
