"""What the demo lacks is told from what it left, with a command that fills exactly that."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from contrastive_ucb.cli import main
from contrastive_ucb.commands.demo import Demo
from contrastive_ucb.commands.demo_plan import command_of, demo_plans, specs_of
from contrastive_ucb.commands.options import parse
from contrastive_ucb.experiments.spec import RunSpec
from contrastive_ucb.experiments.store import RunFolder
from contrastive_ucb.report.missing import Missing, read_entries, read_folder

SHORT = Demo(seed=3, seeds=2, rounds=50, lock_rounds=60, sea_steps=200, sea_seeds=1)


def write(specs: list[RunSpec], root: Path, finished: bool = True) -> None:
    """Folders as the demo leaves them, but with nothing measured."""
    for spec in specs:
        with RunFolder(spec, root) as run:
            run.metrics.touch()
            if finished:
                score = {"evaluation": {"mean": 1.0, "episodes": 20}, "average_gap": 0.5}
                finite = {"average_regret": 0.5, "optimal_value": 1.0}
                run.finish(score if "steps" in spec.config else finite)


def gaps_of(root: Path) -> list[Missing]:
    return read_folder(root, plans_of=demo_plans).missing


def filled_by(gap: Missing, root: Path) -> set[Path]:
    """The run folders that the command of a gap would fill."""
    (command,) = gap.commands
    *words, out, folder = shlex.split(command)
    assert (words[:2], out, folder) == (["cucb", "demo"], "--out", str(root))
    options = parse(Demo, words[2:], "cucb demo", Demo())
    return {spec.folder(root) for spec in specs_of(options)}


def folder_of(specs: list[RunSpec], gap: Missing, seed: int, root: Path) -> Path:
    (spec,) = [s for s in specs if (s.task, s.agent, s.seed) == (gap.task, gap.agent, seed)]
    return spec.folder(root)


def test_a_whole_demo_lacks_nothing(tmp_path: Path) -> None:
    write(list(specs_of(SHORT)), tmp_path)
    assert gaps_of(tmp_path) == []


@pytest.mark.parametrize("n_begun", [2, 8, 30])
def test_a_demo_that_was_stopped_lacks_the_rest(n_begun: int, tmp_path: Path) -> None:
    """Also what it had not begun, for which there is no folder."""
    options = replace(SHORT, sea_steps=2000, sea_seeds=2)  # the usual ones, since none has dived
    if n_begun < 20:
        options = replace(options, lock_rounds=Demo.lock_rounds)
    specs = list(specs_of(options))
    write(specs[:n_begun], tmp_path)
    gaps = gaps_of(tmp_path)
    lacking = {folder_of(specs, gap, seed, tmp_path) for gap in gaps for seed in gap.seeds}
    assert lacking == {spec.folder(tmp_path) for spec in specs[n_begun:]}
    for gap in gaps:
        assert lacking <= filled_by(gap, tmp_path)
    assert len({gap.commands for gap in gaps}) == 1


def test_runs_that_were_not_finished_are_gone_on_with(tmp_path: Path) -> None:
    specs = list(specs_of(SHORT))
    write([s for s in specs if (s.task, s.agent) != ("lock", "uniform")], tmp_path)
    write([s for s in specs if (s.task, s.agent) == ("lock", "uniform")], tmp_path, finished=False)
    (gap,) = gaps_of(tmp_path)
    assert (gap.task, gap.agent, gap.seeds) == ("lock", "uniform", (3, 4))
    assert {folder_of(specs, gap, seed, tmp_path) for seed in (3, 4)} <= filled_by(gap, tmp_path)
    words = "--seed 3 --seeds 2 --rounds 50 --lock-rounds 60 --sea-steps 200 --sea-seeds 1"
    assert gap.commands == (f"cucb demo {words} --out {tmp_path}",)


def test_two_demos_in_one_folder_are_told_apart(tmp_path: Path) -> None:
    """A gap of the one is not filled with the options of the other."""
    longer = replace(SHORT, lock_rounds=90, seed=0, seeds=4)
    old, new = list(specs_of(SHORT)), list(specs_of(longer))
    write([s for s in old if s.agent != "spr"], tmp_path)
    write([s for s in new if s.task == "lock" and s.agent != "uniform"], tmp_path)
    write([s for s in new if (s.task, s.agent, s.seed) == ("lock", "uniform", 0)], tmp_path)
    dive, gap = gaps_of(tmp_path)
    assert (gap.task, gap.seeds) == ("lock (rounds=90)", (1, 2, 3))
    wanted = [s for s in new if (s.task, s.agent) == ("lock", "uniform")]
    assert {spec.folder(tmp_path) for spec in wanted} <= filled_by(gap, tmp_path)
    # Of the lock that has more runs; seed 4 was begun elsewhere, and this gap does not need it.
    words = "--rounds 50 --lock-rounds 90 --sea-steps 200"
    assert gap.commands == (f"cucb demo --seeds 4 {words} --sea-seeds 4 --out {tmp_path}",)
    assert (dive.task, dive.agent) == ("DeepSea-8", "spr")
    assert words in dive.commands[0]


def test_other_suites_are_not_the_demos_business(tmp_path: Path) -> None:
    spec = next(specs_of(SHORT))
    write([replace(spec, suite="solve")], tmp_path)
    assert demo_plans(read_entries(tmp_path), tmp_path) == {}


def test_usual_options_are_left_out() -> None:
    assert command_of(Demo(), Path("a b")) == "cucb demo --out 'a b'"
    assert command_of(Demo(lock_game_rounds=7), Path("r")) == (
        "cucb demo --lock-game-rounds 7 --out r"
    )


def test_the_report_of_a_demo_that_was_stopped_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, out = tmp_path / "runs", tmp_path / "report.html"
    specs = list(specs_of(SHORT))
    write(specs[:12], runs)  # the low-rank MDP with two seeds, and nothing else
    assert main(["report", str(runs), "--out", str(out), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert summary["finished"] == 12
    assert summary["missing"] == 24 + 2 * 2  # all other problems, and the usual dives
    text = out.read_text(encoding="utf-8")
    assert f"cucb demo --seed 3 --seeds 2 --rounds 50 --out {runs}" in text
    assert "MDPs: scores" in text
    assert '<th scope="row">lock-game</th>' in text
