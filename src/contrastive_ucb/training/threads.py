"""How many threads torch uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch

from contrastive_ucb.representation.encoder_shapes import choose_encoder


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch use so many threads meanwhile."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def one_thread() -> AbstractContextManager[None]:
    """Let torch use one thread meanwhile: on a busy machine, threads that wait for each other make
    small matrices ten times slower."""
    return threads(1)


def suitable_threads(frame_shape: tuple[int, ...]) -> int:
    """Small networks lose more by waiting for a second thread than they gain."""
    return 2 if choose_encoder(frame_shape) == "atari" else 1
