"""Weights, transitions, noise and augmentations for one update, generated from names with numpy.

`published_update.npz` holds the results of the published SPR-UCB code on these inputs: it was run
once, in float64, for three updates. Each array is drawn from a `RandomState`, whose stream NumPy
never changes, seeded with the name of the array.

Layouts are those of the published network: channels before pixels, one layer per stream.
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

N_ACTIONS, ATOMS, HIDDEN, CHANNELS, PIXELS = 4, 51, 256, 64, 49
JUMPS, STACK, PAD = 5, 4, 4
STEPS, START, BATCH = 40, 8, 4  # per episode stream; where the windows start; number of streams
ENDS = {0: 3, 1: 7, 2: 0}  # stream -> the step after START that ends an episode; stream 3 has none
NOISY = {  # layer -> inputs, outputs
    "head.advantage_hidden.1": (CHANNELS * PIXELS, HIDDEN),
    "head.advantage_out": (HIDDEN, N_ACTIONS * ATOMS),
    "head.value.1": (CHANNELS * PIXELS, HIDDEN),
    "head.value.3": (HIDDEN, ATOMS),
}
CONVOLUTIONS = {0: (32, 4, 8, 8), 2: (64, 32, 4, 4), 4: (64, 64, 3, 3)}
MODEL = "dynamics_model.network"
PREDICTOR = "global_final_classifier.0"

Floats = NDArray[np.float32]


def generator(name: str) -> np.random.RandomState:
    return np.random.RandomState(zlib.crc32(f"spr-ucb-oracle-1:{name}".encode()))


def shapes() -> dict[str, tuple[int, ...]]:
    """Name and shape of every parameter."""
    found: dict[str, tuple[int, ...]] = {}
    for at, shape in CONVOLUTIONS.items():
        found |= {f"conv.conv.{at}.weight": shape, f"conv.conv.{at}.bias": shape[:1]}
    for name, (inputs, outputs) in NOISY.items():
        for kind in ("mu", "sigma"):
            found |= {f"{name}.weight_{kind}": (outputs, inputs), f"{name}.bias_{kind}": (outputs,)}
    first, second = (64, 64 + N_ACTIONS, 3, 3), (64, 64, 3, 3)
    for name, shape in ((f"{MODEL}.0.net.0", first), (f"{MODEL}.3.net.0", second)):
        found |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    found |= {f"{MODEL}.2.weight": (64,), f"{MODEL}.2.bias": (64,)}  # batch norm
    wide = 2 * HIDDEN
    return found | {f"{PREDICTOR}.weight": (wide, wide), f"{PREDICTOR}.bias": (wide,)}


def weights() -> dict[str, Floats]:
    """Uniform on +-1/sqrt(fan-in), four times that in the output layers, so that distributions are
    not flat; sigma is spread by a factor of .5 to 1.5, so that a transposed layer is noticed."""
    every = shapes()
    return {name: _weight(name, every).astype(np.float32) for name in every}


def _weight(name: str, every: dict[str, tuple[int, ...]]) -> NDArray[np.float64]:
    layer, kind = name.rsplit(".", 1)
    shape, unit = every[name], generator(name).uniform(-1.0, 1.0, size=every[name])
    if layer == f"{MODEL}.2":
        return 1.0 + 0.5 * unit if kind == "weight" else 0.1 * unit
    if kind in ("weight_sigma", "bias_sigma"):
        size = shape[1] if kind == "weight_sigma" else shape[0]
        return 0.5 / np.sqrt(size) * (1.0 + 0.5 * unit)
    fan_in = np.prod(every[f"{layer}.{kind.replace('bias', 'weight')}"][1:])
    scale = 4.0 if layer in ("head.advantage_out", "head.value.3") else 1.0
    return scale * unit / np.sqrt(fan_in)


def streams() -> tuple[NDArray[np.uint8], NDArray[np.int64], Floats]:
    """Frames (STEPS, BATCH, 84, 84), actions and rewards (STEPS, BATCH)."""
    blocks = generator("frames").randint(0, 248, size=(STEPS, BATCH, 12, 12))
    fine = generator("fine").randint(0, 8, size=(STEPS, BATCH, 84, 84))
    frames = (blocks.repeat(7, axis=2).repeat(7, axis=3) + fine).astype(np.uint8)
    actions = generator("actions").randint(0, N_ACTIONS, size=(STEPS, BATCH)).astype(np.int64)
    rewards = generator("rewards").randint(-1, 2, size=(STEPS, BATCH)).astype(np.float32)
    return frames, actions, rewards


def noise(update: int) -> dict[str, tuple[Floats, Floats]]:
    """f(eps) of the input and of the output side of each layer; update 0 is before the first."""

    def factor(name: str, size: int) -> Floats:
        x = generator(f"noise{update}:{name}").standard_normal(size).astype(np.float32)
        return np.copysign(np.sqrt(np.abs(x)), x)

    return {
        name: (factor(f"{name}:in", inputs), factor(f"{name}:out", outputs))
        for name, (inputs, outputs) in NOISY.items()
    }


def augmented(images: NDArray[np.uint8], update: int, purpose: str) -> Floats:
    """Shifted images with changed intensities.

    images   (n, STACK, 84, 84)
    purpose  "online" (s_t), "targets" (s_t .. s_t+5 of each sample), "target_net" (s_t+10 for the
             evaluating pass) or "double" (s_t+10 for the selecting pass)
    """

    def draw(name: str) -> np.random.RandomState:
        return generator(f"aug{update}:{purpose}:{name}")

    size = len(images)
    column, row = (draw(name).randint(0, 2 * PAD + 1, size=size) for name in "xy")
    r = (1.5 * draw("r").standard_normal(size)).astype(np.float32)
    padded = np.pad(images / 255.0, ((0, 0), (0, 0), (PAD, PAD), (PAD, PAD)), mode="edge")
    cut = [padded[i, :, row[i] : row[i] + 84, column[i] : column[i] + 84] for i in range(size)]
    factor = 1 + 0.05 * np.clip(r.astype(np.float64), -2, 2)
    return (np.stack(cut) * factor[:, None, None, None]).astype(np.float32)


def summary(parameter: NDArray[np.floating]) -> NDArray[np.float64]:
    """Sum, absolute sum and five entries, which is what is stored of each parameter."""
    flat = parameter.astype(np.float64).ravel()
    entries = flat[np.linspace(0, flat.size - 1, 5).astype(np.int64)]
    return np.concatenate([[flat.sum(), np.abs(flat).sum()], entries])
