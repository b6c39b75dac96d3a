"""The loop that all backends share: which jobs are started, repeated and reported."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from runs.sweep_runs import jobs_of, solve_table

from contrastive_ucb.runs import pool
from contrastive_ucb.runs.grid import Job
from contrastive_ucb.runs.pool import Ended, run_all
from contrastive_ucb.runs.store import RunFolder, is_busy

DONE, BUSY, KILLED, LOST = Ended(0), Ended(75), Ended(-9), Ended(None, "its node died")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "BUSY_SECONDS", 0.05)
    monkeypatch.setattr(pool, "POLL_SECONDS", 0.005)


class Scripted:
    """A backend whose attempts end at once, as the script says for their seeds."""

    def __init__(self, script: dict[int, list[Ended]]) -> None:
        self.script, self.begun, self.stopped = script, [], False
        self.running: list[tuple[Path, Ended]] = []
        self.most = 0
        self.on_start: Callable[[Path, Job], None] = lambda folder, job: None

    def start(self, folder: Path, job: Job) -> None:
        self.begun.append(job.seed)
        self.on_start(folder, job)
        ended = self.script[job.seed].pop(0)
        if ended is DONE:
            finish(folder)
        self.running.append((folder, ended))
        self.most = max(self.most, len(self.running))

    def ended(self) -> list[tuple[Path, Ended]]:
        over, self.running = self.running, []
        return over

    def stop(self) -> None:
        self.stopped = True


def finish(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "DONE").write_text("{}")


def jobs(count: int) -> list[Job]:
    return jobs_of(solve_table(seeds=count))


@pytest.mark.parametrize("end", [LOST, KILLED])
def test_lost_runs_are_repeated(
    end: Ended, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runner = Scripted({0: [end, end, DONE], 1: [end] * 9, 2: [DONE]})
    three = jobs(3)
    folder = three[1].folder(tmp_path)
    folder.mkdir(parents=True)
    assert run_all(three, tmp_path, runner, 2, retries=2) == {folder: end.reason()}
    assert sorted(runner.begun) == [0] * 3 + [1] * 3 + [2]
    assert json.loads((folder / "FAILED").read_text())["error"] == end.reason()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"{three[0].folder(Path())}: {end.reason()}; retry 1 of 2"
    assert len(lines) == 4
    assert runner.stopped


def test_losses_are_counted_anew_from_each_checkpoint(tmp_path: Path) -> None:
    """A long run on machines that come and go is not given up as long as it gets on."""
    [job] = jobs(1)
    runner = Scripted({0: [LOST] * 6 + [DONE]})

    def save(folder: Path, job: Job) -> None:
        number = len(runner.begun) // 2  # at every second try
        (folder / "checkpoints" / f"step_{number}").mkdir(parents=True, exist_ok=True)

    runner.on_start = save
    assert run_all([job], tmp_path, runner, 1, retries=2) == {}
    assert len(runner.begun) == 7


def test_a_lost_run_that_still_saves_is_waited_for(tmp_path: Path) -> None:
    """Its process holds the lock for a moment longer than its Ray worker lives."""
    [job] = jobs(1)
    orphan = RunFolder(job.spec(), tmp_path)
    free: list[bool] = []

    def start(folder: Path, job: Job) -> None:
        if len(runner.begun) == 1:
            orphan.__enter__()
            threading.Timer(0.4, orphan.__exit__).start()
        else:
            free.append(not is_busy(folder))

    runner = Scripted({0: [LOST, DONE]})
    runner.on_start = start
    assert run_all([job], tmp_path, runner, 1, retries=1) == {}
    assert free == [True]


def test_a_lost_run_that_has_finished_is_not_repeated(tmp_path: Path) -> None:
    runner = Scripted({0: [LOST]})
    runner.on_start = lambda folder, job: finish(folder)
    assert run_all(jobs(1), tmp_path, runner, 1, retries=3) == {}
    assert runner.begun == [0]


@pytest.mark.parametrize(("workers", "most"), [(None, 6), (4, 4), (1, 1)])
def test_the_number_of_attempts_at_once(workers: int | None, most: int, tmp_path: Path) -> None:
    runner = Scripted({0: [BUSY] * 5 + [DONE]} | {seed: [DONE] for seed in range(1, 6)})
    assert run_all(jobs(6), tmp_path, runner, workers) == {}  # a busy run is not a loss
    assert runner.most == most
    assert sorted(runner.begun) == [0] * 6 + [1, 2, 3, 4, 5]


@pytest.mark.parametrize("there", [True, False])
def test_a_run_that_finished_elsewhere_is_an_error(there: bool, tmp_path: Path) -> None:
    """The node has another disk at this path, or other code and so another folder."""
    [job] = jobs(1)
    if there:
        job.folder(tmp_path).mkdir(parents=True)
    runner = Scripted({0: [Ended(0)]})
    [said] = run_all([job], tmp_path, runner, 1, retries=1).values()
    assert "do all nodes see it, with the same version" in said


def test_an_interruption_stops_the_backend(tmp_path: Path) -> None:
    runner = Scripted({0: [DONE]})

    def press() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all(jobs(1), tmp_path, runner, 1, press)
    assert runner.stopped


@pytest.mark.parametrize(
    ("ended", "lost", "says"),
    [
        (Ended(1, "no disk"), False, "no disk"),
        (Ended(130), False, "stopped from outside"),
        (Ended(7), False, "exit code 7"),
        (Ended(-11), True, "SIGSEGV"),
        (Ended(None, "its node died"), True, "its node died"),
    ],
)
def test_how_an_attempt_ended(ended: Ended, lost: bool, says: str) -> None:
    assert ended.lost == lost
    assert says in ended.reason()
