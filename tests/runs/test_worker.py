"""One job in its own process: its log, its failures, its end."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from runs.sweep_runs import jobs_of, results_of, solve_table, train_table

from contrastive_ucb.core.checkpoint import latest_checkpoint
from contrastive_ucb.runs.grid import Job
from contrastive_ucb.runs.store import RunFolder, is_busy
from contrastive_ucb.runs.worker import (
    EXIT_BUSY,
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_STOPPED,
    main,
    one_line,
    run_job,
)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MKL", "OMP", "OPENBLAS"):
        monkeypatch.setenv(f"{name}_NUM_THREADS", "1")  # so that it is put back


def words(job: Job, root: Path) -> list[str]:
    return [str(root), json.dumps(job.to_json())]


def test_a_job_is_done_and_logged(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for table in (solve_table(seeds=1), train_table()):
        [job] = jobs_of(table)
        assert main(words(job, tmp_path / "a")) == EXIT_DONE
        run_job(job, tmp_path / "b")
        log = (job.folder(tmp_path / "a") / "log.txt").read_text()
        assert log.startswith(job.command(tmp_path / "a"))
    assert results_of(tmp_path / "a") == results_of(tmp_path / "b")
    assert main(words(job, tmp_path / "a")) == EXIT_DONE  # is finished
    assert capfd.readouterr().err == ""


def test_a_failure_leaves_a_note_until_the_next_try(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    [job] = jobs_of(solve_table(seeds=1))
    folder = job.folder(tmp_path)
    folder.mkdir(parents=True)
    (folder / "checkpoints").write_text("in the way")
    assert main(words(job, tmp_path)) == EXIT_FAILED
    note = json.loads((folder / "FAILED").read_text())
    [said] = capfd.readouterr().err.splitlines()
    assert note == {"error": said, "log": "log.txt"}
    assert "Traceback" in (folder / "log.txt").read_text()
    (folder / "checkpoints").unlink()
    assert main(words(job, tmp_path)) == EXIT_DONE
    assert not (folder / "FAILED").exists()
    assert (folder / "log.txt").read_text().count("cucb solve") == 2  # of all tries


def test_a_run_of_another_process_is_left_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    [job] = jobs_of(solve_table(seeds=1))
    with RunFolder(job.spec(), tmp_path) as folder:
        assert is_busy(folder.path)
        assert main(words(job, tmp_path)) == EXIT_BUSY
        assert {path.name for path in folder.path.iterdir()} == {"spec.json", ".lock"}
    assert not is_busy(folder.path)
    assert "in use by another process" in capfd.readouterr().err


def test_damage_is_named_and_nothing_is_lost(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    [job] = jobs_of(solve_table(seeds=1))
    run_job(job, tmp_path)
    folder = job.folder(tmp_path)
    for name, says in (("DONE", "remove DONE and repeat"), ("spec.json", "damaged")):
        content = (folder / name).read_text()
        (folder / name).write_text(content[:9])
        assert main(words(job, tmp_path)) == EXIT_FAILED
        [line] = capfd.readouterr().err.splitlines()
        assert says in line
        (folder / "DONE").unlink(missing_ok=True)
    assert (folder / "metrics.jsonl").stat().st_size


@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGHUP])
def test_the_worker_saves_and_stops_with_stdin_or_a_signal(
    number: int | None, tmp_path: Path
) -> None:
    [job] = jobs_of(solve_table(rounds=100_000, seeds=1))
    command = [sys.executable, "-m", "contrastive_ucb.runs.worker", *words(job, tmp_path)]
    # In the background of a shell Ctrl-C may be ignored.
    ignored = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        worker = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, ignored)
    assert worker.stdin
    metrics = job.folder(tmp_path) / "metrics.jsonl"
    patience = time.monotonic() + 60
    while not (metrics.exists() and metrics.stat().st_size):
        assert time.monotonic() < patience
        assert worker.poll() is None
        time.sleep(0.02)
    if number is None:
        worker.stdin.close()
    else:
        worker.send_signal(number)
    assert worker.wait(timeout=60) == EXIT_STOPPED
    assert latest_checkpoint(job.folder(tmp_path) / "checkpoints") is not None
    assert not (job.folder(tmp_path) / "FAILED").exists()
    assert os.environ["OMP_NUM_THREADS"] == "1"


def test_folders_that_cannot_be_written_have_a_remedy(
    capfd: pytest.CaptureFixture[str],
) -> None:
    said = one_line(OSError(28, "No space left on device"))
    assert "No space left on device; free some disk space" in said
    [job] = jobs_of(solve_table(seeds=1))
    assert main(words(job, Path("/proc/nowhere"))) == EXIT_FAILED
    assert "pass --out FOLDER" in capfd.readouterr().err.splitlines()[-1]
