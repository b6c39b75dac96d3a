"""Settings of Algorithms 1 and 2, their checks, and the defaults that depend on the environment.

The settings are flat because users pass them by name: `ContrastiveUCB(env, rank=5, sweeps=20)`.
`check_tabular` and `resolve` reject settings without an effect on the representation in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import inf, isqrt
from typing import Any, Literal, Self, TypeVar

import numpy as np

from contrastive_ucb.core.checks import (
    check_kinds,
    check_names,
    check_positive,
    check_range,
    check_size,
)
from contrastive_ucb.data.sampler import Density, Sampler
from contrastive_ucb.envs.batch import Env
from contrastive_ucb.envs.observed import ObservedEnv

RepresentationKind = Literal["auto", "tabular", "neural"]
PhiHead = Literal["simplex", "softplus"]
PsiHead = Literal["exp", "softplus"]
Switch = Literal["auto", "on", "off"]
Features = Literal["contrastive", "likelihood", "true", "table"]
FunctionClass = Literal["counts", "finite", "product"]
Negatives = Literal["sampled", "exact"]
ScheduleName = Literal["practical", "theory"]
CovarianceForm = Literal["sum", "averaged"]
# The last is an old spelling
RewardKnowledge = Literal["auto", "known", "learned", "linear", "learnt"]
Equilibrium = Literal["cce", "midpoint", "tight"]

LEAST = {"reseed_every": 0, "hidden": 0, "harmonics": 0}  # of whole numbers; 1 for the others
POSITIVE = ("ridge", "constant", "pseudo", "iota", "negative_scale", "learning_rate", "failure")
RANGES = {  # inclusive limits of the other numbers, [0, inf) for those not listed
    "epsilon": (0, 1),
    "failure": (0, 1),
    "uniform_share": (0, 1),
    "final_rate": (0, 1),
    "negative_center": (-inf, inf),
}


@dataclass(frozen=True)
class NeuralConfig:
    """Networks, their training and P^-. None takes the value suggested by the environment."""

    representation: RepresentationKind = "auto"
    """Tables or networks; auto: tables for finite environments, networks for observations."""
    trajectories: int | None = None
    """Trajectories per step and round, all with the same policy; default 50, and 1 for tables."""
    hidden: int | None = None
    """Number of tanh units in parallel to the linear part of each network; default 0."""
    harmonics: int | None = None
    """Number of Fourier features per bounded coordinate, used as network inputs; default 0."""
    phi_head: PhiHead = "simplex"
    """Output activation that makes phi positive."""
    psi_head: PsiHead = "exp"
    """Output activation that makes psi positive."""
    standardise: Switch = "auto"
    """Whether observations are standardized to zero mean and unit variance."""
    sampler: Sampler = "shared"
    """Negatives shared by all positives, or one label per tuple as in the paper."""
    density: Density = "auto"
    """P^-: a uniform or Gaussian density, the observations so far, or their mix with uniform."""
    uniform_share: float = 0.1
    """Share of uniform draws in the mixed density."""
    negative_center: float = 0.0
    """Mean of the Gaussian density, in every coordinate."""
    negative_scale: float = 1.0
    """Standard deviation of the Gaussian density."""
    foresee_reward: Switch = "auto"
    """Whether psi also reads the reward, which makes the reward linear in phi."""
    n_draws: int | None = None
    """M, the number of draws of P^- used for planning; default 512."""
    fit_steps: int | None = None
    """Adam steps per round; default 200."""
    epochs: float = 0.0
    """Minimum number of passes over the data per round; more data then means more Adam steps."""
    batch_size: int | None = None
    """Transitions per Adam step and h; default 128."""
    n_negatives: int = 128
    """Shared negatives per Adam step and h."""
    learning_rate: float | None = None
    """Learning rate of Adam at the start of a round; default 0.05."""
    final_rate: float | None = None
    """Learning rate at the end of a round relative to the start (linear decay); default 0.1."""
    weight_decay: float | None = None
    """Weight decay of AdamW; default 0."""
    warm_start: Switch = "auto"
    """Whether training starts from the weights of the previous round instead of new ones."""

    def __new__(cls, *_: Any, **settings: Any) -> Self:
        """A misspelled setting is an error with the closest name."""
        check_names(settings, (field.name for field in fields(cls)))
        return super().__new__(cls)


@dataclass(frozen=True)
class AgentConfig(NeuralConfig):
    """All settings of an agent, apart from the environment and the seed.

    Examples:
        >>> import contrastive_ucb as cu
        >>> config = cu.AgentConfig(rank=5, negatives="exact")
        >>> config.ridge
        1.0
    """

    rank: int | None = None
    """d, the dimension of the features; default: the rank declared by the environment."""
    features: Features = "contrastive"
    """Source of phi: contrastive loss, maximum likelihood, the true features, or no features."""
    function_class: FunctionClass = "counts"
    """All positive factors fitted to counts, or a class searched by enumeration: a finite list of
    pairs (phi, psi), or the paper's product of sqrt(class_size) phi and as many psi."""
    class_size: int = 16
    """|F|, the number of members of a finite class or product, which contains the true factors."""
    negatives: Negatives = "sampled"
    """One sampled label per tuple as in the paper, or negatives replaced by their expectation."""
    tilt: float = 0.0
    """P^-(s) is proportional to exp(-tilt s / S); 0 is uniform. It determines C_S^-."""
    schedule: ScheduleName = "practical"
    """gamma = alpha H and lambda = ridge, or the constants of the theorem."""
    alpha: float | None = None
    """Scale of the practical bonus; default: suggested by the environment. 0 means no bonus."""
    ridge: float = 1.0
    """lambda of the practical schedule."""
    failure: float = 0.05
    """delta of the theory schedule."""
    constant: float = 1.0
    """c_0 of the theory schedule."""
    covariance: CovarianceForm = "sum"
    """The sum used in the analysis, or the average printed in the paper (erratum E1)."""
    clip: Switch = "auto"
    """Clip Q_h to [0, H - h + 1], in games to +-(H - h + 1); auto: in the practical schedule."""
    reward: RewardKnowledge = "auto"
    """Known as in the paper, learned (means of the pairs; networks regress on phi), or linear, that
    is, regressed on phi also in tables; auto: learned if known rewards reveal the solution."""
    reward_alpha: float = 0.3
    """Scale of the width of a learned reward (1 / sqrt(visits), or that of phi), times alpha."""
    epsilon: float = 0.0
    """Share of uniform actions in the roll-in policy; 1 is uniform exploration."""
    sweeps: int = 10
    """Multiplicative update sweeps per round."""
    reseed_every: int = 10
    """Rounds between attempts to leave a local minimum with a second start; 0: never."""
    pseudo: float = 0.5
    """Pseudo-visits per pair and per latent, distributed like P^-."""

    def __post_init__(self) -> None:
        if self.reward == "learnt":
            object.__setattr__(self, "reward", "learned")
        check_kinds(self)
        for name, value in vars(self).items():
            if isinstance(value, int):
                check_size(name, value, LEAST.get(name, 1))
        numbers = [name for name, value in vars(self).items() if isinstance(value, float)]
        check_positive(self, *(name for name in POSITIVE if name in numbers))
        check_range(self, "", **{name: RANGES.get(name, (0, inf)) for name in numbers})
        if self.function_class != "counts" and self.features != "contrastive":
            raise ValueError(
                f"features = {self.features!r} has no effect with function_class ="
                f" {self.function_class!r}, which is fitted with the contrastive loss; use"
                " function_class = 'counts'"
            )
        if self.function_class == "product" and isqrt(self.class_size) ** 2 != self.class_size:
            raise ValueError(
                f"class_size is {self.class_size}; function_class = 'product' needs a square, the"
                " product of as many phi as psi: 4, 9, 16, ..."
            )
        if self.reward == "linear" and self.features == "table":
            raise ValueError(
                "reward = 'linear' needs features, and features = 'table' has none; use reward ="
                " 'learned'"
            )


