"""Settings of the deep agents. The defaults are those of SPR (Schwarzer et al. 2021, appendix).

`RainbowConfig` describes every agent except SimPLe; `presets.py` lists how the agents differ. The
string below a field is its description in `cucb train --help`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import inf
from typing import Any, Literal

from contrastive_ucb.bonus import BONUS_NAMES
from contrastive_ucb.bonus.config import COMMON, IntrinsicConfig, bonus_settings
from contrastive_ucb.core.checks import (
    check_kinds,
    check_names,
    check_number,
    check_positive,
    check_range,
    check_size,
)


@dataclass(frozen=True)
class BonusConfig:
    """The UCB bonus gamma sqrt(phi' inv(Sigma) phi); no bonus with scale 0."""

    feature: Literal["probs", "hidden"] = "probs"
    """phi(s,a): the C51 probabilities of a, or the last hidden layer with one Sigma per action."""
    pairs: Literal["sampled", "window", "visits"] = "sampled"
    """Pairs that Sigma sums over: sampled transitions, all steps of their windows, or visits."""
    action: Literal["taken", "previous"] = "taken"
    """The action of the feature; the published code uses the previous one."""
    scale: float = 0.0
    """gamma, the scale of the bonus; 0: no bonus."""
    ridge: float = 1.0
    """lambda, the initial Sigma is lambda I."""
    steps: Literal["all", "first", "later"] = "all"
    """Bonuses of the n-step window that are added to the target: the discounted sum of all, the
    first only, or all but the first. If `optimistic`, the action choice adds the first one again:
    with `later` every bonus counts once in Q + bonus, as in Algorithm 1, with `all` the first one
    counts twice."""
    cut: Literal["episode", "published"] = "episode"
    """Where the sum of bonuses ends: at the end of the episode, or, as in the published code, only
    if the first step ends the episode."""
    optimistic: bool = False
    """Act greedily in Q + bonus and bootstrap from it. Q also contains bonuses: see `steps`."""
    noisy: bool = False
    """Compute features with the noise of the last update."""
    numerics: Literal["cholesky", "published"] = "cholesky"
    """float64 Cholesky factorization, or the float32 inverse of the published code (NaN -> 0)."""
    rebuild_every: int = 100
    """Updates between recomputations of Sigma with current features; 0: never. Only with
    pairs=visits."""
    rebuild_sample: int = 2048
    """Number of visits from which Sigma is recomputed, reweighted to represent all of them."""
    room: float = 0.0
    """Extension of the C51 support above the environment's largest return, for the bonuses."""

    def __post_init__(self) -> None:
        check_kinds(self, "bonus.")
        check_size("bonus.rebuild_every", self.rebuild_every, least=0)
        check_size("bonus.rebuild_sample", self.rebuild_sample)
        check_range(self, "bonus.", scale=(0, inf), room=(0, inf))
        if self.ridge <= 0:
            raise ValueError(f"bonus.ridge must be positive, got {self.ridge}")
        if self.action == "previous" and self.pairs == "visits":
            raise ValueError("bonus.pairs=visits requires bonus.action=taken, got previous")
        if self.action == "previous" and self.optimistic:
            raise ValueError("bonus.optimistic requires bonus.action=taken, got previous")

    @property
    def is_on(self) -> bool:
        return self.scale > 0


# Training of the networks of a bonus in one environment; the defaults are for vectorized ones.
TRAINING = {"every": 256, "steps": 8, "batch_size": 256}
ERRORS = ("rnd", "icm", "disagreement")  # prediction errors have no natural scale


def intrinsic_defaults(bonus: str) -> dict[str, Any]:
    """Settings of a bonus in which the explorer differs from the defaults of the bonus."""
    known = bonus_settings(bonus) if bonus in BONUS_NAMES else {}
    training = {name: value for name, value in TRAINING.items() if name in known}
    return {"normalize": bonus in ERRORS, **training}


@dataclass(frozen=True)
class ExplorerConfig:
    """The decoupled explorer: a second value function Q_int, learned from an intrinsic reward."""

    intrinsic: IntrinsicConfig
    """The intrinsic reward; its settings start with `intrinsic.`"""
    share: float = 0.5
    """Share of the episodes in which the agent acts greedily in Q + beta (Q_int + b)."""
    switch: float = 0.01
    """Probability per step of drawing again who acts, learner or explorer."""
    n_step: int = 3
    """n of the n-step return of intrinsic rewards."""
    discount: float = 0.99
    """Discount factor of intrinsic rewards."""
    updates: int = 1
    """Updates of Q_int per update of the learner."""
    batch_size: int = 32
    """Transitions per update of Q_int."""
    hidden: int = 128
    """Units per hidden layer of Q_int."""
    target_every: int = 1
    """Updates of Q_int between copies to its target network; 1: no separate target network."""

    def __post_init__(self) -> None:
        check_kinds(self, "explorer.")
        for name in ("n_step", "updates", "batch_size", "hidden", "target_every"):
            check_size(f"explorer.{name}", getattr(self, name))
        check_range(self, "explorer.", share=(0, 1), switch=(0, 1), discount=(0, 1))
        if not self.intrinsic.is_on:
            raise ValueError(
                "the explorer needs intrinsic.bonus, got none; leave bonus.preset=explorer out"
            )
        check_number("intrinsic.scale", self.intrinsic.scale, positive=True)

    @property
    def flat(self) -> dict[str, Any]:
        """All values by the names of their settings."""
        own = {x.name: getattr(self, x.name) for x in fields(self) if x.name != "intrinsic"}
        settings = {f"explorer.{name}": value for name, value in own.items()}
        return settings | {f"intrinsic.{name}": x for name, x in self.intrinsic.flat.items()}

    def changed(self, settings: Mapping[str, Any]) -> ExplorerConfig:
        """The configuration with changed settings, whose names start with their prefix.

        Another bonus has its own defaults, except for the settings that all bonuses have.
        """
        own, intrinsic = (
            {key.removeprefix(prefix): x for key, x in settings.items() if key.startswith(prefix)}
            for prefix in ("explorer.", "intrinsic.")
        )
        check_names((f"explorer.{name}" for name in own), self.flat)
        known = self.intrinsic.flat
        if intrinsic.get("bonus", self.intrinsic.bonus) != self.intrinsic.bonus:
            known = {name: known[name] for name in COMMON} | intrinsic_defaults(intrinsic["bonus"])
        return replace(self, **own, intrinsic=IntrinsicConfig.of(known | intrinsic))


@dataclass(frozen=True)
class RainbowConfig:
    """Rainbow with SPR, CURL and the bonus; describes every agent except SimPLe."""

    atari: Literal["standard", "spr-release", "dopamine", "curl-release"] = "standard"
    """Rules of the Atari environment, in which published codes differ; see `envs/atari.py`."""
    encoder: Literal["auto", "atari", "atari-same", "minatar", "mlp", "data-efficient"] = "auto"
    """The network before the head; auto: chosen by the shape of the frames."""
    initializer: Literal["torch", "xavier"] = "torch"
    """Initial weights of plain layers: uniform on +-1/sqrt(inputs), or Xavier uniform with zero
    biases. Noisy layers always use the former."""
    frame_max: float | None = None
    """The entry of an image that is scaled to 1; by default 255 for images of at least 36x36, and
    1 for smaller ones, whose entries are binary."""
    hidden: int = 256
    """Units per hidden layer of the head."""
    streams: int = 2
    """2: separate hidden layers for value and advantage; 1: a shared one."""
    mlp: tuple[int, ...] = (64, 64)
    """Layer widths of the encoder for vectors."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Data type of the large layers. bfloat16 is faster on processors that support it (AVX-512
    BF16, AMX) and slower on others; weights and losses stay float32."""
    distributional: bool = True
    """C51; otherwise scalar values with the Huber loss."""
    dueling: bool = True
    """Dueling head with value and advantage."""
    double: bool = True
    """Double DQN: the online network selects the next action, the target network evaluates it."""
    double_view: Literal["own", "shared"] = "own"
    """With augmented images, the selecting pass uses its own augmentation of the next observation
    (SPR's code) or that of the evaluating pass (Dopamine)."""
    noisy: float = 0.5
    """sigma_0 of the noisy layers; 0: plain layers."""
    noise_draws: Literal["per-update", "per-pass"] = "per-update"
    """per-update: new noise once per update, for selecting, learning and acting until the next
    update; the evaluating pass uses the previous noise (SPR's code). per-pass: one draw for
    selecting and evaluating, one for learning, and one per action (Dopamine)."""
    bias_sigma: Literal["inputs", "outputs"] = "inputs"
    """Initial noise scale of biases: sigma_0/sqrt(inputs) (Fortunato et al. 2018), or
    sigma_0/sqrt(outputs) (code of SPR and CURL)."""
    atoms: int = 51
    """Number of atoms of C51."""
    support: tuple[float, float] | None = None
    """Smallest and largest atom; by default the environment's value range plus `bonus.room`."""
    n_step: int = 10
    """n of the n-step return."""
    cut: Literal["episode", "published"] = "episode"
    """Where n-step returns end; the published SPR code bootstraps past terminal states."""
    discount: float = 0.99
    """Discount factor."""
    batch_size: int = 32
    """Transitions per update."""
    learning_rate: float = 1e-4
    """Learning rate of Adam."""
    adam_eps: float = 1.5e-4
    """epsilon of Adam."""
    clip_norm: float = 10.0
    """Gradient clipping norm, separately for encoder and head and for the transition model; 0: no
    clipping."""
    updates_per_step: float = 2.0
    """Updates per environment step; 0.25: one update every 4 steps."""
    first_update: int = 2000
    """Environment steps before the first update; actions are uniform until then if epsilon is 1."""
    target_every: int = 1
    """Updates between copies to the target network, counted as if updates started at step 0; 1:
    no separate target network."""
    replay_capacity: int = 100_000
    """Capacity of the replay memory in transitions."""
    priority_exponent: float = 0.5
    """alpha of prioritized replay; 0: uniform."""
    priority: Literal["kl", "clamped-kl", "loss"] = "kl"
    """Priority of a transition: KL(target || prediction), the same with target probabilities of at
    least 1e-6 (SPR's code), or the loss: the cross entropy plus, with CURL, `curl_weight` times its
    loss. Absolute error instead of KL or cross entropy if not distributional."""
    new_priority: Literal["one", "largest"] = "one"
    """Priority of a new transition: 1 (SPR's code), or the largest so far (Schaul et al. 2016)."""
    draws: Literal["stratified", "independent"] = "stratified"
    """One transition per batch_size-th of the priority mass, or independent draws."""
    importance: tuple[float, float] = (0.4, 1.0)
    """Importance sampling exponent beta at the first update and at the last step."""
    epsilon: tuple[float, float] = (1.0, 0.0)
    """epsilon of epsilon-greedy during the first `first_update` steps, and after `epsilon_steps`
    more."""
    epsilon_steps: int = 0
    """Steps over which epsilon decreases from its first to its last value."""
    eval_epsilon: float = 0.001
    """epsilon in evaluation."""
    augment: bool = True
    """Random shifts and intensities of images of at least 36x36."""
    largest_offset: int = 8
    """Largest offset of a random shift in an image padded by 4; 8 is symmetric, Dopamine uses 7."""
    spr_weight: float = 0.0
    """Weight of the SPR loss; 0: no SPR."""
    jumps: int = 5
    """K, the number of steps that SPR predicts."""
    spr_targets: Literal["current", "lagged"] = "current"
    """Weights that compute the SPR targets: current (SPR paper), or those before the last optimizer
    step (SPR's code)."""
    curl_weight: float = 0.0
    """Weight of the CURL loss, which is added to the loss of every sample of the batch; 0: no
    CURL."""
    curl_momentum: float = 0.999
    """Momentum of the moving averages that are CURL's key networks."""
    bonus: BonusConfig = field(default_factory=BonusConfig)
    """The UCB bonus."""
    explorer: ExplorerConfig | None = None
    """The decoupled explorer, switched on by `bonus.preset=explorer`."""

    def __post_init__(self) -> None:
        check_kinds(self)
        for name in ("hidden", "n_step", "batch_size", "target_every", "jumps"):
            check_size(name, getattr(self, name))
        check_size("atoms", self.atoms, least=2)
        check_size("replay_capacity", self.replay_capacity, least=2)
        for name in ("first_update", "epsilon_steps"):
            check_size(name, getattr(self, name), least=0)
        check_positive(self, "learning_rate", "adam_eps", "updates_per_step")
        check_range(self, clip_norm=(0, inf), largest_offset=(0, 8))
        check_range(self, noisy=(0, inf), spr_weight=(0, inf), curl_weight=(0, inf))
        check_range(self, priority_exponent=(0, inf), curl_momentum=(0, 1))
        check_range(self, importance=(0, 1), epsilon=(0, 1))
        check_shared(self)
        if self.streams not in ((1, 2) if self.dueling else (1,)):
            raise ValueError(
                f"streams must be 1, or 2 with dueling=True, got {self.streams} with "
                f"dueling={self.dueling}"
            )
        if self.batch_size < 2 and (self.spr_weight > 0 or self.curl_weight > 0):
            name = "SPR" if self.spr_weight > 0 else "CURL"
            raise ValueError(f"the loss of {name} needs batch_size of at least 2, got 1")
        if self.bonus.is_on and self.bonus.feature == "probs" and not self.distributional:
            raise ValueError(
                "bonus.feature=probs needs distributional=True, got False; set bonus.feature=hidden"
            )

    @property
    def jumps_ahead(self) -> int:
        """Number of predicted steps per update: K with SPR, else 0."""
        return self.jumps if self.spr_weight > 0 else 0


def check_shared(config: Any) -> None:
    """Check the settings that `RainbowConfig` has in common with `SimpleConfig`."""
    check_range(config, discount=(0, 1), eval_epsilon=(0, 1))
    if config.frame_max is not None and config.frame_max <= 0:
        raise ValueError(f"frame_max must be positive, got {config.frame_max}")
    if config.support is not None and not config.support[0] < config.support[1]:
        raise ValueError(f"support must be (low, high) with low < high, got {config.support}")
    if not config.mlp or min(config.mlp) < 1:
        raise ValueError(f"mlp must list layer widths of at least 1, got {config.mlp}")
