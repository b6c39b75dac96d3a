"""The world model of SimPLe (Kaiser et al. 2020): from a few frames and an action to the next one.

| symbol        | here        | shape            |                                               |
|---------------|-------------|------------------|-----------------------------------------------|
| x_{t-k+1..t}  | `history`   | (B, k * C, ...)  | the last k frames, oldest first, as stored    |
| a_t           | `actions`   | (B,)             |                                               |
| x_{t+1}       | `target`    | (B, C, ...)      | the next frame                                |
| z             | `bits`      | (B, n)           | what cannot be foreseen (`bits.py`)           |
| p(x, r, e)    | `Outcome`   |                  | given history, action and bits                |

How a frame is foreseen depends on what it is (`frame_kind`):

| frames        | `kind`      | output                       | loss               | drawn frame  |
|---------------|-------------|------------------------------|--------------------|--------------|
| big images    | `softmax`   | 256 logits a pixel           | cross entropy      | likeliest    |
| marks (0, 1)  | `bernoulli` | a logit a cell               | cross entropy      | likeliest    |
| vectors       | `gaussian`  | change, in its usual size    | half the square    | mean         |

Losses are sums over a frame, in nats. A drawn frame is the likeliest one given drawn bits: pixels
drawn one by one would show half a ball here and half a ball there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from contrastive_ucb.errors import UserError
from contrastive_ucb.representation.bits import BitPrior, draw_bits
from contrastive_ucb.representation.encoders import linear
from contrastive_ucb.representation.trunks import Trunk, flat

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