@dataclass(frozen=True)
class GameConfig(AgentConfig):
    """The settings of a game agent, which add the equilibrium of line 15.

    Examples:
        >>> import contrastive_ucb as cu
        >>> cu.GameConfig(equilibrium="tight").iota
        0.1
    """

    equilibrium: Equilibrium = "cce"
    """Any CCE of (Q-upper, Q-lower), the Nash equilibrium of their mean, or the tightest CCE."""
    iota: float = 0.1
    """c in iota_k = c / sqrt(k), the largest gain from a unilateral deviation."""


# Defaults of a neural agent, used if neither the user nor the environment gives a value.
DEFAULTS = {
    "trajectories": 50,  # this and the next values solved RichLock in a pilot
    "fit_steps": 200,
    "batch_size": 128,
    "learning_rate": 0.05,
    "final_rate": 0.1,
    "weight_decay": 0.0,
    "n_draws": 512,
    "hidden": 0,
    "harmonics": 0,
    "standardise": "off",
    "foresee_reward": "off",
    "density": "seen",
    "warm_start": "off",
}
TABULAR_ONLY = (  # settings without an effect on networks
    "features",
    "function_class",
    "negatives",
    "schedule",
    "tilt",
    "class_size",
    "failure",
    "constant",
    "sweeps",
    "reseed_every",
    "pseudo",
)
C = TypeVar("C", bound=AgentConfig)


def check_tabular(settings: Mapping[str, Any]) -> None:
    """Reject settings of networks, which have no effect on tables; defaults are accepted."""
    for field in fields(NeuralConfig):
        value, name = settings.get(field.name), field.name
        if name == "representation" or value in (None, field.default):
            continue
        if name == "trajectories" and value == 1:  # always so for tables
            continue
        raise ValueError(
            f"{name} = {value!r} is for networks and has no effect on tables; omit it or use"
            " representation='neural'"
        )


def resolve(config: C, env: Env | ObservedEnv) -> C:
    """The configuration completed by the environment and, for networks, by DEFAULTS."""
    changes: dict[str, Any] = {"rank": config.rank or env.rank, "reward": config.reward}
    if isinstance(env, ObservedEnv):
        for name in TABULAR_ONLY:
            value, default = getattr(config, name), getattr(AgentConfig, name)
            if value != default:
                raise ValueError(
                    f"{name} = {value!r} needs tables; observations take {name} = {default!r}"
                )
        given = {name: value for name, value in vars(config).items() if value not in (None, "auto")}
        suggested = {**DEFAULTS, **env.suggested, **given}
        changes |= {name: suggested[name] for name in DEFAULTS} | {"representation": "neural"}
    else:
        check_tabular(vars(config))
        if changes["rank"] is None and config.features in ("contrastive", "likelihood"):
            measured = ""
            if env.kernel.features.size <= 2_000_000:  # otherwise it takes too long
                ranks = np.linalg.matrix_rank(env.kernel.table())
                measured = f"; its table has rank {ranks.max()}"
            raise ValueError(
                f"the environment {env.name!r} declares no rank d, the dimension of the features;"
                f" pass rank=d to the agent or to TabularMDP or TabularGame (--rank d){measured}"
            )
        if config.function_class != "counts":
            changes["rank"] = env.kernel.features.shape[-1]  # of the true factors
    if config.reward == "auto":
        changes["reward"] = "known" if env.reveals_reward else "learned"
    if config.alpha is None:
        changes["alpha"] = env.suggested_alpha
    return replace(config, **changes)
