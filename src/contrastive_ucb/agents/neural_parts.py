"""From a configuration to the parts of the neural class: networks, their training and P^-."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from contrastive_ucb.agents.config import AgentConfig, RewardKnowledge
from contrastive_ucb.agents.neural_config import DEFAULTS
from contrastive_ucb.data.density import Negatives
from contrastive_ucb.envs.observed import ObservedEnv
from contrastive_ucb.representation.neural import NeuralClass
from contrastive_ucb.representation.neural_fit import Recipe

C = TypeVar("C", bound=AgentConfig)

TABULAR_ONLY = {  # settings that ask for tables, and the value that does not
    "features": ("contrastive",),
    "function_class": ("counts",),
    "negatives": ("sampled",),
    "schedule": ("practical",),
    "tilt": (0.0,),
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
        steps=config.fit_steps,
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
