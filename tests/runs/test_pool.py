"""What all backends share: what is begun, waited for, tried again and reported."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from runs.sweep_runs import jobs_of, solve_table

from contrastive_ucb.runs import pool
from contrastive_ucb.runs.grid import Job
from contrastive_ucb.runs.pool import Ended, run_all
from contrastive_ucb.runs.store import RunFolder

DONE, BUSY, KILLED, LOST = Ended(0), Ended(75), Ended(-9), Ended(None, "its node died")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "BUSY_SECONDS", 0.05)
    monkeypatch.setattr(pool, "POLL_SECONDS", 0.005)


class Scripted:
    """A runner whose tries end at the next look, as the script says of their seeds."""

    def __init__(self, script: dict[int, list[Ended]]) -> None:
        self.script, self.begun, self.stopped = script, [], False
        self.under_way: list[tuple[Path, Ended]] = []
        self.most = 0
        self.on_start: Callable[[Path, Job], None] = lambda folder, job: None

    def start(self, folder: Path, job: Job) -> None:
        self.begun.append(job.seed)
        self.on_start(folder, job)
        ended = self.script[job.seed].pop(0)
        if ended is DONE:
            finish(folder)
        self.under_way.append((folder, ended))
        self.most = max(self.most, len(self.under_way))

    def ended(self) -> list[tuple[Path, Ended]]:
        over, self.under_way = self.under_way, []
        return over

    def stop(self) -> None:
        self.stopped = True


def finish(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "DONE").write_text("{}")


def jobs(count: int) -> list[Job]:
    return jobs_of(solve_table(seeds=count))


@pytest.mark.parametrize("end", [LOST, KILLED])
def test_what_was_lost_is_tried_again_so_many_times(end: Ended, tmp_path: Path) -> None:
    said: list[str] = []
    runner = Scripted({0: [end, end, DONE], 1: [end] * 9, 2: [DONE]})
    three = jobs(3)
    three[1].folder(tmp_path).mkdir(parents=True)
    errors = run_all(three, tmp_path, runner, 2, retries=2, say=said.append)
    assert sorted(runner.begun) == [0] * 3 + [1] * 3 + [2]
    folder = three[1].folder(tmp_path)
    assert errors == {folder: end.reason()}
    # The folder says so too, because the worker could not.
    assert json.loads((folder / "FAILED").read_text())["error"] == end.reason()
    assert said[0] == (f"{three[0].folder(Path())}: {end.reason()}; retry 1 of 2")
    assert len(said) == 4
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
    """Its process outlives its place for a moment, and holds the lock as long."""
    [job] = jobs(1)
    orphan = RunFolder(job.spec(), tmp_path)
    free: list[bool] = []

    def start(folder: Path, job: Job) -> None:
        if len(runner.begun) == 1:
            orphan.__enter__()
            threading.Timer(0.4, orphan.close).start()
        else:
            free.append(orphan._lock is None)

    runner = Scripted({0: [LOST, DONE]})
    runner.on_start = start
    assert run_all([job], tmp_path, runner, 1, retries=1) == {}
    assert free == [True]


def test_a_lost_run_that_finished_all_the_same_is_not_begun_again(tmp_path: Path) -> None:
    [job] = jobs(1)

    runner = Scripted({0: [LOST]})
    runner.on_start = lambda folder, job: finish(folder)
    assert run_all([job], tmp_path, runner, 1, retries=3) == {}
    assert runner.begun == [0]


@pytest.mark.parametrize(("workers", "most"), [(None, 6), (4, 4), (1, 1)])
def test_no_bound_leaves_it_to_the_runner(workers: int | None, most: int, tmp_path: Path) -> None:
    runner = Scripted({seed: [DONE] for seed in range(6)})
    assert run_all(jobs(6), tmp_path, runner, workers) == {}
    assert runner.most == most
    assert runner.begun == list(range(6))


def test_what_is_busy_is_no_loss(tmp_path: Path) -> None:
    runner = Scripted({0: [BUSY] * 5 + [DONE]})
    assert run_all(jobs(1), tmp_path, runner, 1, retries=1) == {}
    assert len(runner.begun) == 6


@pytest.mark.parametrize("there", [True, False])
def test_what_is_finished_elsewhere_is_an_error(there: bool, tmp_path: Path) -> None:
    """The node has another disk at this path, or other code and so another folder."""
    [job] = jobs(1)
    if there:
        job.folder(tmp_path).mkdir(parents=True)
    runner = Scripted({0: [Ended(0)]})
    [said] = run_all([job], tmp_path, runner, 1, retries=1).values()
    assert "do all nodes see it, with the same version" in said


def test_the_runner_is_stopped_whatever_happens(tmp_path: Path) -> None:
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
def test_how_a_try_ended(ended: Ended, lost: bool, says: str) -> None:
    assert ended.lost == lost
    assert says in ended.reason()
