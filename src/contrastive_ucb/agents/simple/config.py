"""Everything that can be set about SimPLe, its two sizes, and how much is learnt when.

The defaults are the published ones (Kaiser et al. 2020, and `next_frame_basic_stochastic_discrete`
and `ppo_original_params` of their code with what `rlmb_base_stochastic_discrete` puts over them);
docs/simple.md lists what differs. `small` runs on one core of a CPU. Settings come in layers, each
over the ones before:

    the size < the kind of frames < yours
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import inf
from typing import Any, Literal

from contrastive_ucb.agents.deep.config import RainbowConfig
from contrastive_ucb.core.checks import (
    check_kinds,
    check_names,
    check_positive,
    check_range,
    check_size,
    hint,
)
from contrastive_ucb.representation.encoder_shapes import choose_encoder


@dataclass(frozen=True)
class SimpleConfig:
    """SimPLe: a world model from real steps, and PPO inside of it."""

    size: Literal["full", "small"] = "full"
    """What other settings are differences from; by default full for images of 36x36 and more."""
    epoch_steps: int = 6400
    """Real steps between two learning phases."""
    epochs: int | None = 15
    """Learning phases at most; none: as long as there are steps. Where some are left over, the
    last phase is shorter in proportion."""
    replay_capacity: int = 100_000
    """Transitions that are remembered."""
    eval_epsilon: float = 0.001
    """Part of uniform actions in evaluation."""
    frame_max: float | None = None
    """The entry of an image that becomes 1; by default 255 for images of 36x36 and more, else 1."""

    history: int = 4
    """Frames that the world model looks at."""
    width: int = 96
    """Channels of the first layer of the world model."""
    halvings: int = 5
    """Layers on the way down, each of which halves an image, and on the way up."""
    doublings: int = 3
    """How many layers on the way down double the channels."""
    middle: int = 2
    """Layers at the narrowest place."""
    bits: int = 128
    """Random bits a step."""
    bits_pull: float = 0.1
    """How much what the bits say is held to what can be foreseen of them; the other way in full."""
    model_hidden: int = 128
    """Units before the bits, the reward and the end."""
    reward_atoms: int = 21
    """Rewards that are told apart, evenly spaced over `support`."""
    support: tuple[float, float] | None = None
    """The smallest and the largest reward that are told apart; by default the environment's range
    of values. What is beyond counts as the nearest of them."""
    frame_weight: float = 1e-3
    """Weight of the frame and its bits beside reward and end; all are in nats."""
    loss_floor: float = 0.03
    """Below this the loss of a pixel does not count."""
    unroll: int = 6
    """Steps that an update looks ahead."""
    own_frames_after: int = 40_000
    """Updates until all steps ahead but the first begin with frames that the model foresaw."""
    model_updates: int = 15_000
    """Updates of the world model in a learning phase."""
    first_model_updates: int = 45_000
    """Updates of the world model in the first learning phase."""
    model_batch: int = 4
    """Windows an update of the world model."""
    model_learning_rate: float = 1e-4
    """Of Adam for the world model. Published is 0.002 of Adafactor, in parts of the weights."""
    model_warmup: int = 2000
    """Updates of the world model in which its learning rate rises from 0."""
    model_clip_norm: float = 1.0
    """Largest norm of the world model's gradient."""

    rollouts: int = 16
    """Rollouts in the world model at once."""
    rollout_steps: int = 50
    """Steps of each rollout."""
    rounds: int = 1000
    """Rounds of rollouts and PPO in a learning phase."""
    extra_rounds: tuple[int, ...] = (8, 12, 15, 15)
    """Phases with as many rounds again, once for each time they are named."""
    encoder: Literal["auto", "atari", "atari-same", "minatar", "mlp", "data-efficient"] = "auto"
    """The network before the policy; auto looks at the shape of the frames."""
    hidden: int = 128
    """Units of the policy's hidden layer."""
    mlp: tuple[int, ...] = (64, 64)
    """Widths of the layers of the encoder for vectors."""
    discount: float = 0.99
    """gamma of the return."""
    trace: float = 0.95
    """lambda of the advantages (GAE)."""
    clip: float = 0.1
    """How far the ratio of probabilities may move from 1."""
    entropy: float = 0.01
    """Weight of the policy's entropy."""
    value_weight: float = 2.0
    """Weight of the value's loss, half the square of its error; published is 1 of the whole."""
    passes: int = 3
    """Passes over the steps of a round."""
    batch_size: int = 320
    """Steps an update of the policy."""
    learning_rate: float = 1e-4
    """Of Adam for the policy."""
    adam_beta1: float = 0.85
    """How much of the mean gradient Adam keeps in an update of the policy."""
    adam_beta2: float = 0.997
    """How much of the mean square of the gradient it keeps."""
    adam_eps: float = 1e-6
    """epsilon of Adam for the policy."""
    clip_norm: float = 0.5
    """Largest norm of the policy's gradient."""

    @property
    def atari(self) -> str:
        """The rules of Atari games, see `envs/atari.py`."""
        return "standard"

    def __post_init__(self) -> None:
        check_kinds(self)
        for name in (
            *("epoch_steps", "history", "width", "bits", "model_hidden", "unroll"),
            *("model_updates", "first_model_updates", "model_batch", "rollouts", "rollout_steps"),
            *("rounds", "hidden", "passes", "batch_size"),
        ):
            check_size(name, getattr(self, name))
        for name in ("reward_atoms", "replay_capacity"):
            check_size(name, getattr(self, name), least=2)
        for name in ("halvings", "doublings", "middle", "own_frames_after", "model_warmup"):
            check_size(name, getattr(self, name), least=0)
        check_positive(self, "model_learning_rate", "model_clip_norm", "learning_rate", "clip_norm")
        check_positive(self, "adam_eps", "clip", "frame_weight")
        check_range(self, loss_floor=(0, inf), entropy=(0, inf), value_weight=(0, inf))
        check_range(self, discount=(0, 1), trace=(0, 1), eval_epsilon=(0, 1), bits_pull=(0, 1))
        if self.epochs is not None:
            check_size("epochs", self.epochs)
        for epoch in self.extra_rounds:
            check_size("each of extra_rounds", epoch)
        if self.frame_max is not None and self.frame_max <= 0:
            raise ValueError(f"frame_max must be positive, got {self.frame_max}")
        if self.support is not None and not self.support[0] < self.support[1]:
            raise ValueError(f"support must go up, got {self.support}")
        for name in ("adam_beta1", "adam_beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be in [0, 1), got {getattr(self, name)}")
        if not self.mlp or min(self.mlp) < 1:
            raise ValueError(f"mlp must be widths of at least 1, got {self.mlp}")


