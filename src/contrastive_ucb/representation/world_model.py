"""World model of SimPLe (Kaiser et al. 2020): predicts frame, reward and end of one step.

An hourglass network reads the last frames and the action. What cannot be predicted from them is
expressed by random latent bits, as in a variational autoencoder:

| symbol | here       | shape         |                                                       |
|--------|------------|---------------|-------------------------------------------------------|
| s      | `history`  | (B, k C, ...) | the last k frames, as stored                          |
| a      | `actions`  | (B,)          |                                                       |
| h      | `context`  | (B, width)    | features of s and a                                   |
| z      | `bits`     | (B, n)        | latent bits, 0 or 1                                   |
| q(z)   | `logits`   | (B, n)        | posterior given h and the next frame; independent     |
| p(z)   | `BitPrior` | (B, 2**8)     | prior given h: joint for 8 bits, given earlier groups |

Training samples the bits from the posterior, with straight-through gradients, and minimizes the
prediction losses plus KL(q || p). Rollouts sample them from the prior, an LSTM over groups of 8
bits as in the publication. (Instead of the KL divergence, the publication adds noise to rounded
activations and trains the LSTM separately.)

| kind of frames | `frame` of an `Outcome`                              | loss                 |
|----------------|------------------------------------------------------|----------------------|
| `softmax`      | logits of 256 levels per pixel                       | cross entropy        |
| `bernoulli`    | logits of binary entries, relative to the last frame | binary cross entropy |
| `gaussian`     | change of a vector in units of its usual size        | squared error / 2    |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.representation.encoders import channels_last, conv, fill, flatten, linear
from contrastive_ucb.representation.heads import scale_gradient

FrameKind = Literal["softmax", "bernoulli", "gaussian"]
LEVELS = 256  # values of a uint8 pixel
GROUP = 8  # bits that the prior predicts jointly
COPY_LOGIT = 4.0  # initial logit for "a binary entry stays as in the last frame"
SMALLEST_CHANGE = 0.05  # lower bound on the usual change of an entry, relative to the largest
Gate = tuple[Tensor, Tensor]  # gain and shift (B, C) of a layer


@dataclass(frozen=True)
class Outcome:
    """The prediction of one step.

    frame   (B, C, ...) logits of binary entries or normalized changes, (B, C, H, W, 256) logits of
            pixels
    reward  (B, N)  logits of the atoms of the reward
    end     (B,)    logits of termination
    """

    frame: Tensor
    reward: Tensor
    end: Tensor


@dataclass(frozen=True)
class _Context:
    """Everything that the outcome depends on except the bits.

    last         (B, C, ...)  the newest frame
    gates        of the trunk for the actions
    activations  of the encoding half of the trunk
    context      h, (B, hidden)
    """

    last: Tensor
    gates: list[Gate]
    activations: list[Tensor]
    context: Tensor


class WorldModel(nn.Module):
    """Predicts frame, reward and end of one step.

    frame_shape  of one frame, (C, H, W) or (dim,)
    history      k, number of input frames
    n_rewards    N, atoms of the reward
    frame_max    entry of an image that is scaled to 1
    hidden       width of the layers before the bits, the reward and the end
    pull         factor of the gradient of KL(q || p) with respect to the posterior (`BitPrior.kl`)
    """

    low: Tensor  # (dim,) smallest observed values of vectors
    high: Tensor  # (dim,) largest
    change: Tensor  # (dim,) root mean square change

    def __init__(
        self,
        frame_shape: tuple[int, ...],
        history: int,
        n_actions: int,
        n_rewards: int,
        rng: np.random.Generator,
        *,
        frame_max: float = 1.0,
        width: int = 16,
        halvings: int = 1,
        doublings: int = 1,
        middle: int = 1,
        n_bits: int = 8,
        hidden: int = 128,
        pull: float = 1.0,
    ):
        super().__init__()
        self.frame_shape, self.n_actions = frame_shape, n_actions
        self.frame_max, self.pull = frame_max, pull
        channels, is_image = frame_shape[0], len(frame_shape) == 3
        self.kind: FrameKind = "gaussian"
        if is_image:
            self.kind = "softmax" if frame_max > 1 else "bernoulli"
        sizes = {"width": width, "halvings": halvings, "doublings": doublings}
        self.trunk = Hourglass(
            (history * channels, *frame_shape[1:]), n_actions, rng, middle=middle, **sizes
        )
        # Encoder of the posterior: the last and the next frame as channels of one image.
        self.look = Hourglass((2 * channels, *frame_shape[1:]), n_actions, rng, middle=0, **sizes)
        narrow = self.trunk.narrow_size
        self.context = linear(narrow, hidden, rng)
        self.prior = BitPrior(n_bits, hidden, hidden, rng)
        self.posterior = linear(narrow + hidden, n_bits, rng)
        self.tell = linear(n_bits, narrow, rng)  # embedding of the bits
        self.frame = linear(width, channels * (LEVELS if self.kind == "softmax" else 1), rng)
        self.summary = linear(hidden + (2 if is_image else 1) * width, hidden, rng)
        self.reward, self.end = linear(hidden, n_rewards, rng), linear(hidden, 1, rng)
        largest = torch.finfo(torch.float32).max  # finite, because checkpoints reject infinity
        self.register_buffer("low", torch.full(frame_shape[:1], -largest))
        self.register_buffer("high", torch.full(frame_shape[:1], largest))
        self.register_buffer("change", torch.ones(frame_shape[:1]))

    def loss(
        self, history: Tensor, actions: Tensor, target: Tensor, uniforms: Tensor
    ) -> tuple[Outcome, Tensor]:
        """The outcome with bits from the posterior, and KL(posterior || prior) (B,).

        target    (B, C, ...)  the next frame
        uniforms  (B, n)
        """
        one_hot = F.one_hot(actions, self.n_actions).float()
        context = self._context(history, one_hot)
        frames = torch.cat([context.last, self.scaled(target)], dim=1)
        encoded = self.look.encode(frames, self.look.gates(one_hot))[-1]
        logits = self.posterior(torch.cat([flatten(encoded), context.context], dim=1))
        bits = sample_bits(logits, uniforms)
        divergence = self.prior.kl(context.context, logits, bits, self.pull)
        return self._outcome(context, bits), divergence

    def predict(self, history: Tensor, actions: Tensor, uniforms: Tensor) -> Outcome:
        """The outcome with bits from the prior; uniforms (B, groups)."""
        context = self._context(history, F.one_hot(actions, self.n_actions).float())
        return self._outcome(context, self.prior.sample(context.context, uniforms))

    def draw_frame(self, outcome: Outcome, history: Tensor) -> Tensor:
        """The most likely next frame (B, C, ...), in the data type of stored frames."""
        if self.kind == "softmax":
            return outcome.frame.argmax(-1).to(history.dtype)
        if self.kind == "bernoulli":
            return ((outcome.frame > 0) * self.frame_max).to(history.dtype)
        last = history[:, -self.frame_shape[0] :]
        return torch.clamp(last + outcome.frame * self.change, self.low, self.high)

    def frame_loss(
        self, outcome: Outcome, history: Tensor, target: Tensor, floor: float = 0.0
    ) -> Tensor:
        """The loss (B,) of the predicted frame, summed over its entries.

        floor  lower bound on the loss of an entry, below which it has no gradient
        """
        if self.kind == "softmax":
            logits = outcome.frame.movedim(-1, 1)
            losses = F.cross_entropy(logits, target.long(), reduction="none")
        elif self.kind == "bernoulli":
            losses = F.binary_cross_entropy_with_logits(
                outcome.frame, self.scaled(target), reduction="none"
            )
        else:
            changes = (target - history[:, -self.frame_shape[0] :]) / self.change
            losses = (outcome.frame - changes).square() / 2
        return losses.clamp(min=floor).flatten(1).sum(1)

    def scaled(self, frames: Tensor) -> Tensor:
        """Stored frames as floats, divided by `frame_max`."""
        floats = frames.float()
        return floats if self.frame_max == 1 else floats / self.frame_max

    def check(self, frames: NDArray[Any]) -> None:
        """Raise UserError if a binary frame has an entry above `frame_max`, whose loss would be
        negative and hence clamped to the floor."""
        if self.kind == "bernoulli" and (largest := frames.max()) > self.frame_max:
            raise UserError(
                f"a frame has an entry {largest}, but frame_max is {self.frame_max:g}; "
                f"--set frame_max={largest}, or the largest entry that frames can have"
            )

    @torch.no_grad()
    def measure(self, frames: Tensor, changes: Tensor) -> None:
        """Set range and usual change of vectors from frames (n, dim) and changes (m, dim)."""
        if self.kind == "gaussian":
            self.low.copy_(frames.amin(0))
            self.high.copy_(frames.amax(0))
            usual = changes.square().mean(0).sqrt()
            self.change.copy_(usual.clamp(min=SMALLEST_CHANGE * float(usual.max()) or 1.0))

    def _context(self, history: Tensor, one_hot: Tensor) -> _Context:
        """one_hot (B, A) are the actions."""
        frames, gates = self.scaled(history), self.trunk.gates(one_hot)
        activations = self.trunk.encode(frames, gates)
        context = self.context(flatten(activations[-1])).relu_()
        return _Context(frames[:, -self.frame_shape[0] :], gates, activations, context)

    def _outcome(self, context: _Context, bits: Tensor) -> Outcome:
        features = self.trunk.decode(context.activations, self.tell(bits), context.gates)
        is_image = features.ndim == 4
        pooled = [features.amax((2, 3)), features.mean((2, 3))] if is_image else [features]
        summary = self.summary(torch.cat([context.context, *pooled], dim=1)).relu_()
        frame = self.frame(features.movedim(1, -1))  # (B, ..., C), or (B, ..., 256 C) of pixels
        if self.kind == "softmax":
            frame = frame.unflatten(-1, (-1, LEVELS)).movedim(-2, 1)
        else:
            frame = frame.movedim(-1, 1)
        if self.kind == "bernoulli":
            frame = frame + COPY_LOGIT * (2 * context.last - 1)
        return Outcome(frame, self.reward(summary), self.end(summary)[:, 0])


# --- The hourglass network -------------------------------------------------------------------


class Hourglass(nn.Module):
    """Strided layers down to a bottleneck and back up, with skip connections and action gates.

    inputs     shape of the input: (C, H, W) or (dim,)
    width      channels of the first layer
    halvings   layers with stride 2 on the way down (sizes are rounded up), and on the way up
    doublings  number of them that double the channels
    middle     residual layers at the bottleneck
    """

    def __init__(
        self,
        inputs: Sequence[int],
        n_actions: int,
        rng: np.random.Generator,
        *,
        width: int,
        halvings: int,
        doublings: int,
        middle: int,
    ):
        super().__init__()
        self.is_image = len(inputs) == 3
        if self.is_image and min(inputs[1:]) < 2**halvings:
            raise ValueError(
                f"frames {tuple(inputs)} cannot be halved {halvings} times; set halvings lower"
            )
        channels = [width * 2 ** min(step, doublings) for step in range(halvings + 1)]
        size = tuple(-(-n // 2**halvings) for n in inputs[1:])
        self.width, self.narrow = width, (channels[-1], *size)  # shape of the bottleneck
        layer: Callable[..., nn.Module] = partial(linear, rng=rng)
        half = layer
        if self.is_image:
            layer = partial(conv, kernel=3, rng=rng, padding=1)
            half = partial(layer, stride=2)
        self.down = nn.ModuleList([layer(inputs[0], width)])
        self.down.extend(half(*sizes) for sizes in pairwise(channels))
        self.middle = nn.ModuleList(layer(channels[-1], channels[-1]) for _ in range(middle))
        pixels = 4 if self.is_image else 1
        self.up = nn.ModuleList(
            linear(after, pixels * before, rng) for after, before in pairwise(reversed(channels))
        )
        self.gates = Gates(n_actions, [*channels, *reversed(channels[:-1])], rng)

    @property
    def narrow_size(self) -> int:
        """Number of units at the bottleneck."""
        return prod(self.narrow)

    def encode(self, frames: Tensor, gates: list[Gate]) -> list[Tensor]:
        """The activations of every layer down to the bottleneck, which comes last.

        frames  (B, *inputs)
        gates   `self.gates` of the actions
        """
        x = channels_last(frames)
        activations: list[Tensor] = []
        for layer, gate in zip(self.down, gates, strict=False):
            x = apply_gate(layer(x), gate).relu_()
            activations.append(x)
        return activations

    def decode(self, activations: list[Tensor], code: Tensor, gates: list[Gate]) -> Tensor:
        """Features (B, width, ...) of the next frame.

        activations  as `encode` returns them
        code         (B, narrow_size)  added at the bottleneck
        """
        *skips, x = activations
        channels, *size = self.narrow
        x = (x + code.view(-1, *size, channels).movedim(-1, 1)).relu_()  # channels last in memory
        for layer in self.middle:
            x = x + layer(x).relu_()
        for layer, gate, skip in zip(
            self.up, gates[len(activations) :], reversed(skips), strict=True
        ):
            x = (apply_gate(self._upsample(layer, x, skip), gate) + skip).relu_()
        return x

    def _upsample(self, layer: nn.Module, x: Tensor, like: Tensor) -> Tensor:
        """Twice the size of x, cropped to that of `like`; vectors pass the layer only."""
        if not self.is_image:
            out: Tensor = layer(x)
            return out
        pixels = F.pixel_shuffle(layer(x.movedim(1, -1)).movedim(-1, 1), 2)
        return channels_last(pixels[:, :, : like.shape[2], : like.shape[3]])


class Gates(nn.Module):
    """Gain and shift of every channel of several layers, by action; gains start near 1."""

    def __init__(self, n_actions: int, channels: Sequence[int], rng: np.random.Generator):
        super().__init__()
        self.channels = list(channels)
        table = nn.Linear(n_actions, 2 * sum(channels), bias=False, device="meta")
        self.table = fill(table.to_empty(device="cpu"), max(channels), rng)
        with torch.no_grad():
            self.table.weight[: sum(channels)] += 1

    def forward(self, one_hot: Tensor) -> list[Gate]:
        """One-hot actions (B, A) to gain and shift (B, C) of each layer."""
        gains, shifts = self.table(one_hot).chunk(2, dim=1)
        parts = torch.split(gains, self.channels, 1), torch.split(shifts, self.channels, 1)
        return list(zip(*parts, strict=True))


def apply_gate(x: Tensor, gate: Gate) -> Tensor:
    """x * gain + shift, channel by channel.

    x     (B, C, ...)
    gate  gain and shift (B, C)
    """
    gain, shift = (part.view(*part.shape, *(1,) * (x.ndim - 2)) for part in gate)
    return torch.addcmul(shift, x, gain)


# --- Latent bits -----------------------------------------------------------------------------


def sample_bits(logits: Tensor, uniforms: Tensor) -> Tensor:
    """Independent bits, 1 with probability sigmoid(logits), with straight-through gradients.

    logits    (B, n)
    uniforms  (B, n)  in [0, 1); returns (B, n)
    """
    probs = logits.sigmoid()
    slope = probs - probs.detach()  # 0 with the gradient of probs
    return (uniforms < probs).to(probs.dtype) + (slope - slope.mean(0))


def joint_log_probs(logits: Tensor) -> Tensor:
    """Log-probabilities of all joint values of n independent bits.

    logits   (B, n)
    returns  (B, 2**n)  value v has bit i equal to `v >> (n - 1 - i) & 1`
    """
    both = torch.stack([F.logsigmoid(-logits), F.logsigmoid(logits)], dim=-1)  # (B, n, 2)
    joint = both[:, 0]
    for bit in range(1, both.shape[1]):
        joint = (joint[:, :, None] + both[:, bit, None, :]).flatten(1)
    return joint


def bits_kl(logits: Tensor, log_prior: Tensor) -> Tensor:
    """KL(q || p) (B,) of independent bits q and their joint prior p.

    logits     (B, n)
    log_prior  (B, 2**n)  in the order of `joint_log_probs`
    """
    log_q = joint_log_probs(logits)
    return (log_q.exp() * (log_q - log_prior)).sum(-1)


def bits_of_value(values: Tensor, n_bits: int) -> Tensor:
    """The bits (B, n) of integers (B,), the most significant first."""
    places = torch.arange(n_bits - 1, -1, -1, device=values.device)
    return ((values[:, None] >> places) & 1).float()


def sample_categorical(log_probs: Tensor, uniforms: Tensor) -> Tensor:
    """One index (B,) per row of log-probabilities (B, K), by inversion at `uniforms` (B,)."""
    cumulative = log_probs.exp().cumsum(-1)
    # Rounding may leave the last sum slightly below 1.
    index = (uniforms[:, None] * cumulative[:, -1:] >= cumulative).sum(-1)
    return index.clamp(max=cumulative.shape[1] - 1)


class BitPrior(nn.Module):
    """p(z | context): an LSTM over groups of 8 bits, each group one of 256 values.

    n_bits   at least 1; the last group may be smaller
    context  width of the context
    state    width of the LSTM
    """

    def __init__(self, n_bits: int, context: int, state: int, rng: np.random.Generator):
        super().__init__()
        self.sizes = [min(GROUP, n_bits - at) for at in range(0, n_bits, GROUP)]
        self.begin = linear(context, state, rng)
        self.cell: nn.LSTMCell | None = None
        if len(self.sizes) > 1:  # a single group has no predecessor
            cell = nn.LSTMCell(GROUP, state, device="meta").to_empty(device="cpu")
            self.cell = fill(cell, state, rng)
        self.heads = nn.ModuleList(linear(state, 2**size, rng) for size in self.sizes)

    @property
    def n_groups(self) -> int:
        return len(self.sizes)

    def kl(self, context: Tensor, logits: Tensor, bits: Tensor, pull: float = 1.0) -> Tensor:
        """KL(q || p) (B,), conditional on the sampled bits of earlier groups.

        context  (B, width)
        logits   (B, n)  of the posterior
        bits     (B, n)  sampled from it
        pull     factor of the gradient for the posterior (the prior gets all of it); with 1 from
                 the beginning, the posterior collapses to the prior and carries no information
        """
        logits = scale_gradient(logits, pull)
        state = self._first(context)
        total = logits.new_zeros(len(logits))
        parts = torch.split(logits, self.sizes, 1), torch.split(bits, self.sizes, 1)
        for group, (group_logits, group_bits) in enumerate(zip(*parts, strict=True)):
            log_prior = self.heads[group](state[0]).log_softmax(-1)
            total = total + bits_kl(group_logits, log_prior)
            state = self._next(state, group_bits.detach(), group)
        return total

    def sample(self, context: Tensor, uniforms: Tensor) -> Tensor:
        """Bits (B, n) from the prior.

        context   (B, width)
        uniforms  (B, groups)  in [0, 1)
        """
        state = self._first(context)
        groups = []
        for group, size in enumerate(self.sizes):
            log_prior = self.heads[group](state[0]).log_softmax(-1)
            bits = bits_of_value(sample_categorical(log_prior, uniforms[:, group]), size)
            groups.append(bits)
            state = self._next(state, bits, group)
        return torch.cat(groups, dim=1)

    def _first(self, context: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden and cell state of the LSTM before the first group."""
        start: Tensor = self.begin(context).tanh()
        return start, torch.zeros_like(start)

    def _next(
        self, state: tuple[Tensor, Tensor], bits: Tensor, group: int
    ) -> tuple[Tensor, Tensor]:
        if self.cell is None or group + 1 == len(self.sizes):
            return state
        hidden, cell = self.cell(F.pad(bits, (0, GROUP - bits.shape[1])), state)
        return hidden, cell
