"""What can be set about the neural function class; the tabular one has none of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from contrastive_ucb.checks import check_size
from contrastive_ucb.data.density import Density
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
