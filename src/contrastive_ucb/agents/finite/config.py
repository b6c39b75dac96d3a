"""What can be set about the neural function class; the tabular one has none of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from contrastive_ucb.core.checks import check_size, kinds_of
from contrastive_ucb.data.negatives import Density
from contrastive_ucb.data.observations import Sampler

Representation = Literal["auto", "tabular", "neural"]
PhiHead = Literal["simplex", "softplus"]
PsiHead = Literal["exp", "softplus"]
Switch = Literal["auto", "on", "off"]


@dataclass(frozen=True)
class NeuralConfig:
    """The networks, their training and P^-. None takes what suits the environment."""

    representation: Representation = "auto"
    """Tables or networks; auto: tables for finite environments, networks for observations."""
    trajectories: int | None = None
    """Trajectories a step and round, all with one policy; by default 50, and 1 in tables."""
    hidden: int | None = None
    """tanh units beside the linear part of each network; by default 0."""
    harmonics: int | None = None
    """Waves of each bounded coordinate that the networks read instead of it; by default 0."""
    phi_head: PhiHead = "simplex"
    """What makes phi positive."""
    psi_head: PsiHead = "exp"
    """What makes psi positive."""
    standardise: Switch = "auto"
    """Whether the networks read observations less their mean, over their spread."""
    sampler: Sampler = "shared"
    """Every positive against negatives that all share, or the paper's one label a tuple."""
    density: Density = "auto"
    """P^-: the uniform or a Gaussian density, or the observations seen, perhaps mixed."""
    uniform_share: float = 0.1
    """Part of uniform draws in the mixed density."""
    negative_center: float = 0.0
    """Mean of the Gaussian density, in every coordinate."""
    negative_scale: float = 1.0
    """Its standard deviation."""
    foresee_reward: Switch = "auto"
    """Whether psi reads the reward with the next observation: it is then linear in phi."""
    n_draws: int | None = None
    """M, the draws of P^- that a round is planned on; by default 512."""
    fit_steps: int | None = None
    """Steps of Adam a round; by default 200."""
    epochs: float = 0.0
    """Passes over the data that these steps are at least, so that rare transitions are seen as
    often when there is much data; 0 asks for none."""
    batch_size: int | None = None
    """Transitions a step of Adam and of h; by default 128."""
    n_negatives: int = 128
    """Shared negatives a step of Adam and of h."""
    learning_rate: float | None = None
    """Of Adam at the start of a round; by default .05."""
    final_rate: float | None = None
    """The part of it that is left at the end of a round, on a straight line; by default .1."""
    weight_decay: float | None = None
    """How fast Adam shrinks the weights, in parts of the learning rate a step; by default 0."""
    warm_start: Switch = "auto"
    """Whether a round goes on from the weights of the last one; auto: where that suits."""

    def _check_neural(self) -> None:
        for name in ("trajectories", "n_draws", "fit_steps", "batch_size", "n_negatives"):
            if (value := getattr(self, name)) is not None:
                check_size(name, value)
        for name in ("hidden", "harmonics"):
            if (value := getattr(self, name)) is not None:
                check_size(name, value, least=0)
        for name in ("negative_scale", "learning_rate"):
            if (value := getattr(self, name)) is not None and not 0 < value < float("inf"):
                raise ValueError(f"{name} must be positive, got {value}")
        if not 0 <= self.epochs < float("inf"):
            raise ValueError(f"epochs must be 0 or more, got {self.epochs}")
        if self.final_rate is not None and not 0 <= self.final_rate <= 1:
            raise ValueError(f"final_rate must be in [0, 1], got {self.final_rate}")
        if self.weight_decay is not None and not 0 <= self.weight_decay < float("inf"):
            raise ValueError(f"weight_decay must be 0 or more, got {self.weight_decay}")
        if not 0 <= self.uniform_share <= 1:
            raise ValueError(f"uniform_share must be in [0, 1], got {self.uniform_share}")
        if not abs(self.negative_center) < float("inf"):
            raise ValueError(f"negative_center must be finite, got {self.negative_center}")


