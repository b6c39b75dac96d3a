"""RunFolder: one run, one process, one summary."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.runs.spec import RunSpec
from contrastive_ucb.runs.store import RunBusyError, RunFolder, is_busy

SPEC = RunSpec("theory", "contrastive-ucb", "lock", 0, {"rounds": 800})

HOLD_THE_FOLDER = """
import sys, time
from pathlib import Path
from contrastive_ucb.runs.spec import RunSpec
from contrastive_ucb.runs.store import RunFolder

spec = RunSpec("theory", "contrastive-ucb", "lock", 0, {"rounds": 800})
with RunFolder(spec, Path(sys.argv[1])):
    print("open", flush=True)
    time.sleep(60)
"""


def test_a_new_folder_gets_its_spec_and_an_old_one_is_recognised(tmp_path):
    with RunFolder(SPEC, tmp_path) as run:
        assert run.path == SPEC.folder(tmp_path)
        written = (run.path / "spec.json").read_text()
        content = json.loads(written)
        assert len(content.pop("sha256")) == 64
        assert content == SPEC.to_json()
    with RunFolder(SPEC, tmp_path) as run:
        assert (run.path / "spec.json").read_text() == written


def test_a_folder_of_another_run_is_refused_and_left_alone(tmp_path):
    path = SPEC.folder(tmp_path)
    path.mkdir(parents=True)
    other = json.dumps(replace(SPEC, config={"rounds": 900}).to_json())
    (path / "spec.json").write_text(other)
    with pytest.raises(UserError, match=r"belongs to another run \(config differ\); move"):
        RunFolder(SPEC, tmp_path).__enter__()
    assert (path / "spec.json").read_text() == other
    (path / "spec.json").unlink()
    with RunFolder(SPEC, tmp_path):
        pass  # the refusal has let go of the lock


@pytest.mark.parametrize("text", ["", '{"suite": "th', "[]", "\x00"])
def test_a_damaged_spec_is_one_clear_line(tmp_path, text):
    path = SPEC.folder(tmp_path)
    path.mkdir(parents=True)
    (path / "spec.json").write_text(text)
    with pytest.raises(UserError, match=r"spec\.json is damaged .*; remove it") as caught:
        RunFolder(SPEC, tmp_path).__enter__()
    assert "\n" not in str(caught.value)


def test_finish_and_summary(tmp_path):
    summary = {"final_gap": 0.125, "solved_at": None, "runs": [{"seed": 0}]}
    run = RunFolder(SPEC, tmp_path)
    assert not run.finished
    assert list(tmp_path.iterdir()) == []
    with run:
        with pytest.raises(UserError, match="is not finished"):
            run.summary()
        with pytest.raises(ValueError, match="not JSON compliant"):
            run.finish({"gap": float("nan")})
        assert not run.finished
        run.finish(summary)
        assert run.finished
    assert RunFolder(SPEC, tmp_path).finished
    assert run.summary() == {**summary, "run_dir": str(run.path)}
    assert not RunFolder(replace(SPEC, seed=1), tmp_path).finished


@pytest.mark.parametrize("keep", [0, 1, 10])
def test_a_damaged_done_file_is_one_clear_line(tmp_path, keep):
    with RunFolder(SPEC, tmp_path) as run:
        run.finish({"final_gap": 0.125})
    done = run.path / "DONE"
    done.write_text(done.read_text()[:keep])
    with pytest.raises(UserError, match=r"DONE is damaged .*; remove .*DONE") as caught:
        run.summary()
    assert "\n" not in str(caught.value)


def test_done_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    with RunFolder(SPEC, tmp_path) as run:
        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(UserError, match="No space left on device"):
            run.finish({"final_gap": 0.125})
        assert not run.finished
        assert {path.name for path in run.path.iterdir()} == {"spec.json", ".lock"}


def test_a_second_opening_is_refused_until_the_first_is_closed(tmp_path):
    with RunFolder(SPEC, tmp_path) as run:
        with pytest.raises(RunBusyError, match="in use by another process") as caught:
            RunFolder(SPEC, tmp_path).__enter__()
        assert str(run.path) in str(caught.value)
        assert "\n" not in str(caught.value)
        with RunFolder(replace(SPEC, seed=1), tmp_path):
            pass  # another seed is another folder
    with RunFolder(SPEC, tmp_path):
        pass


def test_somebody_who_only_looks_is_in_nobodys_way(tmp_path):
    """`cucb status` has the lock for a moment; a run that begins just then is not told "busy"."""
    with RunFolder(SPEC, tmp_path) as run:
        pass
    with (run.path / ".lock").open() as look:
        fcntl.flock(look, fcntl.LOCK_SH | fcntl.LOCK_NB)
        threading.Timer(0.1, fcntl.flock, (look, fcntl.LOCK_UN)).start()
        with run:
            assert is_busy(run.path)
        assert not is_busy(run.path)


def test_a_killed_process_leaves_the_folder_free(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_FOLDER, tmp_path], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(RunBusyError):
            RunFolder(SPEC, tmp_path).__enter__()
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    with RunFolder(SPEC, tmp_path) as run:
        assert not run.finished


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path):
    (tmp_path / "theory").write_text("a file in the way")
    with pytest.raises(UserError, match=r"cannot write to .*; pass --out") as caught:
        RunFolder(SPEC, tmp_path).__enter__()
    assert str(SPEC.folder(tmp_path)) in str(caught.value)
    assert "\n" not in str(caught.value)
