"""SIGINT, SIGTERM and SIGHUP: a run saves and stops, anything else stops, with one line."""

import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contrastive_ucb.cli import main
from contrastive_ucb.core import runtime
from contrastive_ucb.core.checkpoint import latest_checkpoint
from contrastive_ucb.core.runtime import STOPS, Stopped, interrupts, signal_handlers
from contrastive_ucb.report import (
    load,
    pages,  # noqa: F401  (imports read_facts before a test replaces it)
)

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
SOLVE = ["solve", "lowrank", "--rounds", "50000", "--checkpoint-seconds", "1000"]
CUCB = [sys.executable, "-m", "contrastive_ucb.cli"]
every_signal = pytest.mark.parametrize("number", STOPS, ids=lambda number: number.name)


def wait_for(until: Callable[[], Any]) -> None:
    patience = time.monotonic() + 120
    while not until():
        assert time.monotonic() < patience
        time.sleep(0.02)


def has_begun(root: Path) -> bool:
    return any(file.stat().st_size for file in root.rglob("metrics.jsonl"))


def saved(root: Path) -> bool:
    return any(latest_checkpoint(folder) for folder in root.rglob("checkpoints"))


def interrupted_step(number: int, seen: list[int]) -> None:
    with interrupts() as interrupted:
        assert not interrupted.is_set()
        os.kill(os.getpid(), number)
        assert interrupted.is_set()
        assert not seen
        for each in STOPS:
            os.kill(os.getpid(), each)
        assert seen == list(STOPS)


@every_signal
def test_the_step_is_finished_and_a_second_signal_is_handled_as_before(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "SAME_SECONDS", 0)
    seen: list[int] = []
    before = signal_handlers()
    try:
        for each in STOPS:
            signal.signal(each, lambda number, frame: seen.append(number))
        outside = signal_handlers()
        with pytest.raises(Stopped) as stop:
            interrupted_step(number, seen)
        assert stop.value.number == number
        assert signal_handlers() == outside
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def signals_at_once(numbers: list[int]) -> None:
    with interrupts():
        for each in numbers:
            os.kill(os.getpid(), each)


@every_signal
def test_signals_at_once_are_one_request(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler that signals all processes reaches a worker directly and through its sweep."""
    monkeypatch.setattr(runtime, "SAME_SECONDS", 1000)
    with pytest.raises(Stopped) as stop:
        signals_at_once([number, *STOPS])
    assert stop.value.number == number


def test_other_threads_have_no_handlers() -> None:
    found: list[bool] = []

    def run() -> None:
        with interrupts() as interrupted:
            found.append(interrupted.is_set())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [False]


@every_signal
def test_a_run_saves_and_says_how_to_continue(number: int, tmp_path: Path) -> None:
    words = [*SOLVE, "--out", str(tmp_path)]
    process = subprocess.Popen([*CUCB, *words], stderr=subprocess.PIPE, text=True)
    wait_for(lambda: has_begun(tmp_path))
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert process.returncode == CODES[number]
    *progress, last = err.splitlines()
    assert last.startswith("cucb: stopped")
    assert last.endswith(f"continue: cucb {' '.join(words)}")
    assert not any("stopped" in line for line in progress)
    assert saved(tmp_path)


def test_a_run_under_nohup_survives_the_end_of_its_terminal(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        command = [*CUCB, *SOLVE, "--out", str(tmp_path)]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    finally:
        signal.signal(signal.SIGHUP, before)
    wait_for(lambda: has_begun(tmp_path))
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.terminate()
    assert process.wait(120) == CODES[signal.SIGTERM]
    assert saved(tmp_path)


def test_a_run_saves_when_its_terminal_is_closed(tmp_path: Path) -> None:
    child, terminal = pty.fork()
    if not child:
        os.execv(sys.executable, [*CUCB, *SOLVE, "--out", str(tmp_path)])
    threading.Thread(target=drain, args=(terminal,), daemon=True).start()
    wait_for(lambda: has_begun(tmp_path))
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == CODES[signal.SIGHUP]
    assert saved(tmp_path)


def drain(terminal: int) -> None:
    try:
        while os.read(terminal, 1 << 16):
            pass
    except OSError:
        pass


@every_signal
def test_other_commands_stop_with_one_line(
    number: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read(*_: object) -> None:
        try:
            os.kill(os.getpid(), number)
        except KeyboardInterrupt as error:
            raise errors.pop() from error

    before = signal_handlers()
    monkeypatch.setattr(load, "read_facts", read)
    words = ["report", str(tmp_path), "--out", str(tmp_path / "page.html")]
    errors: list[BaseException] = [ImportError("replaced by a library"), Stopped(number)]
    while errors:
        assert main(words) == CODES[number]
        [line] = capsys.readouterr().err.splitlines()
        assert line.endswith(f"continue: cucb {' '.join(words)}")
    assert signal_handlers() == before


UNRAISABLE = """
import os, signal, sys
from contrastive_ucb import cli
class Late:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
def run(words):
    Late()
    print("went on")
cli._run = run
cli.main(["status", "runs"])
"""


def test_a_signal_is_not_lost_where_python_ignores_exceptions() -> None:
    ended = subprocess.run([sys.executable, "-c", UNRAISABLE], capture_output=True, text=True)
    assert ended.returncode == CODES[signal.SIGTERM]
    assert ended.stdout == ""
    [line] = ended.stderr.splitlines()
    assert "stopped by SIGTERM" in line