# What a neural agent is made with where neither the user nor the environment says otherwise.
DEFAULTS = {
    "trajectories": 50,  # as the next ones from the pilot that opened the rich lock
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


Features = Literal["contrastive", "likelihood", "true", "table"]
FunctionClass = Literal["counts", "finite"]
Negatives = Literal["sampled", "exact"]
ScheduleName = Literal["practical", "theory"]
CovarianceForm = Literal["sum", "averaged"]
RewardKnowledge = Literal["auto", "known", "learnt"]
Equilibrium = Literal["cce", "midpoint", "tight"]


@dataclass(frozen=True)
class AgentConfig(NeuralConfig):
    """Everything that makes the agent, apart from the MDP and the seed."""

    rank: int | None = None
    """d, the size of the features; by default the rank the environment declares."""
    features: Features = "contrastive"
    """Where phi comes from: the contrastive loss, maximum likelihood, the truth, or no features."""
    function_class: FunctionClass = "counts"
    """All positive factors fitted on counts, or a finite class searched by enumeration."""
    class_size: int = 16
    """Members of the finite class, the truth among them."""
    negatives: Negatives = "sampled"
    """The paper's sampler (one label a tuple), or negatives replaced by their expectation."""
    tilt: float = 0.0
    """P^-(s) is proportional to exp(-tilt s / S); 0 is uniform. It sets the floor C_S^-."""
    schedule: ScheduleName = "practical"
    """gamma = alpha H and lambda = ridge, or the constants of the theorem."""
    alpha: float | None = None
    """Size of the practical bonus, by default what the environment suggests; 0 is no bonus."""
    ridge: float = 1.0
    """lambda of the practical schedule."""
    failure: float = 0.05
    """delta of the theory schedule."""
    constant: float = 1.0
    """c_0 of the theory schedule."""
    covariance: CovarianceForm = "sum"
    """The sum of the analysis, or the average printed in the paper (erratum E1)."""
    clip: Switch = "auto"
    """Clip Q_h to [0, H - h + 1], in games to plus or minus that; auto: with practical only."""
    reward: RewardKnowledge = "auto"
    """Known as in the paper, or learnt; auto learns it where knowing it gives the answer away."""
    reward_alpha: float = 0.3
    """Size of the learnt reward's own width, one over the root of the visits, relative to alpha."""
    epsilon: float = 0.0
    """Part of the roll-in's actions that are uniform; 1 is uniform exploration."""
    sweeps: int = 10
    """Multiplicative sweeps a round."""
    reseed_every: int = 10
    """Every so many rounds a second start is tried, which frees a fit that is stuck; 0 is never."""
    pseudo: float = 0.5
    """Pseudo-visits a pair and a latent, which look like P^-."""

    def __post_init__(self) -> None:
        for name, kind in kinds_of(type(self)).items():
            if (choices := get_args(kind)) and isinstance(choices[0], str):
                value = getattr(self, name)
                if value not in choices:
                    raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
        if self.rank is not None:
            check_size("rank", self.rank)
        check_size("class_size", self.class_size)
        check_size("sweeps", self.sweeps)
        check_size("reseed_every", self.reseed_every, least=0)
        for name in ("alpha", "reward_alpha", "epsilon", "tilt"):
            _at_least(name, getattr(self, name), 0)
        for name in ("ridge", "constant", "pseudo", "failure"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        for name in ("epsilon", "failure"):
            if getattr(self, name) > 1:
                raise ValueError(f"{name} must be at most 1, got {getattr(self, name)}")
        self._check_neural()
        if self.function_class == "finite" and self.features != "contrastive":
            raise ValueError(
                f"function_class 'finite' goes with contrastive features, not {self.features!r}"
            )

    @property
    def clips(self) -> bool:
        return self.clip == "on" or (self.clip == "auto" and self.schedule == "practical")


@dataclass(frozen=True)
class GameConfig(AgentConfig):
    """The same for a game, which adds the equilibrium of line 15."""

    equilibrium: Equilibrium = "cce"
    """Any CCE of (Q-upper, Q-lower), the Nash equilibrium of their mean, or the tightest CCE."""
    iota: float = 0.1
    """c of iota_k = c / sqrt(k), what a player may gain by leaving the equilibrium."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.iota < float("inf"):
            raise ValueError(f"iota must be positive, got {self.iota}")


def check_tabular(settings: Mapping[str, Any]) -> None:
    """Stop at a setting of networks that tables would pass over; a given default asks nothing.

    `trajectories` and `representation` mean something to tables too, and are checked elsewhere.
    """
    for field in fields(NeuralConfig):
        value = settings.get(field.name)
        if field.name in ("trajectories", "representation") or value in (None, field.default):
            continue
        raise ValueError(
            f"{field.name} = {value!r} is for networks; tables would pass it over, so leave it out"
            " or use representation='neural'"
        )


def _at_least(name: str, value: float | None, least: float) -> None:
    if value is not None and not least <= value < float("inf"):
        raise ValueError(f"{name} must be at least {least:g} and finite, got {value}")
