"""Tables from scores, and their Markdown, LaTeX and CSV forms."""

import csv
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from report.runs import write_atari, write_deep_run, write_demo, write_game_run, write_run

from contrastive_ucb.facts.rows import csv_of
from contrastive_ucb.report.atari import games_table
from contrastive_ucb.report.pages import report_files
from contrastive_ucb.report.scores import (
    KINDS,
    finished,
    load_scores,
    missing_runs,
    scores_by_agent,
)
from contrastive_ucb.report.tables import (
    NOTHING,
    looks,
    score_table,
    scores_csv,
    summary_table,
    table,
    task_table,
    tex,
    to_markdown,
)
from contrastive_ucb.stats.published import atari100k


def read(root: Path) -> pd.DataFrame:
    return load_scores(root).runs


def test_markup_in_latex_and_markdown() -> None:
    assert tex("5% of `a_b` ± **1**") == "5\\% of \\texttt{a\\_b} $\\pm$ \\textbf{1}"
    made = table(["a", "b", "c"], [["x|y", "**1.5**", "word"], ["z", "2", NOTHING]])
    assert to_markdown(made).splitlines() == [
        "| a | b | c |",
        "| --- | ---: | --- |",
        "| x\\|y | **1.5** | word |",
        f"| z | 2 | {NOTHING} |",
    ]
    assert looks(made) == ["", "", "words"]


def test_scores_have_means_intervals_and_missing_seeds(tmp_path: Path) -> None:
    for seed in range(3):
        write_deep_run(tmp_path, "spr", "DeepSea-8", seed, score=float(seed), episodes=20)
    write_deep_run(tmp_path, "der", "DeepSea-8", 0, score=5.0)
    runs = read(tmp_path)
    rows = score_table(runs, missing_runs(runs), KINDS["deep"]).to_numpy().tolist()
    assert rows[0][:4] + rows[0][5:] == ["DeepSea-8", "spr", "3", "1", "1", "20", NOTHING]
    assert rows[1][1:] == ["der", "1", "5", "one run", NOTHING, "100", "1, 2"]


@pytest.mark.parametrize(("kind", "best"), [("game", "1"), ("deep", "3")])
def test_the_best_agents_are_bold(kind: str, best: str, tmp_path: Path) -> None:
    for at, agent in enumerate(("spr", "der", "otr"), 1):
        if kind == "game":
            write_game_run(tmp_path, agent, "lock-game", 0, level=8.0 * at)
        else:
            write_deep_run(tmp_path, agent, "DeepSea-9", 0, score=float(at))
    [row] = task_table(read(tmp_path), KINDS[kind]).to_numpy()
    bold = [cell for cell in row if cell.startswith("**")]
    assert len(bold) == 2
    assert f"**{best} (1)**" in bold
    assert f"**{4 - int(best)} (1)**" not in bold


def test_deep_tasks_have_columns_for_the_stored_controls(tmp_path: Path) -> None:
    write_deep_run(tmp_path, "spr", "DeepSea-10", 0)
    made = task_table(read(tmp_path), KINDS["deep"])
    assert list(made)[2:] == ["random policy", "best constant action"]
    assert NOTHING not in made.to_numpy()


def test_solved_seeds(tmp_path: Path) -> None:
    """A lock that no seed opens has 0 solved seeds, not a dash."""
    for seed, at in enumerate((20, None, 30)):
        write_run(tmp_path, "contrastive-ucb", "lock", seed, solved_at=at)
        write_run(tmp_path, "uniform", "lock", seed, solved_at=None)
        write_run(tmp_path, "uniform", "lowrank", seed)
    runs = read(tmp_path)
    made = score_table(runs, missing_runs(runs), KINDS["mdp"])
    columns = ["agent", "solved seeds", "first at: median (range)"]
    assert made.loc[made["task"] == "lock", columns].to_numpy().tolist() == [
        ["contrastive-ucb", "2 of 3", "25 (20 to 30)"],
        ["uniform", "0 of 3", NOTHING],
    ]
    assert set(made.loc[made["task"] == "lowrank", "solved seeds"]) == {NOTHING}


def test_summaries_equal_a_hand_computation(tmp_path: Path) -> None:
    write_demo(tmp_path)
    write_run(tmp_path, "uniform", "lock", 9, finished=False)
    runs = read(tmp_path)
    lock = runs[runs["task"] == "lock"]
    made = summary_table(lock, {"final_gap": ("gap", ".4f"), "zeta": ("zeta", ".2f")})
    rows = {row[0]: row[1:] for row in made.to_numpy().tolist()}
    assert rows["contrastive-ucb"] == [
        "3 of 4 (missing: 9)",
        f"{1.1 / 64:.4f}",
        "0.02",
        "3 of 3",
        "21",
    ]
    assert rows["uniform"][-2:] == ["0 of 3", NOTHING]


