"""How many threads torch uses, and the BLAS of numpy and scipy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache

import torch
from threadpoolctl import ThreadpoolController

from contrastive_ucb.representation.encoder_shapes import choose_encoder


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch and BLAS use so many threads meanwhile. On a busy machine, threads that wait for
    each other make small matrices many times slower."""
    with _blas().limit(limits=count), _torch_threads(count):
        yield


def one_thread() -> AbstractContextManager[None]:
    """The same for torch alone and one thread: it takes no time, so a round can have its own."""
    return _torch_threads(1)


def set_threads(count: int) -> None:
    """Let torch and BLAS use so many threads from now on."""
    _blas().limit(limits=count)
    torch.set_num_threads(count)


def suitable_threads(frame_shape: tuple[int, ...]) -> int:
    """Small networks lose more by waiting for a second thread than they gain."""
    return 2 if choose_encoder(frame_shape) == "atari" else 1


@contextmanager
def _torch_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries of this process; finding them takes 20 ms, so it is done once."""
    import scipy.linalg  # noqa: F401  (has a BLAS of its own, which is found once it is loaded)

    return ThreadpoolController().select(user_api="blas")
