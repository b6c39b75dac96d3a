"""The settings of the deep learner: frozen dataclasses that check their values."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Literal

from contrastive_ucb.core.checks import check_kinds, check_positive, check_range, check_size


@dataclass(frozen=True)
class BonusConfig:
    """The UCB bonus gamma sqrt(phi' inv(Sigma) phi) on top of the learner; scale 0 is none."""

    feature: Literal["probs", "hidden"] = "probs"
    """phi(s,a): the probabilities of C51, or the last hidden layer with one block an action."""
    pairs: Literal["sampled", "window", "visits"] = "sampled"
    """What Sigma sums over: sampled transitions, all steps of their windows, or visits."""
    action: Literal["taken", "previous"] = "taken"
    """The action of the feature; the published code is off by one."""
    scale: float = 0.0
    """gamma, the size of the bonus; 0 has none."""
    ridge: float = 1.0
    """lambda, what Sigma starts from."""
    steps: Literal["all", "first", "later"] = "all"
    """Which bonuses of the n-step window join the target: the discounted sum, the first alone, or
    all but the first. If `optimistic`, the choice adds that of the first anyway: with `later` every
    bonus counts once in Q + bonus, as in Algorithm 1, and with `all` that of the first twice."""
    cut: Literal["episode", "published"] = "episode"
    """Where the sum of bonuses ends: with the episode, or, as published, only if its first step
    ends the episode."""
    optimistic: bool = False
    """Act greedily in Q + bonus and bootstrap from it. Q has learnt bonuses too: see `steps`."""
    noisy: bool = False
    """Whether features are computed with the noise of the last update."""
    numerics: Literal["cholesky", "published"] = "cholesky"
    """float64 Cholesky whose failure is an error, or a float32 inverse whose NaN becomes 0."""
    rebuild_every: int = 100
    """Updates after which Sigma is rebuilt from the visits with the current features; 0: never.
    Only pairs=visits are rebuilt: a sample that was drawn twice is no visit."""
    rebuild_sample: int = 2048
    """Visits from which Sigma is rebuilt; they stand for all of them."""
    room: float = 0.0
    """How far the atoms go beyond the environment's largest return, to hold bonuses too."""

    def __post_init__(self) -> None:
        check_kinds(self, "bonus.")
        check_size("bonus.rebuild_every", self.rebuild_every, least=0)
        check_size("bonus.rebuild_sample", self.rebuild_sample)
        check_range(self, "bonus.", scale=(0, inf), room=(0, inf))
        if self.ridge <= 0:
            raise ValueError(f"bonus.ridge must be positive, got {self.ridge}")
        if self.action == "previous" and self.pairs == "visits":
            raise ValueError("bonus.pairs=visits know their action; set bonus.action=taken")
        if self.action == "previous" and self.optimistic:
            raise ValueError("bonus.optimistic chooses among actions; set bonus.action=taken")

    @property
    def is_on(self) -> bool:
        return self.scale > 0


@dataclass(frozen=True)
class RainbowConfig:
    """Rainbow; every agent of the comparison but SimPLe is settings of it."""

    atari: Literal["standard", "spr-release", "dopamine", "curl-release"] = "standard"
    """Rules of the Atari environment where published codes differ; see `envs/atari.py`."""
    encoder: Literal["auto", "atari", "atari-same", "minatar", "mlp", "data-efficient"] = "auto"
    """The network before the head; auto chooses by the shape of the frames."""
    initializer: Literal["torch", "xavier"] = "torch"
    """Initial weights of plain layers: uniform on +-1/sqrt(inputs), or Xavier's uniform with biases
    of 0. Noisy layers always start from the former."""
    frame_max: float | None = None
    """The entry of an image frame that becomes 1: by default 255 (brightness) for images of 36x36
    and more, and 1 for smaller ones, whose entries are marks on a grid."""
    hidden: int = 256
    """Units of a hidden layer of the head."""
    streams: int = 2
    """2: value and advantage have a hidden layer each; 1: they share it."""
    mlp: tuple[int, ...] = (64, 64)
    """Widths of the layers of the encoder for vectors."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Numbers of the large layers: bfloat16 is faster where the processor multiplies it itself
    (AVX-512 BF16, AMX) and slower elsewhere; weights and losses stay float32."""
    distributional: bool = True
    """C51, or a single value with the Huber loss."""
    dueling: bool = True
    """Value and advantage streams."""
    double: bool = True
    """The online network selects the next action and the target network evaluates it."""
    double_view: Literal["own", "shared"] = "own"
    """With augmented images, the selecting pass has its own view of the next observation (SPR's
    code) or that of the evaluating pass (Dopamine)."""
    noisy: float = 0.5
    """sigma_0 of the noisy layers; 0 has none."""
    noise_draws: Literal["per-update", "per-pass"] = "per-update"
    """New noise once per update, for selecting, learning and acting until the next one, while the
    evaluating pass has the previous noise (SPR's code); or one draw for selecting and evaluating,
    one for learning, and one for every action (Dopamine)."""
    bias_sigma: Literal["inputs", "outputs"] = "inputs"
    """The noise of a bias starts at sigma_0/sqrt(inputs) (Fortunato et al. 2018), or at
    sigma_0/sqrt(outputs), as in the code of SPR and CURL."""
    atoms: int = 51
    """Atoms of C51."""
    support: tuple[float, float] | None = None
    """The range of the atoms; by default the environment's, and `bonus.room` above it."""
    n_step: int = 10
    """Steps of the return."""
    cut: Literal["episode", "published"] = "episode"
    """Where an n-step return ends; the published SPR code goes on behind a terminal state."""
    discount: float = 0.99
    """gamma of the return."""
    batch_size: int = 32
    """Transitions an update."""
    learning_rate: float = 1e-4
    """The learning rate of Adam."""
    adam_eps: float = 1.5e-4
    """epsilon of Adam."""
    clip_norm: float = 10.0
    """Largest norm of the gradient, separately for encoder and head and for the transition model;
    0 does not clip."""
    updates_per_step: float = 2.0
    """Updates after each step of the environment; .25 is one after every fourth."""
    first_update: int = 2000
    """Steps before any update; so long actions are uniform where epsilon starts at 1."""
    target_every: int = 1
    """Updates between copies to the target network, counted from step 0 as if updates had started
    there; 1 needs no second network."""
    replay_capacity: int = 100_000
    """Transitions that are kept."""
    priority_exponent: float = 0.5
    """alpha of prioritized replay; 0 draws uniformly."""
    priority: Literal["kl", "clamped-kl", "loss"] = "kl"
    """The priority of a transition: KL(target || prediction), the same with target probabilities of
    at least 1e-6 (SPR's code), or the cross entropy. With plain values it is the absolute error."""
    new_priority: Literal["one", "largest"] = "one"
    """The priority of a new transition: 1 (SPR's code) or the largest so far (Schaul et al.)."""
    draws: Literal["stratified", "independent"] = "stratified"
    """One transition from each of 32 equal shares of the priorities, or independent draws."""
    importance: tuple[float, float] = (0.4, 1.0)
    """beta at the first update and at the last step."""
    epsilon: tuple[float, float] = (1.0, 0.0)
    """Part of uniform actions in the first `first_update` steps, and that after `epsilon_steps`
    more."""
    epsilon_steps: int = 0
    """Steps that epsilon takes from its first value to its last."""
    eval_epsilon: float = 0.001
    """Part of uniform actions in evaluation."""
    augment: bool = True
    """Random shifts and intensities of images of 36x36 and more."""
    largest_offset: int = 8
    """Offsets of a random shift in an image padded by 4 are 0 to this: 8 is symmetric, Dopamine has
    7."""
    spr_weight: float = 0.0
    """Weight of the self-predictive loss; 0 has none."""
    jumps: int = 5
    """K, the steps that SPR predicts ahead."""
    spr_targets: Literal["current", "lagged"] = "current"
    """The weights that compute SPR's targets: the current ones (the paper of SPR), or those before
    the last optimizer step (its code)."""
    curl_weight: float = 0.0
    """Weight of CURL's contrastive loss; 0 has none."""
    curl_momentum: float = 0.999
    """How much of themselves CURL's key networks keep in an update."""
    bonus: BonusConfig = field(default_factory=BonusConfig)
    """The UCB bonus."""

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
        check_range(self, discount=(0, 1), importance=(0, 1), epsilon=(0, 1), eval_epsilon=(0, 1))
        self._check_together()

    def _check_together(self) -> None:
        """Settings that are right alone and wrong together."""
        if self.frame_max is not None and self.frame_max <= 0:
            raise ValueError(f"frame_max must be positive, got {self.frame_max}")
        if self.support is not None and not self.support[0] < self.support[1]:
            raise ValueError(f"support must go up, got {self.support}")
        if not self.mlp or min(self.mlp) < 1:
            raise ValueError(f"mlp must be widths of at least 1, got {self.mlp}")
        if self.streams not in ((1, 2) if self.dueling else (1,)):
            raise ValueError(
                f"streams must be 1, or 2 with dueling=True, got {self.streams} with "
                f"dueling={self.dueling}"
            )
        if self.has_spr and self.batch_size < 2:
            raise ValueError("spr_weight needs batch_size 2 or more, for its batch norm; got 1")
        if self.has_curl and self.batch_size < 2:
            raise ValueError(
                "curl_weight needs batch_size 2 or more, to tell observations apart; got 1"
            )
        if self.bonus.is_on and self.bonus.feature == "probs" and not self.distributional:
            raise ValueError(
                "bonus.feature=probs are the probabilities of C51; set distributional=True or "
                "bonus.feature=hidden"
            )

    @property
    def has_spr(self) -> bool:
        return self.spr_weight > 0

    @property
    def has_curl(self) -> bool:
        return self.curl_weight > 0

    @property
    def jumps_ahead(self) -> int:
        """The steps ahead that an update looks at: K with SPR, else none."""
        return self.jumps if self.has_spr else 0
