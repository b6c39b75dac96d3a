"""What runs, folders and evaluations ask of a deep agent and of its training, whichever it is.

`training/deep.py` trains Rainbow and its relatives, `training/simple.py` SimPLe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from contrastive_ucb.core.arrays import IntArray
from contrastive_ucb.core.events import Event
from contrastive_ucb.data.history import Frames
from contrastive_ucb.data.replay import Replay
from contrastive_ucb.envs.frames import FrameEnv


class Settings(Protocol):
    """The part of every configuration that evaluations look at."""

    @property
    def eval_epsilon(self) -> float: ...
    @property
    def atari(self) -> str:
        """The rules of Atari games, see `envs/atari.py`."""
        ...


class Reader(Protocol):
    """How observations are read: (stack * C, ...) of this type."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Learner(Protocol):
    """Whoever learns."""

    @property
    def inputs(self) -> Reader: ...
    @property
    def n_updates(self) -> int: ...

    def new_replay(self) -> Replay:
        """An empty memory with all that this learner needs of one."""
        ...

    def best(self, observations: Frames) -> IntArray:
        """Actions (B,) for observations (B, stack * C, ...), as evaluation takes them."""
        ...

    def check_finite(self) -> None:
        """Stop if a weight is no finite number any more."""
        ...


class DeepTrainer(Protocol):
    """An environment, the memory of it, and the learner: all that a training run is made of.

    steps     the whole length of the run
    n_steps   steps that were taken
    position  grows with every event: steps, and pieces of work between two of them
    returns   raw, of all episodes so far
    """

    env: FrameEnv
    steps: int
    n_steps: int
    returns: list[float]
    replay: Replay

    @property
    def config(self) -> Settings: ...
    @property
    def agent(self) -> Learner: ...
    @property
    def position(self) -> int: ...

    def run(self, until: int) -> Iterator[Event]:
        """Go on until `until` steps are taken and all work that belongs to them is done; an event
        after each piece, empty if nothing is noted. Between any two the state may be saved."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything but the frames of the replay, which go to files of their own."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...
