"""Symbolic links within a run folder are refused: nothing outside is read, changed or deleted."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faults.runs import call, is_traceback, words_of

import contrastive_ucb as cu
from contrastive_ucb.core.errors import UserError

LINKED = (  # what is replaced by a link to its copy outside; "" is the run folder itself
    *("", "spec.json", "metrics.jsonl", "eval.jsonl", "DONE", "versions.json", ".lock"),
    *("checkpoints", "checkpoints/{newest}", "checkpoints/{newest}/state.json"),
    *("replay", "tensorboard"),
)


def content_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def linked(run: Path, name: str, outside: Path) -> Path:
    """Move a part of the run folder to `outside` and replace it by a link."""
    newest = max((run / "checkpoints").iterdir(), key=lambda path: int(path.name[5:])).name
    part = run / name.format(newest=newest) if name else run
    outside.mkdir()
    part.rename(outside / part.name)
    part.symlink_to(outside / part.name)
    return part


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Copies a finished run of `train` and returns its folder."""
    import shutil

    source = tmp_path_factory.mktemp("finished") / "runs"
    assert call(words_of("deep", source)).code == 0

    def copy(root: Path) -> Path:
        shutil.copytree(source, root)
        return next(root.rglob("seed_0"))

    return copy


@pytest.mark.parametrize("name", LINKED)
@pytest.mark.parametrize("is_finished", [True, False])
def test_links_within_a_run_folder_are_refused(
    name: str, is_finished: bool, finished: Callable[[Path], Path], tmp_path: Path
) -> None:
    root = tmp_path / "runs"
    run = finished(root)
    if not is_finished:
        (run / "DONE").unlink()
        if name == "DONE":
            return
    link = linked(run, name, tmp_path / "outside")
    before = content_of(tmp_path / "outside")
    for words in (words_of("deep", root), ["eval", str(run), "--episodes", "1"]):
        outcome = call(words)
        assert outcome.code == 2, (words, outcome)
        assert f"{link} is a symbolic link" in outcome.err
        assert not is_traceback(outcome.err)
    with pytest.raises(UserError, match=r"is a symbolic link to .*; replace it"):
        cu.load(run)
    states = call(["status", str(root), "--json"])
    assert '"state": "finished"' not in states.out
    assert content_of(tmp_path / "outside") == before
    assert link.is_symlink()


def test_a_link_above_the_run_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "disk")
    words = words_of("table", tmp_path / "runs")
    assert call(words).code == 0
    assert call(words).code == 0
    assert any((tmp_path / "disk").rglob("DONE"))


def test_a_link_in_the_folder_of_a_saved_agent_is_refused(tmp_path: Path) -> None:
    agent: Any = cu.SPRUCB("DeepSea-4", seed=0)
    agent.learn(steps=5, progress=False)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "entries_of_another_agent").write_text("precious")
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "replay").symlink_to(outside)
    with pytest.raises(UserError, match="replay is a symbolic link"):
        agent.save(tmp_path / "saved")
    assert os.listdir(outside) == ["entries_of_another_agent"]
    path = agent.save(tmp_path / "other")
    path.rename(outside / path.name)
    path.symlink_to(outside / path.name)
    with pytest.raises(UserError, match="is a symbolic link"):
        cu.load(tmp_path / "other")
