"""An agent that sees observations, as it looks on the finite twin of its environment.

Its policy is a function of observations, and the states of the twin have observations. So there it
is an agent with tables, and the exact accounts of finite environments go on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from contrastive_ucb.agents.contrastive_ulcb import ContrastiveULCB
from contrastive_ucb.agents.learner import Learner
from contrastive_ucb.agents.observed_world import ObservedWorld
from contrastive_ucb.agents.profile import Profile
from contrastive_ucb.arrays import Array, IntArray
from contrastive_ucb.envs.batch import EnvBatch
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.observed import Twin
from contrastive_ucb.planning.markov_game import Bounds, marginals


class OnTwin:
    """The image of the agent's last round; `look` takes it anew.

    policies  (1, H, S, A)  joint in a game
    upper, lower  (1, H, S)  V-bar of each bound; an MDP has the upper one alone
    kernel                  P^ on the twin, None where P^- has no density there
    """

    def __init__(self, agent: Learner[Any], twin: Twin):
        self.agent, self.twin = agent, twin
        self.batch, self.envs = EnvBatch.of([twin.env]), agent.envs
        self.kernel: Kernel | None = None
        self.look()

    def look(self) -> None:
        world = self.agent.world
        assert isinstance(world, ObservedWorld)
        seen = [self.agent.judge(step, row) for step, row in enumerate(self.twin.observations)]
        self.policies: Array = np.stack([policy for policy, _ in seen])[None]
        self.bound_values: Array = np.stack([values for _, values in seen], axis=1)[:, None]
        self.kernel = world.kernel_on_twin(self.twin)

    @property
    def roll_in(self) -> Array:
        return self.agent.mixed(self.policies)

    @property
    def values(self) -> Array:
        return np.asarray(self.bound_values[0])


class GameOnTwin(OnTwin):
    """The same in a game."""

    agent: ContrastiveULCB

    @property
    def n_actions(self) -> tuple[int, int]:
        return self.agent.n_actions

    @property
    def bounds(self) -> Bounds:
        return Bounds(self._joint, self.bound_values[0], self.bound_values[1])

    @property
    def last(self) -> Profile:
        kept = self.agent.last
        return Profile(*marginals(self._joint), kept.certificate, kept.number)

    @property
    def best(self) -> Profile:
        return self.agent.best

    @property
    def drawn(self) -> Profile:
        return self.agent.drawn

    @property
    def cce_gap(self) -> Array:
        return self.agent.cce_gap

    @property
    def cce_stages(self) -> IntArray:
        return self.agent.cce_stages

    @property
    def _joint(self) -> Array:
        return self.policies.reshape(*self.policies.shape[:3], *self.n_actions)