def test_the_csv_has_finished_missing_and_damaged_runs(tmp_path: Path) -> None:
    write_atari(tmp_path, {"spr": 0.4}, ["Pong"])
    damaged = write_deep_run(tmp_path, "spr", "Pong", 3)
    (damaged / "DONE").write_text("[]")
    write_deep_run(tmp_path, "der", "Pong", 0, finished=False)
    odd = write_run(tmp_path, "uniform", "lock", 0)
    (odd / "spec.json").write_text("{}")
    runs = read(tmp_path)
    text = scores_csv(runs, missing_runs(runs))
    rows = list(csv.DictReader(text.splitlines()))
    status = [(row["agent"], row["seed"], row["status"]) for row in rows]
    assert status[:3] == [("spr", str(seed), "finished") for seed in range(3)]
    assert ("spr", "3", "damaged") in status
    assert ("uniform", "0", "damaged") in status
    assert status.count(("der", "0", "missing")) == 1
    assert float(rows[1]["score"]) == pytest.approx(0.5)
    assert float(rows[1]["raw"]) == finished(runs)["raw"].iloc[1]


def test_the_table_of_games_is_the_published_one_with_own_runs(tmp_path: Path) -> None:
    write_atari(tmp_path, {"spr": 3.0}, ["Pong", "Alien"])
    made = games_table(scores_by_agent(read(tmp_path)))
    rows = made.set_index("game", drop=False).to_dict("index")
    assert len(rows) == 27
    table = atari100k()
    column = "SPR, 100 runs"
    mean = table.methods["SPR"].scores[table.games.index("Pong")]
    assert rows["Pong"][column].strip("*").startswith(f"{mean:.4f}")
    own = "spr (run here), 3 runs"
    assert rows["Pong"][own] == "**3.1000** ± 0.10"
    assert rows["Boxing"][own] == rows["Average"][own] == NOTHING
    for row in rows.values():  # the best two published methods, or more if printed alike
        assert sum(cell.startswith("**") for cell in list(row.values())[:9]) >= 2


NAMES = (
    "=HYPERLINK(1)",
    "<img src=x onerror=alert(1)> [a](b)",
    "\\input{secret} ^~ $x$",
    "bad $\\frac{1$",
    "a\nb",
)
ENDINGS = (".html", ".md", ".tex")


def test_names_are_text_in_every_format(tmp_path: Path) -> None:
    """Regression: names of agents ran as formulas and HTML, and a bad formula stopped the page."""
    for at in range(len(NAMES)):
        for task in ("DeepSea-8", "DeepSea-9"):
            for seed in range(2):
                write_deep_run(tmp_path, f"agent{at}", task, seed, score=float(at + seed))
    loaded = load_scores(tmp_path)
    renamed = {f"agent{at}": name for at, name in enumerate(NAMES)} | {"DeepSea-9": "+task $_$"}
    runs = loaded.runs.copy()
    for column in ("agent_name", "task_name"):  # such as labels of a sweep
        runs[column] = runs[column].replace(renamed)
    loaded = replace(loaded, runs=runs)
    pages = {end: report_files(loaded, tmp_path / f"r{end}", "", None) for end in ENDINGS}
    html, markdown, latex = (pages[end][tmp_path / f"r{end}"] for end in ENDINGS)
    assert "<img" not in html
    assert "&lt;img" in html
    assert "<img" not in markdown
    assert "](b)" not in markdown
    assert "\\input{" not in latex
    assert r"\textbackslash{}input\{secret\} \textasciicircum{}\textasciitilde{} \$x\$" in latex
    assert "a b &" in latex
    rows = list(csv.reader(pages[".md"][tmp_path / "r.csv"].splitlines()))
    assert any("'=HYPERLINK(1)" in row for row in rows)
    assert not any(cell[:1] in "=+-@\t" for row in rows for cell in row if cell)
    assert "<svg" in html


@pytest.mark.parametrize("cell", ["-0.5", "+3", "-1e-05", "-.5", -0.5, "a=b", "", None])
def test_csv_numbers_are_unchanged(cell: object) -> None:
    assert csv_of(pd.DataFrame({"a": [cell]})) == pd.DataFrame({"a": [cell]}).to_csv(index=False)


@pytest.mark.parametrize("cell", ["=1+1", "-1+cmd|' /C calc'!A0", "+A1", "@SUM(1)", "\t=1"])
def test_csv_formulas_become_text(cell: str) -> None:
    (_, row) = csv.reader(csv_of(pd.DataFrame({"a": [cell]})).splitlines())
    assert row == [f"'{cell}"]
