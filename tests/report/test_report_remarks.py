"""What a page says beside its numbers: how few runs, how many episodes, who is left out."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from experiments.sweep_runs import solve_table
from report.runs import write_game_run, write_run
from report.score_runs import write_atari, write_deep_run

from contrastive_ucb.cli import main
from contrastive_ucb.core.versions import versions
from contrastive_ucb.experiments.grid import grid_of
from contrastive_ucb.experiments.store import VERSIONS, RunFolder
from contrastive_ucb.report import aggregates as agg
from contrastive_ucb.report.missing import missing_table, read_entries, read_folder
from contrastive_ucb.report.palette import palette
from contrastive_ucb.report.panels import curves_of, panels
from contrastive_ucb.report.run_files import report_files
from contrastive_ucb.report.run_page import made_with
from contrastive_ucb.report.scores import KINDS
from contrastive_ucb.report.tables import NOTHING
from contrastive_ucb.report.task_table import task_section, task_table
from contrastive_ucb.stats.aggregate import Scores
from contrastive_ucb.stats.control_scores import control_scores


def page_of(root: Path, ending: str = "html") -> str:
    out = root.parent / f"report.{ending}"
    return report_files(root, out, "cucb report runs")[1][out]


@pytest.mark.parametrize(("seeds", "interval", "few"), [(2, 0, 1), (3, 1, 1), (5, 1, 0)])
def test_few_runs_have_no_interval_or_a_remark(
    seeds: int, interval: int, few: int, tmp_path: Path
) -> None:
    """Two runs that agreed once had an interval of width zero."""
    write_atari(tmp_path / "runs", {"spr": 0.4, "spr-ucb": 0.6}, ["Pong", "Alien"], seeds=seeds)
    text = page_of(tmp_path / "runs")
    mean = f"{0.4 + (seeds - 1) / 20:.3f}"
    assert (f"<td>{mean} [" in text) == interval
    assert ("two runs</td>" in text) != interval
    assert text.count("Few runs: some groups have") == few * 3  # scores, aggregates, improvement
    assert "2,000 resamples); above 1/2" in text


def test_no_interval_below_three_runs() -> None:
    runs = (np.array([0.0, 1.0]), np.array([0.0, 1.0, 2.0]))
    two, three = (Scores(name, ("t",), (own,)) for name, own in zip("ab", runs, strict=True))
    rows = agg.run_rows([two, three])
    assert [row.values["mean"].low is None for row in rows] == [True, False]
    [chance] = agg.comparisons([two, three])
    assert chance.chance.low is None
    assert agg.few_text([7, 5]) == ""


@pytest.mark.parametrize("episodes", [20, 100])
def test_the_episodes_of_evaluations_are_shown(episodes: int, tmp_path: Path) -> None:
    write_atari(tmp_path / "runs", {"spr": 0.4}, ["Pong"], episodes=episodes)
    text = page_of(tmp_path / "runs")
    assert f"<td>{episodes}</td>" in text
    assert ("other numbers of episodes here: spr on Pong (20)." in text) == (episodes == 20)


def test_published_numbers_have_their_sources_and_the_remark(tmp_path: Path) -> None:
    write_atari(tmp_path / "runs", {"spr": 0.4}, ["Pong"])
    text = page_of(tmp_path / "runs")
    assert "released with Agarwal et al. (2021)" in text
    assert "The gain of SPR-UCB over SPR, read fairly" in text


def test_games_say_that_less_is_better_and_who_is_left_out(tmp_path: Path) -> None:
    for agent in ("contrastive-ulcb", "uniform"):
        for task in ("lock-game", "lowrank-game"):
            write_game_run(tmp_path / "runs", agent, task, 0, policies=False)
    write_game_run(tmp_path / "runs", "no-bonus", "lock-game", 0, policies=False)
    section = page_of(tmp_path / "runs").split("aggregates over tasks</h2>")[1]
    section = section.split("</section>")[0]
    assert "Less is better." in section
    assert "fewer tasks: no-bonus." in section


def test_of_many_methods_only_the_first_is_compared_and_that_is_said(tmp_path: Path) -> None:
    for at in range(6):
        write_deep_run(tmp_path / "runs", f"agent-{at}", "DeepSea-8", 0, score=at)
    text = page_of(tmp_path / "runs")
    assert "Of so many methods only agent-0 is compared with each other one." in text


def test_groups_that_are_not_begun_have_names_of_their_own(tmp_path: Path) -> None:
    """Four groups of one task once were four equal rows, and blank in the CSV."""
    parts = [{"rounds": rounds, "settings": {"horizon": h}} for rounds in (3, 4) for h in (2, 3)]
    table = {**solve_table(algo="uniform"), "settings": {}, "part": parts}
    grid = grid_of(table, "g")
    grid.remember(tmp_path / "runs")
    with RunFolder(grid.jobs[0].spec(), tmp_path / "runs") as run:
        run.metrics.touch()
        run.finish({"average_regret": 0.5, "optimal_value": 1.0})
    gaps = read_folder(tmp_path / "runs").missing
    assert [row[0] for row in missing_table(gaps).rows] == [
        f"lowrank (horizon={h}, rounds={rounds})" for h in (2, 3) for rounds in (3, 4)
    ]
    out = tmp_path / "report.html"
    _, files = report_files(tmp_path / "runs", out, "cucb report runs")
    rows = list(csv.DictReader(io.StringIO(files[tmp_path / "report.csv"])))
    wanted = {(job.spec().identity()[:8], str(job.seed)) for job in grid.jobs}
    assert {(row["hash"], row["seed"]) for row in rows} == wanted
    assert {(row["suite"], row["agent"]) for row in rows} == {("solve", "uniform")}
    commands = {job.command(tmp_path / "runs") for job in grid.jobs[1:2]}
    assert commands <= {command for gap in gaps for command in gap.commands}


def test_tasks_and_agents_are_one_table(tmp_path: Path) -> None:
    scores = {"spr": (1.0, 2.0), "der": (3.0, 5.0), "otr": (2.0, 2.5), "drq": (9.0,)}
    for agent, own in scores.items():
        for seed, score in enumerate(own):
            write_deep_run(tmp_path, agent, "DeepSea-8", seed, score=score)
    write_deep_run(tmp_path, "spr", "DeepSea-10", 0, score=7.0)
    entries = read_entries(tmp_path)
    table = task_table(entries, KINDS["deep"])
    first, second = (dict(zip(table.header, row, strict=True)) for row in table.rows)
    assert first["spr"] == "1.5 ± 0.7071 (2)"
    assert first["drq"] == "9 (1)"
    assert (second["spr"], second["der"]) == ("7 (1)", NOTHING)
    assert {table.header[column] for row, column in table.bold if row == 0} == {"drq", "der"}
    assert not {column for row, column in table.bold if row == 1}  # nothing to compare with
    markdown, latex = table.to_markdown(), table.to_latex()
    assert "| **9 (1)** |" in markdown
    assert "\\textbf{4 $\\pm$ 1.414 (2)}" in latex
    only = [entry for entry in entries if (entry.agent, entry.task) == ("spr", "DeepSea-8")]
    assert task_section(only, KINDS["deep"]) is None


def test_tasks_with_stored_controls_have_their_columns(tmp_path: Path) -> None:
    for task, score in (("DeepSea-10", 0.5), ("DeepSea-8", 1.0)):
        write_deep_run(tmp_path, "spr", task, 0, score=score)
    entries = read_entries(tmp_path)
    table = task_table(entries, KINDS["deep"])
    assert table.header == ("task", "spr", "random policy", "best constant action")
    small, large = table.rows
    assert small == ("DeepSea-8", "1 (1)", NOTHING, NOTHING)
    stored = control_scores()["DeepSea-10"]["random policy"]
    assert large[2] == f"{stored.mean():.4g} ± {stored.std(ddof=1):.4g} (10)"
    assert not table.bold  # controls do not compete with the agents
    section = task_section(entries, KINDS["deep"])
    assert section is not None
    assert "controls" in section.paragraphs[-1]


def test_curves_have_horizontal_lines_for_controls(tmp_path: Path) -> None:
    write_deep_run(tmp_path, "spr", "DeepSea-10", 0)
    curves = curves_of(read_entries(tmp_path), "charts/episodic_return")
    levels = {"DeepSea-10": {"random policy": 0.25}}
    styles = palette(["spr"])
    (axes,) = panels(curves, styles, xlabel="", ylabel="", levels=levels).axes
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert [*lines] == ["spr", "random policy"]
    assert {*lines["random policy"].get_ydata()} == {0.25}


def test_less_is_better_in_the_table_of_games(tmp_path: Path) -> None:
    for agent, level in (("contrastive-ulcb", 1.0), ("uniform", 2.0)):
        write_game_run(tmp_path, agent, "lock-game", 0, level=level, policies=False)
    table = task_table(read_entries(tmp_path), KINDS["game"])
    assert [table.header[column] for _, column in table.bold] == ["contrastive-ulcb"]


def test_tasks_on_one_scale_have_the_bars_of_their_mean(tmp_path: Path) -> None:
    for task in ("lock", "lowrank"):
        write_run(tmp_path / "runs", "uniform", task, 0)
    text = page_of(tmp_path / "runs")
    assert "The mean part of V* earned" in text
    assert "MDPs: tasks and agents" not in text  # of one agent


@pytest.mark.parametrize("ending", ["md", "tex"])
def test_the_tables_are_there_as_text(ending: str, tmp_path: Path) -> None:
    write_atari(tmp_path / "runs", {"spr": 0.4, "spr-ucb": 0.6}, ["Pong", "Alien"])
    write_deep_run(tmp_path / "runs", "spr", "Pong", 3, finished=False)
    for agent in ("contrastive-ucb", "uniform"):
        write_run(tmp_path / "runs", agent, "lock", 0, suite="solve")
    out = tmp_path / f"a.{ending}"
    assert main(["report", str(tmp_path / "runs"), "--out", str(out)]) == 0
    text = out.read_text()
    assert out.with_suffix(".csv").exists()
    for what in ("Atari 100K: scores", "MDPs: tasks and agents", "Missing runs", "SPR-UCB"):
        assert what in text
    assert "cucb train Pong --algo spr --steps 100000 --threads 1 --seed 3" in text
    assert "<" not in text.replace("p < 0.05", "")
    assert text == page_of(tmp_path / "runs", ending).replace(
        "cucb report runs", f"cucb report {tmp_path / 'runs'} --out {out}"
    )
    if ending == "tex":
        words = [line for line in text.splitlines() if line and not line.startswith("%")]
        assert all("&" in line or line.startswith(("\\", " ", "runs a game")) for line in words)
        assert text.count("\\begin{tabular}") == text.count("\\end{tabular}")


def test_versions_are_those_of_the_runs(tmp_path: Path) -> None:
    first, second = (write_deep_run(tmp_path, "spr", "DeepSea-8", seed) for seed in range(2))
    here = ", ".join(f"{name} {one}" for name, one in sorted(versions().items()))
    assert made_with(read_entries(tmp_path)) == f"Made with {here}."
    (first / VERSIONS).write_text('{"torch": "2.0", "contrastive-ucb": "0.1.0"}')
    (second / VERSIONS).unlink()  # of a run that was made before there was such a file
    assert made_with(read_entries(tmp_path)) == (
        "Made with contrastive-ucb 0.1.0, torch 2.0; not recorded by 1 run."
    )
    (first / VERSIONS).write_text("[")
    assert made_with(read_entries(tmp_path)).endswith("that made the runs: not recorded.")
