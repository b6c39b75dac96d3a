"""From a configuration to the parts of the neural class: networks, training, P^- and its nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from contrastive_ucb.agents.finite.config import DEFAULTS, AgentConfig, RewardKnowledge
from contrastive_ucb.agents.finite.world import World
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.data.negatives import Negatives
from contrastive_ucb.data.observations import ObservationData
from contrastive_ucb.envs.observed import ObservedEnv
from contrastive_ucb.representation.neural import NeuralClass
from contrastive_ucb.representation.neural_fit import Recipe

C = TypeVar("C", bound=AgentConfig)

TABULAR_ONLY: dict[str, tuple[Any, ...]] = {  # settings of tables, and the value that asks nothing
    "features": ("contrastive",),
    "function_class": ("counts",),
    "negatives": ("sampled",),
    "schedule": ("practical",),
    "tilt": (0.0,),
    **{
        name: (getattr(AgentConfig, name),)
        for name in ("class_size", "failure", "constant", "sweeps", "reseed_every", "pseudo")
    },
}


def resolve_neural(config: C, env: ObservedEnv) -> C:
    """The configuration with everything filled in, from the environment and the defaults."""
    for name, allowed in TABULAR_ONLY.items():
        if (value := getattr(config, name)) not in allowed:
            raise ValueError(
                f"{name} = {value!r} needs tables; observations take {name} = {allowed[0]!r}"
            )
    given = {name: value for name, value in vars(config).items() if value not in (None, "auto")}
    suited = {**DEFAULTS, **env.suggested, **given}
    reward: RewardKnowledge = "known" if env.reveals_reward else "learnt"
    return replace(
        config,
        **{name: suited[name] for name in DEFAULTS},
        representation="neural",
        rank=config.rank or env.rank,
        reward=reward if config.reward == "auto" else config.reward,
        alpha=env.suggested_alpha if config.alpha is None else config.alpha,
    )


def make_class(config: AgentConfig, env: ObservedEnv) -> NeuralClass:
    assert config.rank is not None
    if config.harmonics:
        env.check_bounded(f"harmonics = {config.harmonics}")
    return NeuralClass(
        env.size,
        env.n_joint,
        config.rank,
        extra=int(config.foresee_reward == "on"),
        hidden=config.hidden or 0,
        harmonics=config.harmonics or 0,
        simplex=config.phi_head == "simplex",
        exponential=config.psi_head == "exp",
        low=tuple(env.low.tolist()),
        high=tuple(env.high.tolist()),
    )


def make_recipe(config: AgentConfig) -> Recipe:
    assert config.fit_steps is not None  # all five filled in by `resolve_neural`
    assert config.batch_size is not None
    assert config.learning_rate is not None
    assert config.final_rate is not None
    assert config.weight_decay is not None
    return Recipe(
        sampler=config.sampler,
        least_steps=config.fit_steps,
        epochs=config.epochs,
        batch_size=config.batch_size,
        n_negatives=config.n_negatives,
        learning_rate=config.learning_rate,
        final_rate=config.final_rate,
        weight_decay=config.weight_decay,
        standardise=config.standardise == "on",
    )


def make_negatives(config: AgentConfig, env: ObservedEnv) -> Negatives:
    if config.foresee_reward == "on" and config.density != "seen":
        raise ValueError(
            f"foresee_reward goes with density = 'seen', whose draws have rewards, not with"
            f" {config.density!r}"
        )
    if config.density in ("uniform", "mixed"):
        env.check_bounded(f"density = {config.density!r}")
    return Negatives(
        env,
        config.density,
        config.uniform_share,
        config.negative_center,
        config.negative_scale,
    )


def planning_nodes(
    data: ObservationData, negatives: Negatives, count: int, random: np.random.Generator
) -> Array:
    """So many points a step   (H, count, D)

    psi'phi is a ratio to the density that the networks were trained against. Where P^- is what was
    seen and labels are stored, that is no more the density of today's data: a false label keeps the
    draw that it came with. So these draws are taken again. A step without a false label has none of
    them, and takes what is seen today.
    """
    nodes = negatives.nodes(data, count, random)
    if not data.labelled or negatives.kind in ("uniform", "gaussian"):
        return nodes
    for step, n in enumerate(data.n):
        stored = data.contrast[step, :n][data.label[step, :n] == 0]
        if len(stored):
            nodes[step] = stored[random.integers(len(stored), size=count)]
    return nodes


def check_table(name: str, world: World) -> None:
    """Stop where a policy is asked for as a table and is a function of observations."""
    if not world.n_listed:
        raise ValueError(
            f"agent.{name} has no table: this agent sees observations; use agent.predict, or"
            " agent.policy_at(step, observations) for the probabilities"
        )
