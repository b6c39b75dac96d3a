"""The page of `cucb report`: numbers are the data, gaps are shown, nothing is loaded from afar."""

import csv
import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from report.runs import write_game_run, write_run
from report.score_runs import raw_score, write_atari, write_deep_run
from report.test_html import Outline

from contrastive_ucb.report.interval import mean_interval
from contrastive_ucb.report.missing import Missing, Planned, missing_runs, read_entries, read_folder
from contrastive_ucb.report.palette import palette
from contrastive_ucb.report.panels import BINS, POINTS, binned_series, curves_of, panels, short
from contrastive_ucb.report.read import read_groups
from contrastive_ucb.report.run_files import report_files
from contrastive_ucb.report.run_sections import score_table
from contrastive_ucb.report.scores import KINDS
from contrastive_ucb.report.solved_section import solved_section
from contrastive_ucb.report.style import to_svg

COMMAND = "cucb report runs --out report.html"


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Runs of every kind, one of them not finished."""
    root = tmp_path / "runs"
    write_atari(root, {"spr": 0.4, "spr-ucb": 0.6}, ["Pong", "Alien"])
    write_deep_run(root, "spr", "Pong", 3, finished=False)
    for agent in ("spr", "spr-ucb"):
        write_deep_run(root, agent, "DeepSea-8", 0, score=0.5)
    for seed in range(3):
        for task in ("lowrank", "lock"):
            write_run(root, "contrastive-ucb", task, seed, level=1 + seed / 10, suite="solve")
            write_run(root, "uniform", task, seed, level=2 + seed / 10, suite="solve")
        write_game_run(root, "contrastive-ulcb", "lock-game", seed, policies=False)
    return root


def written(root: Path) -> tuple[str, list[dict[str, str]]]:
    out = root.parent / "report.html"
    _, files = report_files(root, out, COMMAND)
    rows = csv.DictReader(io.StringIO(files[out.with_suffix(".csv")]))
    return files[out], list(rows)


def test_the_page_is_whole_and_loads_nothing(mixed: Path) -> None:
    text, _ = written(mixed)
    outline = Outline(text)
    assert not {"link", "img", "iframe"} & set(outline.seen)
    assert outline.seen.count("script") == 1
    for name, value in outline.attributes:
        if name in ("href", "src", "xlink:href"):
            assert value == "report.csv" or value.startswith("#")
    assert not re.search(r"@import|url\((?!#)", text)
    assert COMMAND in outline.text
    assert "prefers-color-scheme: dark" in text
    for what in ("curves", "scores", "aggregates over tasks", "probability of improvement"):
        assert f"MDPs: {what}" in text
        assert f"Atari 100K: {what}" in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_who_solved_it_is_told_of_tasks_that_can_be_solved(tmp_path: Path) -> None:
    for seed, at in enumerate((12, None, 30)):
        write_game_run(tmp_path, "omni-vi", "lock-game", seed, policies=False, solved_at=at)
    write_game_run(tmp_path, "omni-vi", "lowrank-game", 0, policies=False)
    entries = read_folder(tmp_path).entries
    section = solved_section(entries, KINDS["game"])
    assert section is not None
    assert section.table is not None
    played = "128 trajectories (128 to 128)"
    assert section.table.rows == (("lock-game", "omni-vi", "2 of 3", "21 (12 to 30)", played),)
    assert solved_section([e for e in entries if e.task != "lock-game"], KINDS["game"]) is None


def test_the_same_runs_give_the_same_bytes(mixed: Path) -> None:
    assert written(mixed) == written(mixed)


def test_raw_scores_are_in_the_csv(mixed: Path) -> None:
    _, rows = written(mixed)
    ours = [r for r in rows if (r["called"], r["task"], r["status"]) == ("spr", "Pong", "finished")]
    assert [r["seed"] for r in ours] == ["0", "1", "2"]
    for seed, row in enumerate(ours):
        assert float(row["raw"]) == raw_score("Pong", 0.4 + seed / 10)
        assert float(row["score"]) == pytest.approx(0.4 + seed / 10)
        assert row["measure"] == "human-normalised score"
    identity = read_groups(mixed)[0].runs[0].spec.identity()[:8]
    assert identity in {row["hash"] for row in rows}
    lacking = [(r["called"], r["task"], r["seed"]) for r in rows if r["status"] == "missing"]
    assert lacking == [("spr", "Pong", "3"), ("spr-ucb", "Pong", "3")]


def test_missing_runs_are_shown_with_their_commands(mixed: Path) -> None:
    text, _ = written(mixed)
    assert "Runs that are not finished: 2." in text
    for agent in ("spr", "spr-ucb"):
        words = f"cucb train Pong --algo {agent} --steps 100000 --threads 1"
        words += " --seed 3"
        assert f"{words} --out {mixed}" in Outline(text).text


def test_nothing_missing_is_said_too(tmp_path: Path) -> None:
    write_deep_run(tmp_path / "runs", "spr", "DeepSea-8", 0)
    text, rows = written(tmp_path / "runs")
    assert "No run is missing." in text
    assert len(rows) == 1
    assert "aggregates" not in text  # one task has none


def test_scores_have_means_and_intervals(mixed: Path) -> None:
    entries = [e for e in read_entries(mixed) if e.kind is KINDS["atari"]]
    table = score_table(entries, missing_runs(entries, mixed), KINDS["atari"])
    row = next(row for row in table.rows if row[:2] == ("Pong", "spr"))
    values = np.array([raw_score("Pong", 0.4 + seed / 10) for seed in range(3)])
    mean, low, high = (float(one[0]) for one in mean_interval(values[:, None]))
    assert row[2:] == (
        "3",
        f"{mean:.4g}",
        f"{low:.4g} to {high:.4g}",
        f"{values.std(ddof=1):.4g}",
        "0.5000",
        "100",
        "3",
    )


def test_the_table_of_games_stands_beside_the_published_one(mixed: Path) -> None:
    text, _ = written(mixed)
    assert "Beside the published scores" in text
    assert re.search(r'class="here edge" data-value="0\.7">', text)  # spr-ucb on Pong
    assert "0.6938" in text


def test_one_seed_and_one_agent_are_enough(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", "uniform", "lock", 0, suite="solve")
    text, _ = written(tmp_path / "runs")
    assert "1 finished run of 1 agent on 1 task; missing: none." in text
    assert "one run" in text


def test_a_folder_without_a_finished_run_lists_what_is_missing(tmp_path: Path) -> None:
    write_deep_run(tmp_path / "runs", "spr", "Pong", 0, finished=False)
    text, rows = written(tmp_path / "runs")
    assert "0 finished runs" in text
    assert [row["status"] for row in rows] == ["missing"]


def test_episodes_are_averaged_in_stretches(tmp_path: Path) -> None:
    """Episodes end at other steps in every run, and yet there is one curve."""
    write_deep_run(tmp_path, "spr", "Pong", 0, returns=[(1, 1.0), (2, 3.0), (80, 5.0)])
    write_deep_run(tmp_path, "spr", "Pong", 1, returns=[(3, 7.0), (41, 9.0)])
    (group,) = read_groups(tmp_path)
    steps, values = binned_series(group, "charts/episodic_return")
    assert steps[-1] == 80  # stretches of two steps; the second run begins in the second
    assert len(steps) == BINS - 1
    assert values[0].tolist() == [2.0] * (BINS - 2) + [5.0]
    assert values[1, 0] == 7.0
    assert values[1, -1] == 9.0
    empty, _ = binned_series(group, "nothing")
    assert empty.size == 0


def test_panels_show_the_means(mixed: Path) -> None:
    entries = [e for e in read_entries(mixed) if e.kind is KINDS["mdp"]]
    curves = curves_of(entries, "average_regret")
    assert [*curves] == ["lock", "lowrank"]
    styles = palette(["contrastive-ucb", "uniform"])
    figure = panels(curves, styles, xlabel="rounds", ylabel="average regret", log=True)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["lock", "lowrank"]
    for axes, (task, lines) in zip(figure.axes, curves.items(), strict=True):
        drawn = {line.get_label(): line for line in axes.lines}
        assert [*drawn] == [*lines], task
        for agent, (steps, values) in lines.items():
            np.testing.assert_allclose(drawn[agent].get_xdata(), steps)
            np.testing.assert_allclose(drawn[agent].get_ydata(), values.mean(0))
    assert to_svg(figure) == to_svg(figure)


def test_bonus_curves_are_of_those_with_a_bonus(mixed: Path) -> None:
    entries = [e for e in read_entries(mixed) if e.kind is KINDS["atari"]]
    curves = curves_of(entries, "bonus/mean")
    assert {agent for one in curves.values() for agent in one} == {"spr-ucb"}


def test_numbers_of_axes_are_short() -> None:
    assert [short(value) for value in (0, 0.5, 999, 1500, 2.5e6, -3000)] == [
        "0",
        "0.5",
        "999",
        "1.5k",
        "2.5M",
        "-3k",
    ]


def test_one_measurement_is_a_dot(tmp_path: Path) -> None:
    """A bonus that was measured once was an empty panel."""
    write_deep_run(tmp_path, "spr-ucb", "DeepSea-8", 0, returns=[(100, 1.0)])
    curves = curves_of(read_entries(tmp_path), "bonus/mean")
    figure = panels(curves, palette(["spr-ucb"]), xlabel="steps", ylabel="mean bonus")
    (line,) = figure.axes[0].lines
    assert line.get_xdata().tolist() == [100]
    assert line.get_marker() == "o"


def test_long_names_of_tasks_are_broken_or_cut(mixed: Path) -> None:
    """The name of a task on the right once left the drawing."""
    (entry,) = [e for e in read_entries(mixed) if (e.task, e.agent) == ("lock", "uniform")]
    ((steps, values),) = [one["uniform"] for one in curves_of([entry], "gap").values()]
    names = ["lock", "DeepSea-8 (steps=100000)", "lowrank (n_states=10, horizon=4, rank=3)"]
    curves = {name: {"uniform": (steps, values)} for name in names}
    figure = panels(curves, palette(["uniform"]), xlabel="rounds", ylabel="gap")
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles[:2] == ["lock", "DeepSea-8\n(steps=100000)"]
    assert titles[2].startswith("lowrank\n")
    assert titles[2].endswith("…")
    figure.draw_without_rendering()
    inches = figure.get_size_inches() * figure.dpi
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    assert all(box.x1 <= inches[0] and box.y1 <= inches[1] for box in boxes)
    assert not boxes[0].overlaps(boxes[2])


def test_plans_beside_those_of_sweeps_have_their_own_command(tmp_path: Path) -> None:
    write_run(tmp_path, "uniform", "lock", 0, suite="odd")
    write_run(tmp_path, "uniform", "lock", 7, suite="odd", finished=False)  # nobody planned it
    (only,) = read_entries(tmp_path)
    spec = only.group.runs[0].spec
    other = replace(spec, agent="no-bonus", seed=1)
    plans = {
        only.group.folder: Planned("uniform", spec, {0, 4}, None, "cucb odd --again"),
        other.folder(tmp_path).parent: Planned("no-bonus", other, {1}, None),
    }
    (gap,) = missing_runs([only], tmp_path)
    assert gap == Missing("uniform", "lock", (7,), (f"cucb odd --out {tmp_path}",), spec)
    first, second = read_folder(tmp_path, plans_of=lambda *_: plans).missing
    assert first == Missing("no-bonus", "lock", (1,), (f"cucb odd --out {tmp_path}",), other)
    assert second == Missing("uniform", "lock", (4, 7), ("cucb odd --again",), spec)


def test_the_name_of_the_axis_stands_beside_the_panels(mixed: Path) -> None:
    """Beside many agents it once stood on their names."""
    entries = [e for e in read_entries(mixed) if e.kind is KINDS["mdp"]]
    ((steps, values), *_) = curves_of(entries, "gap")["lock"].values()
    agents = [f"agent {n}" for n in range(11)]
    curves = {task: dict.fromkeys(agents, (steps, values)) for task in ("lock", "lowrank")}
    figure = panels(curves, palette(agents), xlabel="rounds", ylabel="a name of some length")
    (label,) = [text for text in figure.texts if text.get_text() == "a name of some length"]
    (legend,) = figure.legends
    figure.draw_without_rendering()
    assert not label.get_window_extent().overlaps(legend.get_window_extent())


@pytest.mark.parametrize("n_points", [1, POINTS - 1, POINTS, POINTS + 1, 7 * POINTS + 3])
def test_long_curves_are_thinned_but_keep_their_ends(n_points: int, tmp_path: Path) -> None:
    returns = [(3 * at + 1, 0.0) for at in range(n_points)]
    write_deep_run(tmp_path, "spr-ucb", "Pong", 0, returns=returns)
    steps, values = curves_of(read_entries(tmp_path), "bonus/mean")["Pong"]["spr-ucb"]
    assert len(steps) == min(n_points, POINTS)
    assert (steps[0], steps[-1]) == (1, returns[-1][0])
    assert (np.diff(steps) > 0).all()
    np.testing.assert_allclose(values[0], 10 / steps)  # each point is one that was measured
