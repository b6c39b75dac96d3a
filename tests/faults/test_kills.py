"""Runs that are killed at random times and repeated equal undisturbed runs."""

import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.runs import COMMANDS, call, is_traceback, results_of, start, words_of

SIGNALS = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGHUP: 129}
KINDS = [kind for kind in COMMANDS if kind != "ray"]
MOST_KILLS = 3


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[dict, float]]:
    """The results of the undisturbed runs of a kind, and their duration in a new process."""
    known: dict[str, tuple[dict, float]] = {}

    def of(kind: str) -> tuple[dict, float]:
        if kind not in known:
            folder = tmp_path_factory.mktemp(kind) / "runs"
            begun = time.monotonic()
            process = start(words_of(kind, folder))
            _, err = process.communicate()
            assert process.returncode == 0, err
            known[kind] = results_of(folder), time.monotonic() - begun
        return known[kind]

    return of


def test_killed_runs_end_with_the_same_results(
    fault: int, whole: Callable[[str], tuple[dict, float]], tmp_path: Path
) -> None:
    draw = random.Random(f"kill {fault}")
    kind = KINDS[fault % len(KINDS)]
    check(kind, draw, whole, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_killed_sweeps_on_ray(
    seed: int, whole: Callable[[str], tuple[dict, float]], tmp_path: Path
) -> None:
    pytest.importorskip("ray")
    check("ray", random.Random(f"ray {seed}"), whole, tmp_path)


def check(
    kind: str, draw: random.Random, whole: Callable[[str], tuple[dict, float]], tmp_path: Path
) -> None:
    expected, seconds = whole(kind)
    folder = tmp_path / "runs"
    words = words_of(kind, folder)
    for _ in range(draw.randint(1, MOST_KILLS)):
        number = draw.choice(list(SIGNALS))
        process = start(words, start_new_session=True)
        # A process that is still importing has no handler yet and loses nothing.
        until = time.monotonic() + draw.uniform(0.2, 1.0) * seconds
        while process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        ended = process.poll() is not None
        if not ended:
            process.send_signal(number)
        _, err = process.communicate(timeout=120)
        assert not is_traceback(err), err
        if ended:
            assert process.returncode == 0, err
        elif folder.exists() and any(folder.rglob("step_*")):
            assert process.returncode in (0, SIGNALS[number], -number), err
    last = call(words)
    assert last.code == 0, last.err
    assert results_of(folder) == expected
    shutil.rmtree(tmp_path, ignore_errors=True)
