"""What an agent has of a finite environment; there is none of it for observations."""

from __future__ import annotations

from contrastive_ucb.agents.finite.parts import Model
from contrastive_ucb.agents.finite.tabular_world import TabularWorld
from contrastive_ucb.agents.finite.world import World
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.data.counts import PairTotals
from contrastive_ucb.envs.batch import EnvBatch


class HasTables:
    """The parts of a tabular world, by name."""

    world: World

    @property
    def tables(self) -> TabularWorld:
        if not isinstance(self.world, TabularWorld):
            raise ValueError("this agent sees observations; it has no tables")
        return self.world

    @property
    def batch(self) -> EnvBatch:
        return self.tables.batch

    @property
    def model(self) -> Model:
        return self.tables.model

    @model.setter
    def model(self, model: Model) -> None:
        self.tables.model = model

    @property
    def totals(self) -> PairTotals:
        return self.tables.totals

    @property
    def negatives(self) -> Array:
        """P^- (S,)"""
        return self.tables.negatives
