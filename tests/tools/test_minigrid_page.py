"""The page of MiniGrid, from records like those of `benchmarks/minigrid_results.py`."""

import pytest

from tools import render  # noqa: F401  (makes the modules of tools importable)

from minigrid_page import best_table, minigrid_groups, minigrid_page, success_curves  # isort: skip

TASK = "MiniGrid-MultiRoom-N4-S5-v1"


def record(label, rates, env=TASK):
    runs = [
        {
            "env": env,
            "seed": seed,
            "steps": 2000,
            "success_of_last_100": rate,
            "curve": [None, 0.0, rate / 2, rate],
        }
        for seed, rate in enumerate(rates)
    ]
    return {"label": label, "command": f"cucb train {env}", "runs": runs}


RECORDS = {
    "minigrid/a": record("contrastive", [0.9, 0.95, 1.0, 0.9, 0.9]),
    "minigrid/b": record("rnd", [0.0, 0.1, 0.0, 0.0, 0.9]),
    "minigrid/c": record("counts", [0.9, 0.9, 1.0, 0.95, 0.9]),
    "minigrid/d": record("rnd", [0.5] * 5, "contrastive_ucb/KeyCorridorS3R1-Distractors-v0"),
}


def cells(table, row):
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    (found,) = [line for line in lines[2:] if line[: len(row)] == row]
    return dict(zip(lines[0], found, strict=True))


def test_tables_have_the_interquartile_means_and_differences():
    page = minigrid_page(RECORDS)
    expected = (0.9 + 0.9 + 0.95) / 3  # without the smallest and the largest
    own = cells(page["successes"], ["contrastive"])
    assert own["MultiRoom-N4-S5"].startswith(f"{expected:.2f} (0.90 to ")
    assert cells(page["successes"], ["rnd"])["KeyCorridorS3R1-Distractors"].startswith("0.50 (0.50")
    other = cells(page["details"], ["MultiRoom-N4-S5", "rnd"])
    assert other["seeds above 0.8"] == "1 of 5"
    assert other["IQM of contrastive minus this"].startswith(f"{expected - 0.1 / 3:.2f} (")
    assert page["n_seeds"] == 5


def test_the_best_bonus_and_its_equals():
    table = best_table(minigrid_groups(RECORDS))
    row = cells(table, ["MultiRoom-N4-S5"])
    assert row["largest IQM"].startswith(("contrastive", "counts"))
    assert row["not distinguishable from it"] in ("contrastive", "counts")


def test_tuned_settings_have_the_largest_mean_success():
    tried = [
        {
            "bonus": "rnd",
            "scale": scale,
            "entropy": 0.01,
            "mean_success": mean,
            "final_success": end,
        }
        for scale, mean, end in ((0.1, 0.2, 1.0), (0.3, 0.4, 0.9), (1.0, 0.4, 0.8))
    ]
    row = cells(minigrid_page({**RECORDS, "minigrid/tuning": {"tried": tried}})["tuning"], ["rnd"])
    assert (row["settings tried"], row["best scale"]) == ("3", "0.3")
    assert row["mean success rate over the run"] == "0.20 to 0.40"


def test_costs_are_shown_relative_to_ppo():
    costs = {"ppo_ms_per_1000_steps": 200.0, "rnd_ms_per_1000_steps": 60.0, "rnd_over_ppo": 0.3}
    table = minigrid_page({**RECORDS, "minigrid/bench-bonus": {"summary": costs}})["costs"]
    assert cells(table, ["rnd"])["relative to PPO"] == "0.30"
    assert cells(table, ["PPO itself"])["ms per 1,000 steps"] == "200"


def test_the_figure_has_a_panel_per_task_and_a_line_per_bonus():
    figure = success_curves(minigrid_groups(RECORDS))
    titles = [
        axes.get_title("left").replace("\n", " ") for axes in figure.axes if axes.get_title("left")
    ]
    assert len(titles) == 2
    first = next(axes for axes in figure.axes if "MultiRoom" in axes.get_title("left"))
    ends = sorted(line.get_ydata()[-1] for line in first.lines if len(line.get_ydata()))
    assert ends == pytest.approx([0.2, 0.93, 0.93])
    assert first.lines[0].get_xdata().tolist() == [1000, 1500, 2000]
