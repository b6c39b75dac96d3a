"""A full replay memory and a learner that trains from it, in a process of their own."""

from __future__ import annotations

import multiprocessing
import re
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import torch

from contrastive_ucb.commands.timing import in_turns
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.core.runtime import keep_freed_memory
from contrastive_ucb.data.replay import Replay
from contrastive_ucb.experiments.train import Training

LIFE = 1000  # steps of an episode
WINDOW = 16
POOL = 16  # random frames that are stored over and over; equal ones take as much memory


def full_memory(
    game: str, seed: int, steps: int, threads: int, batch: int
) -> dict[str, float | None]:
    """Size of the memory, time of a draw, and the peak of the process after some updates."""
    receive, send = multiprocessing.Pipe(duplex=False)
    work = (send, game, seed, steps, threads, batch)
    process = multiprocessing.get_context("spawn").Process(target=_fill_and_learn, args=work)
    process.start()
    send.close()
    try:
        figures: dict[str, float | None] = receive.recv()
    except EOFError:
        process.join()
        raise ArithmeticError(
            f"the process of the memory stopped with exit code {process.exitcode}"
        ) from None
    process.join()
    return figures


def _fill_and_learn(
    send: Connection, game: str, seed: int, steps: int, threads: int, batch: int
) -> None:
    """GB are 10**9 bytes; the size is what the process grows by, for 100,000 steps."""
    keep_freed_memory()
    torch.set_num_threads(threads)
    settings = {"bonus.preset": "paper", "batch_size": batch}
    trainer = Training(game, "spr-ucb", settings, seed=seed).rainbow_trainer()
    before = _resident("VmRSS")
    trainer.replay = replay = _filled(trainer.replay, steps, seed)
    grown = _resident("VmRSS") - before
    rng = stream(seed, "replay")

    def draw() -> None:
        """What an update takes, and all 16 steps of its windows besides."""
        drawn = replay.sample(rng.random(batch), importance_exponent=0.4)
        replay.window(drawn.index, WINDOW)

    draw()
    with_windows, alone = in_turns(
        [draw, lambda: replay.sample(rng.random(batch), importance_exponent=0.4)], turns=101
    )
    for _ in range(3):
        trainer._update()
    send.send(
        {
            "replay_sample_ms": 1e3 * with_windows,
            "replay_sample_without_windows_ms": 1e3 * alone,
            "replay_gb_100k": grown * 100_000 / steps,
            "peak_memory_gb": _resident("VmHWM"),
        }
    )


def _filled(like: Replay, steps: int, seed: int) -> Replay:
    """A memory with the settings of `like` whose draws also have windows, after random steps."""
    frame = like.history.frame
    extras = {name: (x.shape[1:], x.dtype) for name, x in like.extras.items()}
    replay = Replay(
        like.history.capacity,
        frame.shape[1:],
        frame.dtype,
        stack=like.history.stack,
        n_step=like.n_step,
        discount=like.discount,
        jumps=like.jumps,
        window=WINDOW,
        priority_exponent=like.priority_exponent,
        extras=extras,
    )
    rng = stream(seed, "memory")
    frames = rng.integers(0, 256, (POOL, *frame.shape[1:]), dtype=np.uint8)
    beside = {name: rng.random(shape).astype(dtype) for name, (shape, dtype) in extras.items()}
    for step in range(steps):
        if step % LIFE == 0:
            replay.begin(frames[-1])
        end = step % LIFE == LIFE - 1
        replay.add(step % 3, 0.0, frames[step % POOL], end, False, **beside)
    return replay


def _resident(field: str) -> float:
    """Resident memory of this process in GB: VmRSS now, VmHWM its peak.

    The kernel's ru_maxrss will not do: a new process starts with that of its parent.
    """
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise OSError(f"/proc/self/status has no {field}; this bench needs Linux")
    return int(found[1]) * 1024 / 1e9
