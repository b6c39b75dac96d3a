"""Threads, device, memory, Ctrl-C and versions of a process; threads do not import torch."""

from __future__ import annotations

import ctypes
import platform
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache, partial
from importlib.metadata import version

from threadpoolctl import ThreadpoolController

from contrastive_ucb.core.errors import UserError

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # names and numbers of glibc's malloc.h
DEVICES = ("auto", "cpu", "cuda")
LARGEST_HEAP_BLOCK = 32 << 20  # bytes; glibc refuses more
KEPT_FREE = (2 << 30) - 1  # bytes; the largest int


def keep_freed_memory() -> bool:
    """Ask glibc not to return freed buffers to the kernel; returns whether it agreed.

    By default large buffers are mapped again in every update, and the kernel clears each of their
    pages. With another C library nothing happens.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):
        return False
    kept = mallopt(M_TRIM_THRESHOLD, KEPT_FREE)  # 1 is success
    return bool(mallopt(M_MMAP_THRESHOLD, LARGEST_HEAP_BLOCK) and kept)


def choose_device(asked: str) -> str:
    """The device `cpu` or `cuda` for a request; `auto` takes CUDA if it is available."""
    if asked not in DEVICES:
        raise UserError(f"no device is called {asked!r}; choose from {', '.join(DEVICES)}")
    import torch

    if asked == "cuda" and not torch.cuda.is_available():
        raise UserError("device is 'cuda', but torch finds no CUDA; choose 'cpu' or 'auto'")
    return "cuda" if asked != "cpu" and torch.cuda.is_available() else "cpu"


@contextmanager
def interrupts() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets, so that the round can be finished; a second Ctrl-C interrupts."""
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
def torch_threads(count: int) -> Iterator[None]:
    """Limit torch, but not BLAS, within the context. This is cheap enough for every round."""
    torch = sys.modules.get("torch")
    if torch is None:  # nothing to limit, and importing it takes 2 s
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


one_thread = partial(torch_threads, 1)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Limit torch and BLAS to `count` threads within the context.

    On a busy machine, threads that wait for each other make small matrices many times slower.
    """
    with _blas().limit(limits=count), torch_threads(count):
        yield


@cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries of this process, searched once because the search takes 20 ms."""
    import scipy.linalg  # noqa: F401  (its own BLAS is found only after it is loaded)

    return ThreadpoolController().select(user_api="blas")


@cache
def versions(libraries: tuple[str, ...] = ("numpy", "scipy", "torch")) -> dict[str, str]:
    """Versions of the package, the libraries and Python."""
    names = ("contrastive-ucb", *libraries)
    return {**{name: version(name) for name in names}, "python": platform.python_version()}


def today() -> str:
    return datetime.now(UTC).date().isoformat()
