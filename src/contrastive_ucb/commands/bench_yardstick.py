"""The yardstick of `cucb bench deep`: where it is found, what it plays, and its own process."""

from __future__ import annotations

import importlib
import multiprocessing
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch

from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.envs.registry import make_deep_env

FILE = Path("benchmarks", "yardstick.py")
KINDS = {"yardstick_spr": False, "yardstick_spr_ucb": True}  # whether it has the bonus


def find() -> Path | None:
    """The file in the repository that this package lies in, or below the working directory."""
    for root in (Path(__file__).parents[3], Path.cwd()):
        if (root / FILE).is_file():
            return root / FILE
    return None


@dataclass(frozen=True)
class Rig:
    """All that a process needs to run the yardstick.

    fill     random steps that its memory holds
    batch    windows an update
    updates  of one turn
    """

    path: Path
    game: str
    seed: int
    fill: int
    batch: int
    updates: int
    threads: int

    def works(self) -> dict[str, Callable[[], object]]:
        """One turn of each kind, by name; the first update of each is done here, untimed."""
        code = load(self.path)
        env = make_deep_env(self.game, seed=self.seed, training=True)
        played = self._play()
        works: dict[str, Callable[[], object]] = {}
        for name, bonus in KINDS.items():
            replay = code.PlainReplay(*played, seed=self.seed)
            yardstick = code.Yardstick(env.n_actions, bonus, seed=self.seed)
            yardstick.step(replay, self.batch)

            def turn(yardstick: Any = yardstick, replay: Any = replay) -> None:
                for _ in range(self.updates):
                    yardstick.step(replay, self.batch)

            works[name] = turn
        return works

    def _play(self) -> tuple[np.ndarray, ...]:
        """Random steps: frames (n, 84, 84), actions, rewards and ends (n,)."""
        env = make_deep_env(self.game, seed=self.seed, training=True)
        rng = stream(self.seed, "policy")
        frames, actions, rewards, ends = [], [], [], []
        frame = env.reset()
        for _ in range(self.fill):
            action = int(rng.integers(env.n_actions))
            step = env.step(action)
            over = step.terminated or step.truncated
            frames.append(frame[0])
            actions.append(action)
            rewards.append(step.reward)
            ends.append(over)
            frame = env.reset() if over else step.frame
        return np.array(frames), np.array(actions), np.array(rewards), np.array(ends)


@contextmanager
def elsewhere(rig: Rig) -> Iterator[dict[str, Callable[[], object]]]:
    """The works of a process of its own, whose allocator is as the system has it."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs, rig))
    process.start()
    theirs.close()

    def ask(name: str) -> None:
        try:
            ours.send(name)
            ours.recv()
        except (EOFError, BrokenPipeError):
            process.join()
            raise ArithmeticError(
                f"the process of the yardstick stopped with exit code {process.exitcode}"
            ) from None

    try:
        ask("")  # until it is ready
        yield {name: lambda name=name: ask(name) for name in KINDS}  # type: ignore[misc]
    finally:
        ours.close()
        process.join()


def _serve(connection: Connection, rig: Rig) -> None:
    """Do what is asked for by name, until nobody asks any more."""
    torch.set_num_threads(rig.threads)
    works = rig.works()
    try:
        while True:
            name = connection.recv()
            if name:
                works[name]()
            connection.send(None)
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        pass


def load(path: Path) -> Any:
    """The yardstick is a file of the repository, not a module of the package."""
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    return importlib.import_module(path.stem)
