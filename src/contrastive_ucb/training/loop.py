"""The loop of the provable tier: a generator of figures, which others log, save and draw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from contrastive_ucb.agents.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.arrays import Array
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

    def __init__(self, agent: ContrastiveUCB):
        self.agent = agent
        self.tracker = Tracker(agent.batch, agent.envs[0].solved_gap)

    def rounds(self, until: int) -> Iterator[Round]:
        """Play rounds until the agent has played `until` of them."""
        agent, tracker = self.agent, self.tracker
        while agent.n_rounds < until:
            tracker.follow(agent.roll_in)
            agent.round()
            assert agent.kernel is not None  # a round has just been played
            noted = on_grid(agent.n_rounds, until)
            figures = tracker.measure(agent.kernel, agent.values, agent.policies, error=noted)
            figures["bonus/mean"] = agent.bonus.mean((1, 2, 3))
            yield Round(agent.n_rounds, figures, noted)

    def state_of(self, seed: int) -> dict[str, Any]:
        return {"agent": self.agent.state_of(seed), "tracker": self.tracker.state_of(seed)}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        self.agent.load_states([state["agent"] for state in states])
        self.tracker.load_states([state["tracker"] for state in states])
