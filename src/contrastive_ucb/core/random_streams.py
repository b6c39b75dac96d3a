"""Named random streams: the only source of randomness in the package.

A stream depends on the seed and its name only, so adding a stream never changes the others.
"""

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from contrastive_ucb.core.checks import check_size


def stream(seed: int, name: str) -> np.random.Generator:
    """The random stream `name` ("policy", "replay", "augment", ...) of the run with this seed."""
    check_size("seed", seed, least=0)
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def stream_state(generator: np.random.Generator) -> dict[str, Any]:
    """The state of the stream in JSON values (integers of up to 128 bits)."""
    kind = type(generator.bit_generator).__name__
    if kind != "PCG64":
        raise ValueError(f"only PCG64 streams can be saved, got {kind}; make it with stream()")
    return dict(generator.bit_generator.state)


def restore_stream(state: Mapping[str, Any]) -> np.random.Generator:
    """A stream that continues from the state of `stream_state`."""
    bits = np.random.PCG64(0)
    saved: Any = dict(state)
    try:
        bits.state = saved
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not the state of a PCG64 stream: {saved!r}") from error
    return np.random.Generator(bits)
