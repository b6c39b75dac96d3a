"""A replay memory on the disk that grows by what is new: whole entries are written once.

    <folder>/entries_<first>_<last>_<digest>.z   the times first .. last - 1, compressed safetensors

`save` writes the entries that no file holds yet and returns what belongs into the checkpoint: the
names and digests of all files it rests on, and the part of the state that changes in place. A file
is never changed and has its digest in its name, so an older checkpoint stays loadable whenever the
process dies, and a run that goes on from there differently writes beside, not over, the old files.
Only a last file of fewer than PIECE entries is replaced by a longer one at the next save.
"""

import hashlib
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from safetensors import numpy as safetensors

from contrastive_ucb.checks import check_size
from contrastive_ucb.data.replay import Replay
from contrastive_ucb.training.checkpoint import CheckpointError
from contrastive_ucb.training.files import write_atomically

PIECE = 512  # entries a file: at most so many are written a second time, 3.6 MB of Atari frames


class ReplayFiles:
    """The files of one replay memory, which one process at a time writes."""

    def __init__(self, folder: Path, piece: int = PIECE):
        check_size("piece", piece)
        self.folder, self.piece = folder, piece
        self.pieces: list[dict[str, Any]] = []  # of the last save or load, in order of time

    def save(self, replay: Replay) -> dict[str, Any]:
        """Write what is new; the returned state, once in a checkpoint, is what `load` takes."""
        oldest, now = replay.history.oldest, replay.history.now
        pieces = [piece for piece in self.pieces if piece["last"] > oldest]
        if pieces and pieces[-1]["last"] - pieces[-1]["first"] < self.piece:
            start = max(oldest, pieces.pop()["first"])
        else:
            start = pieces[-1]["last"] if pieces else oldest
        self.folder.mkdir(parents=True, exist_ok=True)
        for first in range(start, now, self.piece):
            pieces.append(self._write(replay, first, min(first + self.piece, now)))
        self.pieces = pieces
        return replay.live_state() | {"pieces": [dict(piece) for piece in pieces]}

    def load(self, replay: Replay, state: Mapping[str, Any]) -> None:
        """Bring `replay` to the saved state; any damage to a file is a CheckpointError."""
        replay.load_live_state(state)
        oldest = replay.history.oldest
        for piece in state["pieces"]:
            entries = safetensors.load(zlib.decompress(self._read(piece)))
            gone = max(0, oldest - piece["first"])
            kept = {name: values[gone:] for name, values in entries.items()}
            replay.history.write(piece["first"] + gone, kept)
        self.pieces = [dict(piece) for piece in state["pieces"]]

    def prune(self, kept: Iterable[Mapping[str, Any]]) -> None:
        """Remove files that none of the `kept` states rests on, and drafts of a killed process.

        Call it when a checkpoint is finished, with the states of all that are still there.
        """
        names = {piece["name"] for state in kept for piece in state["pieces"]}
        names |= {piece["name"] for piece in self.pieces}
        for path in [*self.folder.glob("entries_*"), *self.folder.glob(".entries_*")]:
            if path.name not in names:
                path.unlink()

    def _write(self, replay: Replay, first: int, last: int) -> dict[str, Any]:
        content = zlib.compress(safetensors.save(replay.history.entries(first, last)), level=1)
        digest = hashlib.sha256(content).hexdigest()
        path = self.folder / f"entries_{first}_{last}_{digest[:16]}.z"
        if not path.exists():
            write_atomically(path, content)
        return {"name": path.name, "first": first, "last": last, "sha256": digest}

    def _read(self, piece: Mapping[str, Any]) -> bytes:
        path = self.folder / piece["name"]
        way_out = "remove the checkpoint that needs it to continue from an older one"
        try:
            content: bytes = path.read_bytes()
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read ({error.strerror}); {way_out}") from error
        if hashlib.sha256(content).hexdigest() != piece["sha256"]:
            raise CheckpointError(
                f"{path} does not have the content that was saved (checksum differs); {way_out}"
            )
        return content
