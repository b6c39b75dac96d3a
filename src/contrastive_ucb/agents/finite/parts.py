"""From a configuration to the parts of the agent: model, schedule, P^-, all checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import log
from typing import Any, Protocol, TypeVar

import numpy as np

from contrastive_ucb.agents.finite.config import AgentConfig
from contrastive_ucb.bonus.schedule import Coefficients, PracticalSchedule, TheorySchedule
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.data.sampler import Tuples
from contrastive_ucb.envs.batch import Env, EnvBatch
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.representation.known_features import TableModel, TrueFeaturesModel
from contrastive_ucb.representation.tabular_fit import CountsModel, FiniteModel, class_around

C = TypeVar("C", bound=AgentConfig)


class Model(Protocol):
    """Takes the data of each round and gives P^ = psi^'phi^."""

    def add(self, tuples: Tuples) -> None: ...
    def fit(self) -> Kernel: ...
    def state_of(self, seed: int) -> dict[str, Any]: ...
    def load_states(self, states: list[dict[str, Any]]) -> None: ...


def resolve(config: C, env: Env) -> C:
    """The configuration with everything that depends on the MDP or game filled in."""
    if config.trajectories not in (None, 1):
        raise ValueError(
            f"trajectories = {config.trajectories} is for networks; a round of tables has one"
            " trajectory a step, so play more rounds"
        )
    rank = config.rank or env.rank
    if rank is None and config.features in ("contrastive", "likelihood"):
        raise ValueError(
            f"the environment {env.name!r} does not say its rank; pass one with rank=d (--rank d)"
            f"{_measured_rank(env)}"
        )
    if config.function_class == "finite":
        rank = env.kernel.features.shape[-1]  # the class holds the true factors
    reward = (
        ("known" if env.reveals_reward else "learnt") if config.reward == "auto" else config.reward
    )
    alpha = env.suggested_alpha if config.alpha is None else config.alpha
    return replace(config, rank=rank, reward=reward, alpha=alpha)


def checked_negatives(given: Array | None, config: AgentConfig, batch: EnvBatch) -> Array:
    """P^- (S,), a distribution that touches zero nowhere (l.173)."""
    n_states = batch.n_states
    if given is None:
        weights = np.exp(-config.tilt * np.arange(n_states) / n_states)
        given = weights / weights.sum()
    negatives = np.asarray(given, dtype=np.float64)
    if negatives.shape != (n_states,):
        raise ValueError(f"P^- has shape {negatives.shape}; it must be ({n_states},), one a state")
    if not np.isfinite(negatives).all() or abs(negatives.sum() - 1) > 1e-6:
        raise ValueError(f"P^- sums to {negatives.sum():.9g}; it must be a distribution")
    if not negatives.min() > 0:
        raise ValueError(
            f"P^- gives state {int(negatives.argmin())} the probability {negatives.min():.3g}; "
            "every state needs a positive one, mix in a little of the uniform distribution"
        )
    # What sums to 1 up to rounding stays as it is: a saved agent's P^- comes back bit for bit.
    return negatives if abs(negatives.sum() - 1) < 1e-12 else negatives / negatives.sum()


def make_model(
    config: AgentConfig, batch: EnvBatch, negatives: Array, generators: list[np.random.Generator]
) -> Model:
    """What learns P^; only the contrastive classes and maximum likelihood learn features."""
    shape = (batch.n_seeds, batch.horizon, batch.n_pairs, batch.n_states)
    if config.features == "true":
        return TrueFeaturesModel(batch.kernel.features, batch.n_states, config.ridge)
    if config.features == "table":
        return TableModel(shape, negatives)
    exact = config.negatives == "exact"
    if config.function_class == "finite":
        kernels = [_factored(batch, seed) for seed in range(batch.n_seeds)]
        pairs = [
            class_around(kernel, negatives, config.class_size, generator)
            for kernel, generator in zip(kernels, generators, strict=True)
        ]
        phi, psi = (np.stack(part) for part in zip(*pairs, strict=True))
        return FiniteModel(phi, psi, negatives, exact)
    assert config.rank is not None  # filled in by `resolve`
    return CountsModel(
        shape,
        config.rank,
        negatives,
        generators,
        exact=exact,
        likelihood=config.features == "likelihood",
        sweeps=config.sweeps,
        pseudo=config.pseudo,
        reseed_every=config.reseed_every,
    )


def make_schedule(
    config: AgentConfig, batch: EnvBatch, negatives: Array, model: Model
) -> Callable[[int], Coefficients]:
    if config.schedule == "practical" or config.alpha == 0:  # no bonus is no bonus
        return PracticalSchedule(batch.horizon, config.alpha or 0.0, config.ridge)
    rank = config.rank or batch.kernel.features.shape[-1]
    # An infinite class has a covering number instead of |F|: e to the number of its parameters.
    n_parameters = rank * (batch.n_pairs + batch.n_states)
    size = log(model.size) if isinstance(model, FiniteModel) else float(n_parameters)
    floor = float(negatives.min())
    return TheorySchedule(
        batch.horizon, batch.n_actions, rank, floor, size, config.failure, config.constant
    )


def _factored(batch: EnvBatch, seed: int) -> Kernel:
    """The true kernel of one seed with both factors; a table's are its rows and the identity."""
    features, measures = batch.kernel.features[seed], batch.kernel.measures
    if measures is None:
        shape = (batch.horizon, batch.n_states, batch.n_states)
        return Kernel(features, np.broadcast_to(np.eye(batch.n_states), shape))
    return Kernel(features, measures[seed])


def _measured_rank(env: Env) -> str:
    """A hint with the rank of the table, where it is cheap to measure."""
    if env.kernel.features.size > 2_000_000:
        return ""
    return f"; its table has rank {int(np.linalg.matrix_rank(env.kernel.table()).max())}"
