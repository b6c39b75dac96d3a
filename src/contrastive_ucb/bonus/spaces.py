"""Observations and actions of any supported space as lists of plain arrays, and their encoders.

| leaf of the observation space              | kind     | input of the network                     |
|--------------------------------------------|----------|------------------------------------------|
| Box, uint8 or bool, sides of at least 36   | `image`  | value / largest value, channels first    |
| Box, uint8, smaller grid                   | `grid`   | one-hot of the value, up to 16 values    |
| Box, bool or uint8 of 0 and 1              | `binary` | value                                    |
| Box, other                                 | `vector` | bounded entries scaled to [-1, 1], others|
|                                            |          | sign(x) log(1 + |x|)                     |
| Discrete, MultiDiscrete, MultiBinary       | `onehot` | one-hot                                  |
| Text, such as the mission of MiniGrid      |          | ignored                                  |

Dict and Tuple spaces are split into their leaves. The inputs have no statistics that change during
training, so the feature of an observation changes only with the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod, sqrt
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn

from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs.frames import SMALLEST_ATARI
from contrastive_ucb.representation.encoders import Encoder, linear

Arrays = tuple[NDArray[Any], ...]  # one array (n, *shape) per leaf
GRID_VALUES = 16  # values of a symbolic grid that are told apart; larger ones count as the largest
LARGEST_COUNT = 4096  # of values of a Discrete space
NOISY = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm)  # in training mode


@dataclass(frozen=True)
class Leaf:
    """One array of an observation.

    path    keys that lead to it in nested Dict and Tuple spaces
    low     smallest values of a vector or of discrete entries
    high    largest values of a vector; largest value of an image
    sizes   number of values of each entry, if `kind` is onehot or grid
    """

    path: tuple[Any, ...]
    kind: Literal["image", "grid", "binary", "vector", "onehot"]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    low: Any = None
    high: Any = None
    sizes: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return "observation" + "".join(f"[{key!r}]" for key in self.path)


class ObservationArrays:
    """Converts batches of observations of a space to tuples of arrays, with checks."""

    def __init__(self, space: spaces.Space[Any]):
        self.space = space
        self.leaves = tuple(_leaves(space, ()))
        if not self.leaves:
            raise UserError(
                f"observations of {space} have no array; pass an environment with Box or discrete"
                " observations"
            )

    def __call__(self, observations: Any) -> Arrays:
        """A batch of observations, (n, *shape) per leaf, as arrays of the leaves' types.

        Dict observations are a dict of arrays, as vector environments return them.
        """
        arrays = tuple(_array(leaf, observations) for leaf in self.leaves)
        if len({len(array) for array in arrays}) > 1:
            sizes = {leaf.name: len(a) for leaf, a in zip(self.leaves, arrays, strict=True)}
            raise UserError(f"the parts of the observations have different lengths: {sizes}")
        return arrays


def _leaves(space: spaces.Space[Any], path: tuple[Any, ...]) -> list[Leaf]:
    if isinstance(space, spaces.Dict):
        return [leaf for key, part in space.items() for leaf in _leaves(part, (*path, key))]
    if isinstance(space, spaces.Tuple):
        return [leaf for at, part in enumerate(space) for leaf in _leaves(part, (*path, at))]
    if isinstance(space, spaces.Text) or type(space).__name__ == "MissionSpace":
        return []
    if isinstance(space, spaces.Discrete):
        return [_onehot(path, (), (int(space.n),), int(space.start))]
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        counts = space.nvec.ravel() if isinstance(space, spaces.MultiDiscrete) else 2
        sizes = tuple(np.broadcast_to(counts, prod(space.shape)).tolist())
        return [_onehot(path, space.shape, sizes, getattr(space, "start", 0))]
    if not isinstance(space, spaces.Box):
        raise UserError(
            f"observations of type {type(space).__name__} are not supported; convert them to Box or"
            " Discrete with gymnasium.wrappers.TransformObservation"
        )
    dtype = np.dtype(space.dtype or np.float32)
    if dtype in (np.uint8, np.bool_):
        sides = sorted(space.shape)[1:]  # without the channels
        largest = int(space.high.max(initial=1))
        if len(space.shape) == 3 and min(sides) >= SMALLEST_ATARI:
            return [Leaf(path, "image", space.shape, dtype, high=np.float32(largest))]
        if largest <= 1:
            return [Leaf(path, "binary", space.shape, dtype)]
        values = (min(largest + 1, GRID_VALUES),) * prod(space.shape)
        return [Leaf(path, "grid", space.shape, dtype, sizes=values)]
    low, high = space.low.astype(np.float32), space.high.astype(np.float32)
    return [Leaf(path, "vector", space.shape, np.dtype(np.float32), low, high)]


def _onehot(path: tuple[Any, ...], shape: Any, sizes: tuple[int, ...], start: Any) -> Leaf:
    if max(sizes) > LARGEST_COUNT:
        raise UserError(
            f"a discrete observation has {max(sizes)} values, more than {LARGEST_COUNT}; pass a Box"
            " with features of the value, or encoder="
        )
    return Leaf(path, "onehot", tuple(shape), np.dtype(np.int64), low=start, sizes=sizes)


def _array(leaf: Leaf, observations: Any) -> NDArray[Any]:
    for key in leaf.path:
        try:
            observations = observations[key]
        except (KeyError, IndexError, TypeError) as error:
            raise UserError(
                f"{leaf.name} is missing; pass a batch of the space as vector environments return"
                " it, a dict of arrays for a Dict space"
            ) from error
    array = np.asarray(observations)
    if array.shape[1:] != leaf.shape or array.ndim == 0:
        raise UserError(
            f"{leaf.name} must have shape (n, {', '.join(map(str, leaf.shape))}), one row per"
            f" environment, got {array.shape}; add the first axis to a single one with x[None]"
        )
    if leaf.kind == "vector":
        if not (is_finite := np.isfinite(array)).all():
            index = tuple(np.argwhere(~is_finite)[0].tolist())
            raise UserError(
                f"{leaf.name} has a NaN or infinite entry; check the environment: entry"
                f" {list(index)} is {array[index]}"
            )
    elif leaf.kind == "onehot":
        _check_integers(leaf, array, leaf.low, np.reshape(leaf.sizes, leaf.shape) + leaf.low)
        array = array - leaf.low
    elif array.dtype != leaf.dtype:
        _check_integers(leaf, array, 0, 256 if leaf.dtype == np.uint8 else 2)
    return array.astype(leaf.dtype, copy=False)


def _check_integers(leaf: Leaf, array: NDArray[Any], low: Any, end: Any) -> None:
    is_integer = np.issubdtype(array.dtype, np.integer) or array.dtype == np.bool_
    if not is_integer or not ((array >= low) & (array < end)).all():
        values = f"{array.min()}..{array.max()}" if array.size else "nothing"
        raise UserError(
            f"{leaf.name} must be integers in the space, got {array.dtype} with {values}; pass the"
            " observations of the environment without scaling"
        )


class OneHotLinear(nn.Module):
    """A linear layer of one-hot vectors, given by the columns that are 1.

    It adds up rows of the weights, which costs a tenth of the product for the 147 entries with 16
    values each of a MiniGrid observation.
    """

    def __init__(self, inputs: int, outputs: int, rng: np.random.Generator):
        super().__init__()
        layer = linear(inputs, outputs, rng)
        self.weight = nn.Parameter(layer.weight.detach().T.contiguous())
        self.bias = layer.bias

    def forward(self, columns: Tensor) -> Tensor:
        """(n, entries) -> (n, outputs)"""
        return F.embedding_bag(columns, self.weight, mode="sum") + self.bias


class LeafEncoder(nn.Module):
    """One leaf (n, *shape) to a hidden vector (n, width) or, without `hidden`, its input."""

    counts: Tensor

    def __init__(self, leaf: Leaf, hidden: Sequence[int], rng: np.random.Generator):
        super().__init__()
        self.leaf = leaf
        self.register_buffer("counts", torch.tensor(leaf.sizes, dtype=torch.int64), False)
        self.convolutions: Encoder | None = None
        inputs = sum(leaf.sizes) if leaf.sizes else prod(leaf.shape)
        if leaf.kind == "image":
            channels = min(range(3), key=lambda axis: leaf.shape[axis])
            self.first = channels == 0
            shape = leaf.shape if self.first else (leaf.shape[2], *leaf.shape[:2])
            self.convolutions = Encoder(shape, rng, "atari")
            inputs = prod(self.convolutions.latent_shape)
        sizes = (inputs, *hidden)
        kinds = [OneHotLinear if leaf.sizes else linear, *[linear] * len(hidden)]
        pairs = zip(kinds, pairwise(sizes), strict=False)
        self.layers = nn.ModuleList(kind(*pair, rng) for kind, pair in pairs)
        self.dim = sizes[-1]

    def forward(self, x: Tensor) -> Tensor:
        rows = self.columns(x) if self.leaf.sizes else self.inputs(x)
        if self.leaf.sizes and not self.layers:
            return x.new_zeros((len(x), self.dim), dtype=torch.float32).scatter_(1, rows, 1.0)
        for layer in self.layers:
            rows = layer(rows).relu()
        return rows

    def columns(self, x: Tensor) -> Tensor:
        """The column of each entry in the one-hot input (n, sum of sizes)."""
        values = x.reshape(len(x), len(self.counts)).long()
        return values.minimum(self.counts - 1) + (self.counts.cumsum(0) - self.counts)

    def inputs(self, x: Tensor) -> Tensor:
        """The input (n, k) of the first linear layer."""
        if self.leaf.kind == "binary":
            return x.flatten(1).float()
        if self.leaf.kind == "vector":
            return squash(x.flatten(1).float(), self.leaf)
        assert self.convolutions is not None
        images = x if self.first else x.movedim(-1, 1)
        latent: Tensor = self.convolutions(images.float() / self.leaf.high)
        return latent.movedim(1, -1).flatten(1)


def he_start(module: nn.Module) -> None:
    """Give a random network the initial weights of He et al. (2015) and biases 0.

    Few entries of a one-hot or binary observation are 1. With PyTorch's smaller weights and larger
    biases, a random network has nearly the same output for all of them. Encoders of vectors
    stay as they are, because without biases x and 2x have outputs in the same direction.
    """
    if isinstance(module, LeafEncoder) and module.leaf.kind == "vector":
        return
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(sqrt(6) if parameter.ndim > 1 else 0)


def squash(x: Tensor, leaf: Leaf) -> Tensor:
    """Entries (n, k) with finite bounds scaled to [-1, 1], others sign(x) log(1 + |x|)."""
    low, high = (torch.from_numpy(np.ravel(b)).to(x.device) for b in (leaf.low, leaf.high))
    is_bounded = (high - low < 1e6) & (high > low)
    width = torch.where(is_bounded, high - low, 1.0)
    scaled = 2 * (x - torch.where(is_bounded, low, 0.0)) / width - 1
    return torch.where(is_bounded, scaled, x.sign() * x.abs().log1p())


class ObservationEncoder(nn.Module):
    """A batch of observations to hidden vectors (n, dim): the encoders of all leaves side by side.

    hidden  widths of the linear layers of each leaf
    module  the user's own encoder: a tensor (n, *shape), or a dict of tensors, to (n, dim)
    """

    origin: Tensor  # on the device of the encoder, also if it has no parameters

    def __init__(
        self,
        leaves: Sequence[Leaf],
        hidden: Sequence[int],
        rng: np.random.Generator,
        module: nn.Module | None = None,
    ):
        super().__init__()
        if not isinstance(hidden, Sequence) or isinstance(hidden, str):
            raise UserError(f"hidden must list layer widths, such as (256,), got {hidden!r}")
        for width in hidden:
            check_size("each width in hidden", width)
        self.paths = [leaf.path for leaf in leaves]
        if module is not None and not isinstance(module, nn.Module):
            raise UserError(
                f"encoder must be a torch.nn.Module, got {module!r:.60}; make one with a method"
                " forward from a batch of observations to features (n, d)"
            )
        self.module = module
        encoders = [LeafEncoder(leaf, hidden, rng) for leaf in leaves if module is None]
        self.parts = nn.ModuleList(encoders)
        self.dim = sum(encoder.dim for encoder in encoders)
        device = next((x.device for x in self.parameters()), torch.device("cpu"))
        self.register_buffer("origin", torch.zeros(0, device=device), persistent=False)
        if module is not None:
            example = tuple(np.zeros((1, *leaf.shape), leaf.dtype) for leaf in leaves)
            with torch.no_grad():
                self.dim = self(example).shape[1]
        # Outputs that belong to a vector of the observation
        of_vector = [np.full(part.dim, part.leaf.kind == "vector") for part in encoders]
        self.is_vector = np.concatenate(of_vector) if encoders else np.zeros(self.dim, bool)

    def forward(self, observations: Arrays) -> Tensor:
        tensors = [torch.from_numpy(array).to(self.origin.device) for array in observations]
        if self.module is None:
            rows = [part(x) for part, x in zip(self.parts, tensors, strict=True)]
            return rows[0] if len(rows) == 1 else torch.cat(rows, 1)
        if any(isinstance(x, NOISY) and x.training for x in self.module.modules()):
            raise UserError(
                "the encoder has dropout or batch normalization in training mode, so a bonus would"
                " depend on more than its transition; call encoder.eval() first"
            )
        given: Any = {".".join(map(str, p)): x for p, x in zip(self.paths, tensors, strict=True)}
        out: Tensor = self.module(tensors[0].float() if self.paths == [()] else given)
        if out.ndim != 2 or len(out) != len(tensors[0]):
            raise UserError(
                f"the encoder returned shape {tuple(out.shape)} for {len(tensors[0])} observations;"
                " it must return (n, dim)"
            )
        return out
