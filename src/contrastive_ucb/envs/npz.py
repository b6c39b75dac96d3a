"""Finite MDPs and games in .npz files."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.lib import format as npy

from contrastive_ucb.envs.validate import TWO_PLAYERS

NAMES = ("transitions", "rewards", "initial", "reward_scale")
HOW_TO_WRITE = "np.savez(path, transitions=P, rewards=r)"


def read_npz(path: str | Path) -> dict[str, Any]:
    """The arrays that an .npz file holds, by name; nothing is ever unpickled."""
    with _readable(path), np.load(path, allow_pickle=False) as archive:
        if unknown := set(archive.files) - set(NAMES):
            raise ValueError(f"it has an array {min(unknown)!r}, not one of {', '.join(NAMES)}")
        arrays = {name: archive[name] for name in archive.files}
    _check_present(path, arrays.keys())
    return arrays


def kind_of(path: str | Path) -> Literal["mdp", "game"]:
    """Whether an .npz file holds an MDP or a game, from the shapes in its headers alone."""
    with _readable(path), zipfile.ZipFile(path) as archive:
        members = archive.namelist()
        shapes = {name.removesuffix(".npy"): _shape_in_header(archive, name) for name in members}
    _check_present(path, shapes.keys())
    shape = shapes["transitions"]
    if len(shape) not in (4, 5):
        raise ValueError(
            f"transitions in {path} has shape {shape}; that of an MDP is (H, S, A, S), that of a "
            f"game (H, S, A1, A2, S), and {TWO_PLAYERS}"
        )
    return "mdp" if len(shape) == 4 else "game"


def _shape_in_header(archive: zipfile.ZipFile, member: str) -> tuple[int, ...]:
    """The shape of an array, from the few bytes in front of its numbers."""
    with archive.open(member) as file:
        first = npy.read_magic(file) == (1, 0)
        read = npy.read_array_header_1_0 if first else npy.read_array_header_2_0
        shape: tuple[int, ...] = read(file)[0]
    return shape


def _check_present(path: str | Path, found: Collection[str]) -> None:
    if missing := {"transitions", "rewards"} - set(found):
        raise ValueError(
            f"{path} has no array named {' and '.join(sorted(missing))} "
            f"(it has {', '.join(sorted(found)) or 'nothing'}); write it with {HOW_TO_WRITE}"
        )


@contextmanager
def _readable(path: str | Path) -> Iterator[None]:
    """Turn every way in which a file can be unreadable into one line that says what to do."""
    if not Path(path).is_file():
        raise ValueError(f"no file at {path}; write one with {HOW_TO_WRITE}")
    try:
        yield
    except (OSError, ValueError, EOFError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(
            f"{path} is not a readable .npz file of plain arrays ({error}); "
            f"write it with {HOW_TO_WRITE}"
        ) from error
