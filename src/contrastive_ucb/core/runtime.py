"""Threads, device, memory, signals and versions of a process; threads do not import torch."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from threadpoolctl import ThreadpoolController

from contrastive_ucb.core.errors import UserError

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # names and numbers of glibc's malloc.h
DEVICES = ("auto", "cpu", "cuda")
LARGEST_HEAP_BLOCK = 32 << 20  # bytes; glibc refuses more
KEPT_FREE = (2 << 30) - 1  # bytes; the largest int
BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}  # of /proc/cpuinfo; bf16: Arm
SAME_SECONDS = 2  # in which several signals are one request to stop
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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


def multiplies_bfloat16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool | None:
    """Whether the processor has instructions for products in bfloat16; None if it does not say."""
    try:
        words = set(cpuinfo.read_text().split())
    except OSError:
        return None
    has_flags = bool(words & {"flags", "Features"})  # of x86 and Arm
    return bool(words & BFLOAT16_FLAGS) if has_flags else None


# Signals. SIGINT (Ctrl-C), SIGTERM and SIGHUP ask a process to stop, all in the same way: inside
# `interrupts` after the present step, elsewhere at once. A second one stops at once; within
# SAME_SECONDS it belongs to the first one, since `timeout` and schedulers may send several.


class Stopped(KeyboardInterrupt):
    """A signal asked this process to stop."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


class Received:
    """The signal that was received last."""

    number = 0
    at = 0.0  # when, on the monotonic clock

    def set(self, number: int) -> None:
        self.number, self.at = number, time.monotonic()

    def is_set(self) -> bool:
        return self.number != 0

    def is_recent(self) -> bool:
        """Whether another signal now belongs to this one."""
        return self.is_set() and time.monotonic() - self.at < SAME_SECONDS


@contextmanager
def interrupts() -> Iterator[Received]:
    """The signal that was received, so that the step can be finished; leaving raises `Stopped`.

    A second signal is handled as before the context, unless it belongs to the first one: if a
    scheduler signals all processes of a sweep, a worker is also stopped by the sweep.
    """
    received, before = Received(), signal_handlers()

    def receive(number: int, frame: object) -> None:
        _leave_lost_terminal(number)
        if not received.is_set():
            received.set(number)
        elif not received.is_recent():
            set_signal_handlers(before)
            signal.raise_signal(number)

    set_signal_handlers(dict.fromkeys(before, receive))
    try:
        yield received
    finally:
        set_signal_handlers(before)
    if received.is_set():
        raise Stopped(received.number)


@contextmanager
def stopped_by_signals(end: Callable[[int], int]) -> Iterator[Received]:
    """Signals raise `Stopped` within the context.

    Where Python would ignore an exception, such as in a callback during an import, the process
    ends with the exit code that `end` returns for the signal.
    """
    received, before, hook = Received(), signal_handlers(), sys.unraisablehook

    def stop(number: int, frame: object) -> None:
        _leave_lost_terminal(number)
        if not received.is_recent():
            received.set(number)
            raise Stopped(number)

    def unraisable(ignored: Any) -> None:
        if isinstance(ignored.exc_value, Stopped):
            os._exit(end(ignored.exc_value.number))
        hook(ignored)

    set_signal_handlers(dict.fromkeys(before, stop))
    sys.unraisablehook = unraisable
    try:
        yield received
    finally:
        set_signal_handlers(before)
        sys.unraisablehook = hook


def signal_handlers() -> dict[int, Any]:
    """The present handlers of the signals to stop; only the main thread has some.

    A SIGHUP that is ignored, as under `nohup`, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    handlers: dict[int, Any] = {number: signal.getsignal(number) for number in STOPS}
    if handlers[signal.SIGHUP] is signal.SIG_IGN:
        del handlers[signal.SIGHUP]
    return {n: signal.SIG_DFL if handler is None else handler for n, handler in handlers.items()}


def set_signal_handlers(handlers: Mapping[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _leave_lost_terminal(number: int) -> None:
    """After SIGHUP the terminal may be gone, and writing to it would be an error."""
    if number == signal.SIGHUP:
        for stream in (1, 2):
            try:
                os.write(stream, b"")
            except OSError:
                with open(os.devnull, "wb") as nowhere:
                    os.dup2(nowhere.fileno(), stream)


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
