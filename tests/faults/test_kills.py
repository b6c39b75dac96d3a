"""Runs that are stopped or killed at random times and repeated equal undisturbed runs."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from faults.runs import COMMANDS, RUNS, call, is_traceback, results_of, start, words_of

from contrastive_ucb.runs.store import is_busy

CODES = {signal.SIGKILL: -9, signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
KINDS = [kind for kind in COMMANDS if kind != "ray"]
MOST_KILLS = 3
RAY_STARTS = (-signal.SIGABRT,)  # Ray handles SIGTERM itself while it starts
EARLY = 0.2  # share of the kills that need not wait for the first result
PATIENCE = 600  # seconds, on a busy machine


class Whole(NamedTuple):
    """The undisturbed runs of a kind."""

    results: dict[str, Any]
    size: int  # bytes of their metrics
    seconds: float


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Whole]:
    known: dict[str, Whole] = {}

    def of(kind: str) -> Whole:
        if kind not in known:
            folder = tmp_path_factory.mktemp(kind) / "runs"
            begun = time.monotonic()
            process = start(words_of(kind, folder))
            _, err = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, err
            seconds = time.monotonic() - begun
            known[kind] = Whole(results_of(folder), size_of(folder), seconds)
        return known[kind]

    return of


def test_killed_runs_end_with_the_same_results(
    fault: int, whole: Callable[[str], Whole], tmp_path: Path
) -> None:
    kind = KINDS[fault % len(KINDS)]
    check(kind, random.Random(f"kill {fault}"), whole(kind), tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
@pytest.mark.parametrize("seed", range(3))
def test_killed_sweeps_on_ray(seed: int, whole: Callable[[str], Whole], tmp_path: Path) -> None:
    check("ray", random.Random(f"ray {seed}"), whole("ray"), tmp_path)


def check(kind: str, draw: random.Random, whole: Whole, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    words = words_of(kind, folder)
    for _ in range(draw.randint(1, MOST_KILLS)):
        number = draw.choice(list(CODES))
        while any(is_busy(run) for run in folder.glob(RUNS)):  # workers of a killed sweep
            time.sleep(0.02)
        before = size_of(folder)
        process = start(words, start_new_session=True)
        wait(process, draw, whole, folder)
        begun, ended = size_of(folder) > before, process.poll() is not None
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE)
        code = process.returncode
        if ended or results_of(folder) == whole.results:  # it was too late
            assert code in (0, CODES[number], -number), err
        elif begun:
            assert code == CODES[number], err
        else:  # before the handlers are installed, a signal has its usual effect
            assert code in (CODES[number], -number, *(RAY_STARTS if kind == "ray" else ())), err
        assert not is_traceback(err) or code == -signal.SIGINT, err
        if code > 0:
            assert err.splitlines()[-1].endswith(f"continue: cucb {' '.join(words)}")
    last = call(words)
    assert last.code == 0, last.err
    assert results_of(folder) == whole.results
    shutil.rmtree(tmp_path, ignore_errors=True)


def wait(process: Any, draw: random.Random, whole: Whole, folder: Path) -> None:
    """Wait until a random share of the missing results is there, or for a random time.

    The time that a run takes depends on what else the machine does, so it decides only rarely.
    """
    early, share = draw.random() < EARLY, draw.random()
    before = size_of(folder)
    until = time.monotonic() + (share * whole.seconds if early else PATIENCE)
    goal = whole.size + 1 if early else before + share * (whole.size - before)
    while process.poll() is None and time.monotonic() < until and size_of(folder) < goal:
        time.sleep(0.002)


def size_of(root: Path) -> int:
    """The bytes of all metrics below the folder."""
    return sum(path.stat().st_size for path in root.glob(f"{RUNS}/metrics.jsonl"))
