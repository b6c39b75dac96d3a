"""The results table of the README comes from files, and the README has the newest one."""

import json
from pathlib import Path

import pytest

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.report.markers import between
from contrastive_ucb.report.readme import main, results_text
from contrastive_ucb.report.tables import NOTHING

BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"
ROOT = Path(__file__).parents[2]


def record(folder: Path, name: str, command: str, runs: list[dict]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    mean = {key: runs[0][key] for key in runs[0] if key != "seed"}
    summary = {**mean, "runs": runs}
    (folder / f"{name}.json").write_text(json.dumps({"command": command, "summary": summary}))


def run(seed: int, env: str, **more: object) -> dict:
    figures = {"average_regret": 0.25, "final_gap": 0.125, "zeta": 0.5, "rounds": 800}
    return {"seed": seed, "env": env, "algo": "contrastive-ucb", **figures, **more}


def game(seed: int, rounds: int, env: str = "lowrank-game", **more: object) -> dict:
    figures = {"average_gap": 0.25, "exploitability": 0.03, "certificate": 0.75}
    of_run = {"seed": seed, "env": env, "algo": "contrastive-ulcb", "rounds": rounds}
    return {**of_run, **figures, "bracket_fraction": 1.0, **more}


def rows_of(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def test_tables_say_what_the_files_say(tmp_path: Path) -> None:
    solved = [run(0, "lock", solved_at=100), run(1, "lock", solved_at=None)]
    record(tmp_path / "mdp", "a", "cucb solve lock --negatives exact", solved)
    record(tmp_path / "mdp", "b", "cucb solve lowrank", [run(0, "lowrank"), run(1, "lowrank")])
    rows = rows_of(results_text(tmp_path))
    lock = ["lock, exact negatives", "contrastive-ucb", "1 of 2", "100 (100 to 100)", "800"]
    assert lock in rows
    assert ["sampled negatives", "contrastive-ucb", "0.2500", "0.1250", "0.5000"] in rows


def test_games_without_results_are_left_out(tmp_path: Path) -> None:
    record(tmp_path / "mdp", "b", "cucb solve lowrank", [run(0, "lowrank"), run(1, "lowrank")])
    without = results_text(tmp_path)
    assert "Zero-sum" not in without
    (tmp_path / "games").mkdir()
    assert results_text(tmp_path) == without


def test_long_and_short_runs_of_a_game_meet_in_one_row(tmp_path: Path) -> None:
    folder = tmp_path / "games"
    command = "cucb solve lowrank-game --n-actions 2 --rounds {} --seeds 2 --algo contrastive-ulcb"
    long = [game(0, 5000), game(1, 5000, bracket_fraction=0.5)]
    record(folder, "long", command.format(5000), long)
    record(folder, "short", command.format(500), [game(0, 500, average_gap=0.5)] * 2)
    exact = f"{command.format(5000)} --negatives exact"
    record(folder, "exact", exact, [game(0, 5000, average_gap=0.1, certificate=0.0)] * 2)
    text = results_text(tmp_path)
    rows = rows_of(text[text.index("Zero-sum games") :])
    assert rows[0][3:6] == ["average gap, K=500", "average gap, K=5,000", "ratio"]
    held = "7,500 of 10,000 (1 of 2)"
    sampled = ["0.5000", "0.2500", "0.50", "0.0300", "0.7500", held]
    assert rows[2] == ["2x2", "sampled negatives", "contrastive-ulcb", *sampled]
    unknown = [NOTHING, "0.1000", NOTHING, "0.0300", NOTHING, "10,000 of 10,000 (2 of 2)"]
    assert rows[3] == ["2x2", "exact negatives", "contrastive-ulcb", *unknown]
    assert len(rows) == 4
    assert "the ratio 0.32" in text


def test_games_are_sorted_by_size_and_agent(tmp_path: Path) -> None:
    for size in (3, 2):
        for algo in ("uniform", "omni-vi", "contrastive-ulcb"):
            command = f"cucb solve lowrank-game --n-actions {size} --rounds 9 --algo {algo}"
            record(tmp_path / "games", f"{size}-{algo}", command, [game(0, 9, algo=algo)] * 2)
    text = results_text(tmp_path)
    rows = rows_of(text[text.index("Zero-sum games") :])[2:]
    agents = ["contrastive-ulcb", "omni-vi", "uniform"]
    assert [(row[0], row[2]) for row in rows] == [(n, a) for n in ("2x2", "3x3") for a in agents]
    assert [row[1] for row in rows[:2]] == ["sampled negatives", "all transitions"]
    assert "1/sqrt(K)" not in text  # one number of rounds has no ratio


def test_the_vault_says_who_solved_it_and_when(tmp_path: Path) -> None:
    runs = [game(n, 1500, env="lock-game", solved_at=at) for n, at in enumerate((300, 100, None))]
    record(tmp_path / "games", "v", "cucb solve lock-game --rounds 1500", runs)
    text = results_text(tmp_path)
    row = ["lock-game, sampled negatives", "contrastive-ulcb", "2 of 3", "200 (100 to 300)"]
    assert [*row, "1,500"] in rows_of(text)
    assert "a gap of at most 0.05" in text
    assert "Zero-sum games" not in text


@pytest.mark.parametrize(
    ("figures", "told"),
    [
        ({"speedup_3x3": 812.4, "speedup_5x5": 90.0, "max_gap_3x3": 2e-9}, "812x (3x3), 90x (5x5)"),
        ({"speedup_10x10": 7.6, "speedup_lp_10x10": 3.0}, "faster by 8x (10x10)."),
        ({"other": 1.0}, None),
    ],
)
def test_costs_of_games_are_told_as_far_as_measured(tmp_path: Path, figures, told) -> None:
    (tmp_path / "games").mkdir()
    content = {"command": "make bench NAME=games", "summary": figures}
    (tmp_path / "games" / "bench-games.json").write_text(json.dumps(content))
    text = results_text(tmp_path)
    assert told in text if told else "Costs of equilibria" not in text
    assert ("nobody gains more than 2e-09" in text) == ("max_gap_3x3" in figures)


def test_only_what_stands_between_the_markers_changes() -> None:
    text = f"before {BEGIN}old{END} after"
    assert between(text, "results", "new") == f"before {BEGIN}\nnew\n{END} after"
    with pytest.raises(UserError, match="markers"):
        between("no markers", "results", "new")


def test_readme_is_generated_from_the_results(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    assert between(readme, "results", results_text(ROOT / "results")) == readme
    (tmp_path / "README.md").write_text(f"{BEGIN}{END}")
    record(tmp_path / "results" / "mdp", "b", "cucb solve lowrank", [run(0, "lowrank")] * 2)
    main(tmp_path)
    assert "0.2500" in (tmp_path / "README.md").read_text()
