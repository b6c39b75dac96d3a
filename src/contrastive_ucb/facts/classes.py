"""Models for facts: a finite class that is a product, and several models on the same data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isqrt
from typing import Any

import numpy as np

from contrastive_ucb.agents.finite.learner import Learner
from contrastive_ucb.agents.finite.tabular_model import Representation, make_representation
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.data.sampler import Tuples
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.representation.tabular_fit import FiniteModel

SHARES = (0.05, 0.8)  # of random factors in the nearest and the farthest wrong candidate


def product_class(
    kernel: Kernel, negatives: Array, size: int, generator: np.random.Generator
) -> tuple[Array, Array]:
    """All pairs of sqrt(size) features and as many measures, the true ones among them (l.195).

    Every phi(z) is in the simplex, so its norm is at most 1, and psi(s') = measure(s') / P^-(s')
    has norm at most sqrt(d) / C_S^-: the conditions of the definition hold by construction.

    kernel   (H, Z, d), (H, d, S) of one seed; returns phi (M, H, Z, d), psi (M, H, d, S)
    """
    side = isqrt(size)
    if side**2 != size or side < 2:
        raise ValueError(f"a product class has 4, 9, 16, ... members, got class_size {size}")
    if kernel.measures is None:
        raise ValueError("a product class needs the true factors; a table has none")
    phis = _candidates(kernel.features, side, generator)
    psis = _candidates(kernel.measures, side, generator) / negatives
    return np.repeat(phis, side, axis=0), np.tile(psis, (side, 1, 1, 1))


def product_model(agent: Learner[Any]) -> FiniteModel:
    """The product class of every seed; it has as many members as the agent's own class."""
    measures = agent.batch.kernel.measures
    pairs = [
        product_class(
            Kernel(features, None if measures is None else measures[at]),
            agent.negatives,
            agent.config.class_size,
            stream(seed, "class"),
        )
        for at, (seed, features) in enumerate(
            zip(agent.seeds, agent.batch.kernel.features, strict=True)
        )
    ]
    phi, psi = (np.stack(part) for part in zip(*pairs, strict=True))
    return FiniteModel(phi, psi, agent.negatives, agent.config.negatives == "exact")


class Together:
    """Several models that see the same data; the agent acts on the first."""

    def __init__(self, first: Representation, others: Mapping[str, Representation]):
        self.first, self.others = first, dict(others)
        self.kernels: dict[str, Kernel] = {}  # of the others, as fitted last

    def add(self, tuples: Tuples) -> None:
        for model in (self.first, *self.others.values()):
            model.add(tuples)

    def fit(self) -> Kernel:
        self.kernels = {name: model.fit() for name, model in self.others.items()}
        return self.first.fit()

    def state_of(self, seed: int) -> dict[str, Any]:
        others = {name: model.state_of(seed) for name, model in self.others.items()}
        return {"first": self.first.state_of(seed), "others": others}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        self.first.load_states([state["first"] for state in states])
        for name, model in self.others.items():
            model.load_states([state["others"][name] for state in states])


def contrastive_twins(agent: Learner[Any]) -> dict[str, Representation]:
    """The agent's model with exact negatives, and by maximum likelihood, from the same start."""
    changes: dict[str, dict[str, Any]] = {
        "exact": {"negatives": "exact"},
        "likelihood": {"features": "likelihood"},
    }
    return {
        name: make_representation(
            replace(agent.config, **change),
            agent.batch,
            agent.negatives,
            [stream(seed, "start") for seed in agent.seeds],
        )
        for name, change in changes.items()
    }


def _candidates(true: Array, count: int, generator: np.random.Generator) -> Array:
    """The true factor, at a random place, among mixtures with random ones.

    true  (H, m, n) with rows that are distributions; returns (count, H, m, n)
    """
    shares = generator.permutation(np.append(np.geomspace(*SHARES, count - 1), 0.0))
    others = generator.dirichlet(np.ones(true.shape[-1]), (count, *true.shape[:-1]))
    share = shares[:, None, None, None]
    return np.asarray((1 - share) * true + share * others)