FULL = SimpleConfig()
SMALL = replace(
    FULL,
    size="small",
    epoch_steps=1000,
    epochs=None,
    width=16,
    halvings=1,
    doublings=1,
    middle=1,
    bits=8,
    frame_weight=1.0,  # a few hundred cells instead of 7,056 pixels
    loss_floor=0.0,
    unroll=1,
    own_frames_after=0,
    model_updates=200,
    first_model_updates=600,
    model_batch=64,
    model_learning_rate=2e-3,
    model_warmup=0,
    model_clip_norm=10.0,
    rounds=50,
    extra_rounds=(),
    mlp=(64,),
    clip=0.2,
    value_weight=1.0,
    batch_size=200,
    learning_rate=1e-3,
    adam_beta1=0.9,
    adam_beta2=0.999,
    adam_eps=1e-5,
)
SIZES: dict[str, SimpleConfig] = {"full": FULL, "small": SMALL}
# What differs in `small` by the kind of frames, which is the encoder that suits them.
KINDS: dict[str, dict[str, Any]] = {
    "minatar": {},
    "atari": {"halvings": 4, "doublings": 2, "frame_weight": 1e-3, "loss_floor": 0.03},
    "mlp": {"width": 128},
}


def configure_simple(
    settings: Mapping[str, Any], frame_shape: tuple[int, ...] | None = None
) -> SimpleConfig:
    """SimPLe with settings such as {"size": "small", "bits": 16}.

    frame_shape  of the environment, which chooses the size unless the settings do
    """
    kind = choose_encoder(frame_shape) if frame_shape else "atari"
    name = settings.get("size", "full" if kind == "atari" else "small")
    if name not in SIZES:
        raise ValueError(f"no size is called {name!r}; {hint(str(name), SIZES)}")
    _check_names(settings)
    layers = KINDS[kind] if name == "small" else {}
    return replace(SIZES[name], **{**layers, **settings})


def model_updates_in(config: SimpleConfig, epoch: int, share: float = 1.0) -> int:
    """Updates of the world model in learning phase `epoch`, which counts from 1.

    share  of `epoch_steps` that were played since the phase before
    """
    whole = config.first_model_updates if epoch == 1 else config.model_updates
    return max(1, round(share * whole))


def rounds_in(config: SimpleConfig, epoch: int, share: float = 1.0) -> int:
    """Rounds of PPO in learning phase `epoch`."""
    return max(1, round(share * config.rounds)) * (1 + config.extra_rounds.count(epoch))


def _check_names(settings: Mapping[str, Any]) -> None:
    """Stop at the first setting that SimPLe does not have; one of other agents is said to be so."""
    own, others = ({one.name for one in fields(kind)} for kind in (SimpleConfig, RainbowConfig))
    for key in settings:
        if key.partition(".")[0] == "bonus":
            raise ValueError(
                f"simple has no bonus, so {key} cannot be set; choose another agent, which "
                "`cucb algos` lists"
            )
        if key in others - own:
            raise ValueError(
                f"simple is no Rainbow agent and has no setting {key!r}; choose another agent, "
                "which `cucb algos` lists, or a setting of simple from `cucb train --help`"
            )
    check_names(settings, own)
