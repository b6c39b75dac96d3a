"""Everything that can be set about Contrastive UCB and ULCB, frozen and checked when made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from contrastive_ucb.agents.neural_config import NeuralConfig, Switch
from contrastive_ucb.checks import check_size, kinds_of

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
