"""A full disk stops a run with one line, and the run continues when there is space again."""

import errno
import io
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.runs import Outcome, call, is_traceback, results_of, start, words_of

from contrastive_ucb.core import events

REMEDY = "free some disk space and repeat the command"
KINDS = ("table", "deep")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict]:
    """The results of the undisturbed runs of a kind."""
    known: dict[str, dict] = {}

    def of(kind: str) -> dict:
        if kind not in known:
            folder = tmp_path_factory.mktemp(kind) / "runs"
            assert call(words_of(kind, folder)).code == 0
            known[kind] = results_of(folder)
        return known[kind]

    return of


def check(outcome: Outcome, root: Path) -> None:
    """One line with the path and the remedy, and no traceback, not even of a thread."""
    assert outcome.code == 2, outcome
    assert not is_traceback(outcome.err), outcome.err
    last = outcome.err.strip().splitlines()[-1]
    assert str(root) in last
    assert REMEDY in last


def full(*_: object, **__: object) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class FullFile(io.FileIO):
    """A file on a full disk."""

    def write(self, data: Any) -> int:
        return full()


def no_space_for(name: str, patch: pytest.MonkeyPatch) -> None:
    """Let writes to files whose names contain `name` fail."""
    real, write = Path.open, Path.write_bytes

    def opening(self: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
        if name in str(self) and set(mode) & set("wa"):
            return io.BufferedWriter(FullFile(self, mode.replace("b", "")))
        return real(self, mode, *rest, **more)

    def writing(self: Path, data: Any) -> int:
        return full() if name in str(self) else write(self, data)

    patch.setattr(Path, "open", opening)
    patch.setattr(Path, "write_bytes", writing)


PLACES = ("metrics.jsonl", "tfevents", "arrays.safetensors", "DONE", "versions.json", "spec.json")


@pytest.mark.parametrize("place", [*PLACES, "eval.jsonl", "entries_"])
def test_a_write_error_anywhere_is_one_line(
    place: str, whole: Callable[[str], dict], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = "deep" if place in ("eval.jsonl", "entries_") else "table"
    root = tmp_path / "runs"
    in_threads: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", in_threads.append)
    with monkeypatch.context() as patch:
        no_space_for(place, patch)
        check(call(words_of(kind, root)), root)
    assert in_threads == []
    assert call(words_of(kind, root)).code == 0
    assert results_of(root) == whole(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_disk_that_fills_up_during_the_run(
    kind: str, whole: Callable[[str], dict], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The previous checkpoint stays valid, and a repeated command continues from it."""
    root, real, count = tmp_path / "runs", os.fsync, [0]

    def fsync(handle: int) -> None:
        count[0] += 1
        if count[0] > 60:
            full()
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        check(call(words_of(kind, root)), root)
    assert any(root.rglob("step_*/state.json"))
    again = call(words_of(kind, root))
    assert again.code == 0
    assert "continues from step" in again.err
    assert "instead" not in again.err
    assert results_of(root) == whole(kind)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 400 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("mounting a tmpfs is not permitted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_small_disk(kind: str, whole: Callable[[str], dict], small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    for free in (0, 16, 48, 100):  # kB
        ballast.unlink(missing_ok=True)
        space = os.statvfs(small_disk)
        ballast.write_bytes(bytes(max(0, space.f_bavail * space.f_frsize - 1024 * free)))
        process = start(words_of(kind, small_disk / "runs"))
        out, err = process.communicate(timeout=120)
        if process.returncode:
            check(Outcome(process.returncode, out, err), small_disk)
    ballast.unlink()
    last = call(words_of(kind, small_disk / "runs"))
    assert last.code == 0, last.err
    assert results_of(small_disk / "runs") == whole(kind)


def test_tensorboard_has_no_thread(tmp_path: Path) -> None:
    """The traceback of a thread of TensorBoard's own writer appeared when the disk was full."""
    before = threading.active_count()
    board = events.TensorBoardListener(tmp_path)
    board.write(1, {"x": 1.0})
    assert threading.active_count() == before
    board.close()
