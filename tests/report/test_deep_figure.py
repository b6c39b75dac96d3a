"""The deep tier's learning curves: gaps filled, seeds kept apart, tasks in their figures."""

from pathlib import Path
from typing import Any

import numpy as np

from contrastive_ucb.report.deep_figure import curves_figure, kept_curves, kept_levels
from contrastive_ucb.report.deep_page import features_table, main
from contrastive_ucb.report.tables import NOTHING

FOLDERS = ("deep", "minatar")
SEA, GAMES, ATARI = Path("deep/deepsea.svg"), Path("minatar/curves.svg"), Path("deep/atari.svg")


def record(
    env: str, *curves: list[float | None], steps: int = 400, algo: str = "spr-ucb"
) -> dict[str, Any]:
    own = {"algo": algo, "env": env, "steps": steps, "bonus": "none" if algo == "spr" else "paper"}
    return {"runs": [{**own, "seed": seed, "curve": list(one)} for seed, one in enumerate(curves)]}


def test_a_stretch_without_an_episode_keeps_the_value_before_it() -> None:
    found = kept_curves([record("DeepSea-10", [None, 1.0, None, 2.0], [3.0, 4.0, 5.0, None])])
    steps, values = found[SEA]["DeepSea-10"]["spr-ucb, paper"]
    np.testing.assert_array_equal(steps, [200, 300, 400])  # in the first, a seed has none
    np.testing.assert_array_equal(values, [[1, 1, 2], [4, 5, 5]])


def test_runs_without_a_curve_are_left_out() -> None:
    one = record("DeepSea-10", [1.0, 2.0], [3.0, 4.0])
    del one["runs"][0]["curve"]
    _, values = kept_curves([one])[SEA]["DeepSea-10"]["spr-ucb, paper"]
    np.testing.assert_array_equal(values, [[3, 4]])


def test_seas_games_and_atari_have_figures_of_their_own() -> None:
    curve: list[float | None] = [0.0, 1.0]
    records = [
        record("RoadRunner", curve),
        record("DeepSea-14", curve),
        record("DeepSea-9", curve),
        record("DeepSea-9", curve, algo="spr"),
        record("MinAtar/Breakout-v1", curve, steps=50_000),
        record("MinAtar/Breakout-v1", curve),
        record("MinAtar/Breakout-v1", curve, algo="der"),  # the README's table has the others
        {"summary": {"ms_update_spr": 1.0}},
        {"runs": [{"algo": "random", "env": "MinAtar/Breakout-v1", "steps": 0}]},
    ]
    found = kept_curves(records)
    assert list(found[SEA]) == ["DeepSea-9", "DeepSea-14"]
    assert list(found[SEA]["DeepSea-9"]) == ["spr", "spr-ucb, paper"]
    assert list(found[GAMES]) == ["Breakout, 400", "Breakout, 50,000"]
    assert list(found[ATARI]) == ["RoadRunner"]


def test_every_line_is_the_mean_over_its_seeds() -> None:
    found = kept_curves([record("RoadRunner", [0.0, 1.0], [2.0, 5.0])])
    (axes,) = curves_figure(found[ATARI]).axes
    (line,) = axes.get_lines()
    np.testing.assert_array_equal(line.get_ydata(), [1, 3])
    np.testing.assert_array_equal(line.get_xdata(), [200, 400])


def test_controls_are_horizontal_lines_with_a_name_in_the_legend() -> None:
    game = "MinAtar/Breakout-v1"
    own = {"env": game, "steps": 0, "bonus": "none"}
    control = {"runs": [{**own, "algo": "constant", "evaluation": {"mean": m}} for m in (1.0, 2.0)]}
    records = [record(game, [0.0, 1.0]), control, record("RoadRunner", [0.0, 1.0])]
    levels = kept_levels(records)
    assert levels == {"Breakout": {"best constant action": 1.5}, "RoadRunner": {}}
    found = kept_curves(records)
    figure = curves_figure(found[GAMES], levels)
    (axes,) = figure.axes
    _, line = axes.get_lines()
    assert {*line.get_ydata()} == {1.5}
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.texts] == ["spr-ucb, paper", "best constant action"]
    (plain,) = curves_figure(found[ATARI], levels).axes
    assert len(plain.get_lines()) == 1


def test_the_kept_figures_are_those_of_the_kept_results(tmp_path: Path) -> None:
    kept = Path(__file__).parents[2] / "results"
    for folder in FOLDERS:
        (tmp_path / "results" / folder).mkdir(parents=True)
        for file in (kept / folder).glob("*.json"):
            (tmp_path / "results" / folder / file.name).write_text(file.read_text())
    page = Path(__file__).parents[2] / "docs" / "deep.md"
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "deep.md").write_text(page.read_text())
    main(tmp_path)
    assert (tmp_path / "docs" / "deep.md").read_text() == page.read_text()
    drawn, kept_too = (
        {path.relative_to(root): path.read_text() for path in root.rglob("*.svg")}
        for root in (tmp_path / "results", kept)
    )
    kept_too = {path: text for path, text in kept_too.items() if path.parts[0] in FOLDERS}
    assert drawn.keys() == kept_too.keys()
    assert all(drawn[name] == kept_too[name] for name in drawn)


def test_what_bonuses_know_is_a_mean_with_its_range() -> None:
    def run(*values: float | None) -> dict[str, float | None]:
        names = ("first_direction", "rank_correlation", "never_over_often")
        return dict(zip(names, values, strict=True))

    text = features_table(
        {"paper": [run(0.5, -0.25, None), run(1.0, 0.25, 2.0)], "all": [run(1.0, 1.0, None)]}
    )
    _, _, first, second = [line.split("|")[1:-1] for line in text.splitlines() if line]
    assert [cell.strip() for cell in first] == [
        "paper",
        "0.75 (0.50 to 1.00)",
        "0.00 (-0.25 to 0.25)",
        "2.00 (2.00 to 2.00, 1 of 2 seeds)",
    ]
    assert second[-1].strip() == NOTHING
