"""The results table of the README comes from files, and the README has the newest one."""

import json
from pathlib import Path

import pytest

from contrastive_ucb.errors import UserError
from contrastive_ucb.report.readme import BEGIN, END, main, results_text, with_results

ROOT = Path(__file__).parents[2]


def record(folder: Path, name: str, command: str, runs: list[dict]) -> None:
    mean = {key: runs[0][key] for key in runs[0] if key != "seed"}
    summary = {**mean, "runs": runs}
    (folder / f"{name}.json").write_text(json.dumps({"command": command, "summary": summary}))


def run(seed: int, env: str, **more: object) -> dict:
    figures = {"average_regret": 0.25, "final_gap": 0.125, "zeta": 0.5, "rounds": 800}
    return {"seed": seed, "env": env, "algo": "contrastive-ucb", **figures, **more}


def test_tables_say_what_the_files_say(tmp_path: Path) -> None:
    solved = [run(0, "lock", solved_at=100), run(1, "lock", solved_at=None)]
    record(tmp_path, "a", "cucb solve lock --negatives exact", solved)
    record(tmp_path, "b", "cucb solve lowrank", [run(0, "lowrank"), run(1, "lowrank")])
    text = results_text(tmp_path)
    rows = [
        [cell.strip() for cell in row.split("|")[1:-1]] for row in text.splitlines() if "|" in row
    ]
    lock = ["lock, exact negatives", "contrastive-ucb", "1 of 2", "100 (100 to 100)", "800"]
    assert lock in rows
    assert ["sampled negatives", "contrastive-ucb", "0.2500", "0.1250", "0.5000"] in rows


def test_only_what_stands_between_the_markers_changes() -> None:
    text = f"before {BEGIN}old{END} after"
    assert with_results(text, "new") == f"before {BEGIN}\nnew\n{END} after"
    with pytest.raises(UserError, match="markers"):
        with_results("no markers", "new")


def test_readme_is_generated_from_the_results(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    assert with_results(readme, results_text(ROOT / "results" / "mdp")) == readme
    (tmp_path / "README.md").write_text(f"{BEGIN}{END}")
    (tmp_path / "results" / "mdp").mkdir(parents=True)
    record(tmp_path / "results" / "mdp", "b", "cucb solve lowrank", [run(0, "lowrank")] * 2)
    main(tmp_path)
    assert "0.2500" in (tmp_path / "README.md").read_text()
