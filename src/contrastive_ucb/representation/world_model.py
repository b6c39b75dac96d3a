"""Stochastic bits: what a world model says about the part of the future that nobody can foresee.

| symbol       | here             | shape      |                                                  |
|--------------|------------------|------------|--------------------------------------------------|
| z            | `bits`           | (B, n)     | 0 or 1, drawn                                    |
| q(z)         | `logits`         | (B, n)     | posterior: the bits are independent              |
| p(z)         | `BitPrior`       | (B, 2**8)  | prior of 8 bits together, given those before     |
| h            | `context`        | (B, width) | what is known before the future is seen          |

Bits are drawn from the posterior, and their gradient is the one of its probabilities (straight
through). The prior is an LSTM that foresees 8 bits at a time, as in Kaiser et al. 2020; here prior
and posterior meet in the KL divergence of a variational autoencoder, where the publication adds
noise to rounded activations and trains the LSTM beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.representation.encoders import conv, fill, linear
from contrastive_ucb.representation.heads import scale_gradient

GROUP = 8  # bits that the prior foresees at once


def draw_bits(logits: Tensor, uniforms: Tensor) -> Tensor:
    """Independent bits, 1 with probability sigmoid(logits), with the gradient of that probability.

    logits    (B, n)
    uniforms  (B, n)  in [0, 1); returns (B, n)
    """
    probs = logits.sigmoid()
    slope = probs - probs.detach()  # 0, but not its gradient
    return (uniforms < probs).to(probs.dtype) + (slope - slope.mean(0))


def log_codes(logits: Tensor) -> Tensor:
    """Log-probabilities of all values that independent bits have together.

    logits   (B, n)
    returns  (B, 2**n)  value v has bit i where `v >> (n - 1 - i) & 1`
    """
    both = torch.stack([F.logsigmoid(-logits), F.logsigmoid(logits)], dim=-1)  # (B, n, 2)
    codes = both[:, 0]
    for bit in range(1, both.shape[1]):
        codes = (codes[:, :, None] + both[:, bit, None, :]).flatten(1)
    return codes


def kl_codes(logits: Tensor, log_prior: Tensor) -> Tensor:
    """KL(q || p) (B,) of independent bits q from their joint prior p.

    logits     (B, n)
    log_prior  (B, 2**n)  in the order of `log_codes`
    """
    log_q = log_codes(logits)
    return (log_q.exp() * (log_q - log_prior)).sum(-1)


def bits_of(codes: Tensor, n_bits: int) -> Tensor:
    """The bits (B, n) of values (B,), the first one the heaviest."""
    weights = torch.arange(n_bits - 1, -1, -1, device=codes.device)
    return ((codes[:, None] >> weights) & 1).float()


def draw_codes(log_probs: Tensor, uniforms: Tensor) -> Tensor:
    """One value (B,) for each row of probabilities (B, K), at the point `uniforms` (B,) of them."""
    points = log_probs.exp().cumsum(-1)
    # Rounding may leave the last sum a little below 1.
    return (uniforms[:, None] * points[:, -1:] >= points).sum(-1).clamp(max=points.shape[1] - 1)


class BitPrior(nn.Module):
    """p(z | context): an LSTM over groups of 8 bits, each as one of 256 values.

    n_bits   at least 1; the last group may be smaller
    context  width of what it is told at the beginning
    state    width of the LSTM
    """

    def __init__(self, n_bits: int, context: int, state: int, rng: np.random.Generator):
        super().__init__()
        sizes = [min(GROUP, n_bits - at) for at in range(0, n_bits, GROUP)]
        self.sizes = sizes
        self.begin = linear(context, state, rng)
        self.cell: nn.LSTMCell | None = None
        if len(sizes) > 1:  # with one group there is nothing to remember
            cell = nn.LSTMCell(GROUP, state, device="meta").to_empty(device="cpu")
            self.cell = fill(cell, state, rng)
        self.heads = nn.ModuleList(linear(state, 2**size, rng) for size in sizes)

    @property
    def n_groups(self) -> int:
        return len(self.sizes)

    def kl(self, context: Tensor, logits: Tensor, bits: Tensor, pull: float = 1.0) -> Tensor:
        """KL(q || p) (B,), the bits of earlier groups as they were drawn.

        context  (B, width)
        logits   (B, n)  of the posterior
        bits     (B, n)  drawn from it
        pull     how much of the gradient the posterior gets; the prior gets all of it. Held to the
                 prior from the beginning, a posterior would never say anything
        """
        logits = scale_gradient(logits, pull)
        state = self._first(context)
        total = logits.new_zeros(len(logits))
        parts = torch.split(logits, self.sizes, 1), torch.split(bits, self.sizes, 1)
        for group, (mine, drawn) in enumerate(zip(*parts, strict=True)):
            log_prior = self.heads[group](state[0]).log_softmax(-1)
            total = total + kl_codes(mine, log_prior)
            state = self._next(state, drawn.detach(), group)
        return total

    def sample(self, context: Tensor, uniforms: Tensor) -> Tensor:
        """Bits (B, n) drawn from the prior.

        context   (B, width)
        uniforms  (B, groups)  in [0, 1)
        """
        state = self._first(context)
        found = []
        for group, size in enumerate(self.sizes):
            log_prior = self.heads[group](state[0]).log_softmax(-1)
            bits = bits_of(draw_codes(log_prior, uniforms[:, group]), size)
            found.append(bits)
            state = self._next(state, bits, group)
        return torch.cat(found, dim=1)

    def _first(self, context: Tensor) -> tuple[Tensor, Tensor]:
        start: Tensor = self.begin(context).tanh()
        return start, torch.zeros_like(start)

    def _next(
        self, state: tuple[Tensor, Tensor], bits: Tensor, group: int
    ) -> tuple[Tensor, Tensor]:
        if self.cell is None or group + 1 == len(self.sizes):
            return state
        hidden, memory = self.cell(F.pad(bits, (0, GROUP - bits.shape[1])), state)
        return hidden, memory


class Trunk(nn.Module):
    """Layers of an hourglass.

    inputs     shape of what is seen: (C, H, W) or (dim,)
    width      channels of the first layer
    halvings   layers on the way down, each of which halves an image (rounded up), and on the way up
    doublings  how many of them double the channels
    middle     layers at the narrowest place
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
        channels = [width * 2 ** min(step, doublings) for step in range(halvings + 1)]
        size = tuple(-(-n // 2**halvings) for n in inputs[1:])
        if self.is_image and min(inputs[1:]) < 2**halvings:
            raise ValueError(
                f"frames {tuple(inputs)} cannot be halved {halvings} times; set halvings lower"
            )
        self.width, self.narrow = width, (channels[-1], *size)
        self.down = nn.ModuleList([self._layer(inputs[0], width, rng)])
        for before, after in pairwise(channels):
            self.down.append(self._layer(before, after, rng, stride=2))
        self.middle = nn.ModuleList(
            self._layer(channels[-1], channels[-1], rng) for _ in range(middle)
        )
        cells = 4 if self.is_image else 1
        self.up = nn.ModuleList(
            linear(after, cells * before, rng) for after, before in pairwise(reversed(channels))
        )
        self.gates = Gates(n_actions, [*channels, *reversed(channels[:-1])], rng)

    @property
    def narrow_size(self) -> int:
        return prod(self.narrow)

    def descend(self, seen: Tensor, gates: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
        """What every layer on the way down says, the narrowest last.

        seen   (B, *inputs)
        gates  of the actions, as `self.gates` gives them
        """
        x = channels_last(seen)
        found: list[Tensor] = []
        for layer, gate in zip(self.down, gates, strict=False):
            x = gated(layer(x), gate).relu_()
            found.append(x)
        return found

    def ascend(
        self, found: list[Tensor], told: Tensor, gates: list[tuple[Tensor, Tensor]]
    ) -> Tensor:
        """Features (B, width, ...) of the next frame.

        found  as `descend` gives it
        told   (B, narrow_size)  added at the narrowest place
        """
        *shortcuts, x = found
        x = (x + self._spread(told)).relu_()
        for layer in self.middle:
            x = x + layer(x).relu_()
        for layer, gate, shortcut in zip(
            self.up, gates[len(found) :], reversed(shortcuts), strict=True
        ):
            x = (gated(self._wider(layer, x, shortcut), gate) + shortcut).relu_()
        return x

    def _spread(self, told: Tensor) -> Tensor:
        """(B, narrow_size) -> (B, *narrow), channels last."""
        channels, *size = self.narrow
        return told.view(-1, *size, channels).movedim(-1, 1)

    def _wider(self, layer: nn.Module, x: Tensor, like: Tensor) -> Tensor:
        if not self.is_image:
            wide: Tensor = layer(x)
            return wide
        cells = F.pixel_shuffle(layer(x.movedim(1, -1)).movedim(-1, 1), 2)
        return channels_last(cells[:, :, : like.shape[2], : like.shape[3]])

    def _layer(
        self, inputs: int, outputs: int, rng: np.random.Generator, stride: int = 1
    ) -> nn.Module:
        if self.is_image:
            return conv(inputs, outputs, 3, rng, stride=stride, padding=1)
        return linear(inputs, outputs, rng)


class Gates(nn.Module):
    """A gain and a shift for every channel of some layers, by the action; gains start near 1."""

    def __init__(self, n_actions: int, channels: Sequence[int], rng: np.random.Generator):
        super().__init__()
        self.channels = list(channels)
        table = nn.Linear(n_actions, 2 * sum(channels), bias=False, device="meta")
        self.table = fill(table.to_empty(device="cpu"), max(channels), rng)
        with torch.no_grad():
            self.table.weight[: sum(channels)] += 1

    def forward(self, actions: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Actions (B, A) one-hot to gains and shifts (B, C) of each layer."""
        gains, shifts = self.table(actions).chunk(2, dim=1)
        parts = torch.split(gains, self.channels, 1), torch.split(shifts, self.channels, 1)
        return list(zip(*parts, strict=True))


def gated(x: Tensor, gate: tuple[Tensor, Tensor]) -> Tensor:
    """x * gain + shift, channel by channel.

    x     (B, C, ...)
    gate  gain and shift (B, C)
    """
    gain, shift = (one.view(*one.shape, *(1,) * (x.ndim - 2)) for one in gate)
    return torch.addcmul(shift, x, gain)


def channels_last(x: Tensor) -> Tensor:
    """The same numbers (B, C, H, W), laid out with the channels together; vectors as they are."""
    return x.movedim(1, -1).contiguous().movedim(-1, 1) if x.ndim == 4 else x


def flat(x: Tensor) -> Tensor:
    """(B, C, ...) -> (B, n) in the order of memory, without a copy where channels are last."""
    return x.movedim(1, -1).flatten(1)


FrameKind = Literal["softmax", "bernoulli", "gaussian"]
LEVELS = 256  # values of a byte
COPY = 4.0  # how sure of the last frame a new model is, as a logit
SMALLEST_CHANGE = 0.05  # of a number in a vector, as part of the largest: others may be constant


@dataclass(frozen=True)
class Outcome:
    """What the model expects of one step.

    frame   (B, C, ...) logits of marks or normalised changes, (B, C, H, W, 256) logits of pixels
    reward  (B, N)  logits of the atoms of the reward
    end     (B,)    logits that the episode terminates
    """

    frame: Tensor
    reward: Tensor
    end: Tensor


class WorldModel(nn.Module):
    """Foresees frame, reward and end of one step.

    frame_shape  of one frame, (C, H, W) or (dim,)
    history      k, frames it looks at
    n_rewards    N, atoms of the reward
    frame_max    entry of an image that becomes 1
    hidden       width of the layers before the bits, the reward and the end
    pull         how much the posterior of the bits is held to their prior (`BitPrior.kl`)
    """

    low: Tensor  # (dim,) of vectors: the smallest values seen
    high: Tensor  # (dim,) the largest
    change: Tensor  # (dim,) the usual size of a change

    def __init__(
        self,
        frame_shape: tuple[int, ...],
        history: int,
        n_actions: int,
        n_rewards: int,
        rng: np.random.Generator,
        *,
        kind: FrameKind,
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
        self.frame_shape, self.kind, self.n_actions = frame_shape, kind, n_actions
        self.frame_max, self.pull = frame_max, pull
        channels, is_image = frame_shape[0], len(frame_shape) == 3
        sizes = {"width": width, "halvings": halvings, "doublings": doublings}
        self.trunk = Trunk(
            (history * channels, *frame_shape[1:]), n_actions, rng, middle=middle, **sizes
        )
        # Two frames side by side: what changed says what happened.
        self.look = Trunk((2 * channels, *frame_shape[1:]), n_actions, rng, middle=0, **sizes)
        narrow = self.trunk.narrow_size
        self.context = linear(narrow, hidden, rng)
        self.prior = BitPrior(n_bits, hidden, hidden, rng)
        self.posterior = linear(narrow + hidden, n_bits, rng)
        self.tell = linear(n_bits, narrow, rng)
        self.frame = linear(width, channels * (LEVELS if kind == "softmax" else 1), rng)
        self.summary = linear(hidden + (2 if is_image else 1) * width, hidden, rng)
        self.reward, self.end = linear(hidden, n_rewards, rng), linear(hidden, 1, rng)
        most = torch.finfo(torch.float32).max  # finite, as all that is saved
        self.register_buffer("low", torch.full(frame_shape[:1], -most))
        self.register_buffer("high", torch.full(frame_shape[:1], most))
        self.register_buffer("change", torch.ones(frame_shape[:1]))

    def check(self, frames: NDArray[Any]) -> None:
        """Stop at stored frames that have more than marks: the loss of an entry above 1 would be
        below any floor, and nothing would be learnt."""
        if self.kind == "bernoulli" and (most := frames.max()) > self.frame_max:
            raise UserError(
                f"a frame has an entry {most}, and frame_max is {self.frame_max:g}; "
                f"--set frame_max={most}, or the largest entry that frames can have"
            )

    def scaled(self, frames: Tensor) -> Tensor:
        """Stored frames as floats."""
        floats = frames.float()
        return floats if self.frame_max == 1 else floats / self.frame_max

    def loss(
        self, history: Tensor, actions: Tensor, target: Tensor, uniforms: Tensor
    ) -> tuple[Outcome, Tensor]:
        """The outcome under bits of the posterior, and the divergence (B,) of that from the prior.

        uniforms  (B, n)
        """
        chosen = F.one_hot(actions, self.n_actions).float()
        known = self._known(history, chosen)
        both = torch.cat([known.last, self.scaled(target)], dim=1)
        news = self.look.descend(both, self.look.gates(chosen))[-1]
        logits = self.posterior(torch.cat([flat(news), known.context], dim=1))
        bits = draw_bits(logits, uniforms)
        divergence = self.prior.kl(known.context, logits, bits, self.pull)
        return self._outcome(known, bits), divergence

    def foresee(self, history: Tensor, actions: Tensor, uniforms: Tensor) -> Outcome:
        """The outcome under bits of the prior; uniforms (B, groups)."""
        known = self._known(history, F.one_hot(actions, self.n_actions).float())
        return self._outcome(known, self.prior.sample(known.context, uniforms))

    def draw_frame(self, outcome: Outcome, history: Tensor) -> Tensor:
        """The likeliest next frame (B, C, ...), in the type of stored ones."""
        if self.kind == "softmax":
            return outcome.frame.argmax(-1).to(history.dtype)
        if self.kind == "bernoulli":
            marks = (outcome.frame > 0) * self.frame_max
            return marks.to(history.dtype)
        last = history[:, -self.frame_shape[0] :]
        return torch.clamp(last + outcome.frame * self.change, self.low, self.high)

    def frame_loss(
        self, outcome: Outcome, history: Tensor, target: Tensor, floor: float = 0.0
    ) -> Tensor:
        """How badly the outcome foresees `target`, (B,), summed over the frame.

        floor  below this the loss of a pixel does not count (it is as good as it needs to be)
        """
        if self.kind == "softmax":
            logits = outcome.frame.movedim(-1, 1)
            losses = F.cross_entropy(logits, target.long(), reduction="none")
        elif self.kind == "bernoulli":
            losses = F.binary_cross_entropy_with_logits(
                outcome.frame, self.scaled(target), reduction="none"
            )
        else:
            moved = (target - history[:, -self.frame_shape[0] :]) / self.change
            losses = (outcome.frame - moved).square() / 2
        return losses.clamp(min=floor).flatten(1).sum(1)

    @torch.no_grad()
    def measure(self, frames: Tensor, changes: Tensor) -> None:
        """Learn the range of vectors from frames (n, dim) and their changes (m, dim)."""
        if self.kind == "gaussian":
            self.low.copy_(frames.amin(0))
            self.high.copy_(frames.amax(0))
            usual = changes.square().mean(0).sqrt()
            self.change.copy_(usual.clamp(min=SMALLEST_CHANGE * float(usual.max()) or 1.0))

    def _known(self, history: Tensor, chosen: Tensor) -> _Known:
        """What there is to know before the bits; chosen (B, A) are the actions, one-hot."""
        seen, gates = self.scaled(history), self.trunk.gates(chosen)
        found = self.trunk.descend(seen, gates)
        context = self.context(flat(found[-1])).relu_()
        return _Known(seen[:, -self.frame_shape[0] :], gates, found, context)

    def _outcome(self, known: _Known, bits: Tensor) -> Outcome:
        features = self.trunk.ascend(known.found, self.tell(bits), known.gates)
        is_image = features.ndim == 4
        pooled = [features.amax((2, 3)), features.mean((2, 3))] if is_image else [features]
        summary = self.summary(torch.cat([known.context, *pooled], dim=1)).relu_()
        frame = self.frame(features.movedim(1, -1))  # (B, ..., C) or, of pixels, (B, ..., 256 C)
        if self.kind == "softmax":
            frame = frame.unflatten(-1, (-1, LEVELS)).movedim(-2, 1)
        else:
            frame = frame.movedim(-1, 1)
        if self.kind == "bernoulli":
            frame = frame + COPY * (2 * known.last - 1)
        return Outcome(frame, self.reward(summary), self.end(summary)[:, 0])


@dataclass(frozen=True)
class _Known:
    """What is known before the bits.

    last     (B, C, ...)      the newest frame
    gates    of the trunk, by the action
    found    what the trunk says on its way down
    context  (B, hidden)      of which the prior is a function
    """

    last: Tensor
    gates: list[tuple[Tensor, Tensor]]
    found: list[Tensor]
    context: Tensor


def frame_kind(frame_shape: tuple[int, ...], frame_max: float) -> FrameKind:
    """How frames of this shape are foreseen."""
    if len(frame_shape) != 3:
        return "gaussian"
    return "softmax" if frame_max > 1 else "bernoulli"
