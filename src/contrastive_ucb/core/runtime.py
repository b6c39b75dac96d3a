"""Memory that an update frees stays with the process, ready for the next update."""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache

import torch
from threadpoolctl import ThreadpoolController

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.representation.encoder_shapes import choose_encoder

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # names and numbers of glibc's malloc.h
LARGEST_HEAP_BLOCK = 32 << 20  # bytes; glibc refuses more
KEPT_FREE = (2 << 30) - 1  # bytes; the largest int


def keep_freed_memory() -> bool:
    """Ask glibc not to hand freed buffers back to the kernel; whether it agreed.

    By default buffers of megabytes are mapped anew in every update, and the kernel clears every
    page of them. Elsewhere than on glibc nothing happens.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):
        return False
    kept = mallopt(M_TRIM_THRESHOLD, KEPT_FREE)  # 1 is success
    return bool(mallopt(M_MMAP_THRESHOLD, LARGEST_HEAP_BLOCK) and kept)


def choose_device(asked: str) -> str:
    """`cpu` or `cuda` of what was asked for; `auto` takes CUDA where there is any."""
    if asked == "cuda" and not torch.cuda.is_available():
        raise UserError("torch finds no CUDA here; choose the device 'cpu' or 'auto'")
    return "cuda" if asked != "cpu" and torch.cuda.is_available() else "cpu"


@contextmanager
def interrupts() -> Iterator[threading.Event]:
    """Set when Ctrl-C was pressed, so that the round is finished and saved; a second one stops."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    before = signal.getsignal(signal.SIGINT)

    def press(number: int, frame: object) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, press)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


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
