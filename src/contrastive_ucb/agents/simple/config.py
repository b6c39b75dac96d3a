"""Settings of SimPLe, in two sizes.

`full` are the published settings (Kaiser et al. 2020; `next_frame_basic_stochastic_discrete` and
`ppo_original_params` of their code, changed by `rlmb_base_stochastic_discrete`);
docs/reference/simple.md lists the differences. `small` runs on one CPU core. The string below a
field is its description in `cucb train --help`. Later settings override earlier ones:

    size < kind of frames < settings of the user
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import inf
from typing import Any, Literal

from contrastive_ucb.agents.deep.config import RainbowConfig, check_shared
from contrastive_ucb.core.checks import (
    check_kinds,
    check_names,
    check_positive,
    check_range,
    check_size,
    hint,
)
from contrastive_ucb.envs.frames import choose_encoder


@dataclass(frozen=True)
class SimpleConfig:
    """SimPLe: PPO in a learned world model."""

    size: Literal["full", "small"] = "full"
    """Defaults of the other settings; full for images of at least 36x36, otherwise small."""
    epoch_steps: int = 6400
    """Real steps between learning phases."""
    epochs: int | None = 15
    """Maximum number of learning phases; none: no limit. With fewer remaining steps, the last phase
    is shortened in proportion."""
    replay_capacity: int = 100_000
    """Capacity of the replay memory in transitions."""
    eval_epsilon: float = 0.001
    """epsilon in evaluation."""
    frame_max: float | None = None
    """The entry of an image that is scaled to 1; by default 255 for images of at least 36x36."""

    history: int = 4
    """Input frames of the world model."""
    width: int = 96
    """Channels of the first layer of the world model."""
    halvings: int = 5
    """Layers with stride 2 on the way down, and as many on the way up."""
    doublings: int = 3
    """Number of layers on the way down that double the channels."""
    middle: int = 2
    """Layers at the bottleneck."""
    bits: int = 128
    """Latent bits per step."""
    bits_pull: float = 0.1
    """Factor of the KL gradient for the posterior of the bits; the prior gets all of it."""
    model_hidden: int = 128
    """Units of the layers before bits, reward and end."""
    reward_atoms: int = 21
    """Number of reward atoms, evenly spaced over `support`."""
    support: tuple[float, float] | None = None
    """Smallest and largest reward atom; by default the environment's value range. Rewards outside
    are clipped."""
    frame_weight: float = 1e-3
    """Weight of the frame and bits losses relative to those of reward and end, all in nats."""
    loss_floor: float = 0.03
    """Lower bound on the loss of a pixel."""
    unroll: int = 6
    """Predicted steps per update of the world model."""
    own_frames_after: int = 40_000
    """Updates until all steps but the first use predicted frames as inputs (scheduled sampling)."""
    model_updates: int = 15_000
    """Updates of the world model per learning phase."""
    first_model_updates: int = 45_000
    """Updates of the world model in the first learning phase."""
    model_batch: int = 4
    """Batch size of the world model."""
    model_learning_rate: float = 1e-4
    """Learning rate of Adam for the world model (published: Adafactor with relative rate 0.002)."""
    model_warmup: int = 2000
    """Updates of linear learning rate warmup of the world model."""
    model_clip_norm: float = 1.0
    """Gradient clipping norm of the world model."""

    rollouts: int = 16
    """Parallel rollouts in the world model."""
    rollout_steps: int = 50
    """Steps per rollout."""
    rounds: int = 1000
    """Rounds of rollouts and PPO per learning phase."""
    extra_rounds: tuple[int, ...] = (8, 12, 15, 15)
    """Learning phases with `rounds` additional rounds, once per occurrence."""
    encoder: Literal["auto", "atari", "atari-same", "minatar", "mlp", "data-efficient"] = "auto"
    """The encoder of the policy; auto: chosen by the shape of the frames."""
    hidden: int = 128
    """Units of the hidden layer of the policy."""
    mlp: tuple[int, ...] = (64, 64)
    """Layer widths of the encoder for vectors."""
    discount: float = 0.99
    """Discount factor."""
    trace: float = 0.95
    """lambda of generalized advantage estimation (GAE)."""
    clip: float = 0.1
    """Clipping range of the probability ratio in PPO."""
    entropy: float = 0.01
    """Weight of the entropy of the policy."""
    value_weight: float = 2.0
    """Weight of the value loss, half the squared error (published: 1 of the squared error)."""
    passes: int = 3
    """Passes over the steps of a round."""
    batch_size: int = 320
    """Batch size of the policy."""
    learning_rate: float = 1e-4
    """Learning rate of Adam for the policy."""
    adam_beta1: float = 0.85
    """beta_1 of Adam for the policy."""
    adam_beta2: float = 0.997
    """beta_2 of Adam for the policy."""
    adam_eps: float = 1e-6
    """epsilon of Adam for the policy."""
    clip_norm: float = 0.5
    """Gradient clipping norm of the policy."""

    @property
    def atari(self) -> str:
        """Rules of the Atari environment, see `envs/atari.py`."""
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
        check_range(self, trace=(0, 1), bits_pull=(0, 1))
        if self.epochs is not None:
            check_size("epochs", self.epochs)
        for epoch in self.extra_rounds:
            check_size("each of extra_rounds", epoch)
        for name in ("adam_beta1", "adam_beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be in [0, 1), got {getattr(self, name)}")
        check_shared(self)


FULL = SimpleConfig()
SMALL = replace(  # all values are ours
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
# Differences of `small` by the encoder for the shape of the frames (`choose_encoder`).
KINDS: dict[str, dict[str, Any]] = {
    "minatar": {},
    "atari": {"halvings": 4, "doublings": 2, "frame_weight": 1e-3, "loss_floor": 0.03},
    "mlp": {"width": 128},
}


def configure_simple(
    settings: Mapping[str, Any], frame_shape: tuple[int, ...] | None = None
) -> SimpleConfig:
    """SimPLe with settings such as {"size": "small", "bits": 16}.

    frame_shape  of the environment, which determines the default size
    """
    kind = choose_encoder(frame_shape) if frame_shape else "atari"
    name = settings.get("size", "full" if kind == "atari" else "small")
    if name not in SIZES:
        raise ValueError(f"no size is called {name!r}; {hint(str(name), SIZES)}")
    known, others = ({x.name for x in fields(kind)} for kind in (SimpleConfig, RainbowConfig))
    for key in settings:
        if key.partition(".")[0] in others - known:
            raise ValueError(
                f"simple has no setting {key!r}, which belongs to the Rainbow agents; choose one "
                "from `cucb algos`, or a setting of simple from `cucb train --help`"
            )
    check_names(settings, known)
    layers = KINDS[kind] if name == "small" else {}
    return replace(SIZES[name], **{**layers, **settings})
