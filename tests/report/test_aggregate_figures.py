"""Aggregates and their figures show what the data are, published and run here apart."""

from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.stats import ttest_ind_from_stats

from contrastive_ucb.report.aggregate_figures import (
    aggregates_figure,
    improvement_figure,
    mean_figure,
    profile_figure,
)
from contrastive_ucb.report.aggregates import (
    Estimate,
    Row,
    aggregate_table,
    comparison_table,
    comparisons,
    printed_rows,
    run_rows,
    table_rows,
)
from contrastive_ucb.report.fair import (
    PAPER,
    fair_section,
    holm,
    published_mean,
    source_notes,
    untestable,
    welch_tests,
)
from contrastive_ucb.report.palette import palette
from contrastive_ucb.report.style import to_svg
from contrastive_ucb.report.tables import NOTHING
from contrastive_ucb.stats.aggregate import Scores, iqm, mean, median, optimality_gap
from contrastive_ucb.stats.published import atari100k, printed_aggregates

GAMES = atari100k().games


def scores(name: str, level: float, runs: int = 4) -> Scores:
    random = np.random.default_rng(runs)
    return Scores(name, GAMES, tuple(level + random.random(runs) for _ in GAMES))


@pytest.fixture(scope="module")
def here() -> list[Scores]:
    return [scores("spr-ucb", 0.5), scores("spr", 0.2)]


def named(axes):
    return {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}


def inside(figure) -> bool:
    box = figure.get_tightbbox()
    width, height = figure.get_figwidth(), figure.get_figheight()
    return box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height


def test_printed_rows_are_the_published_aggregates() -> None:
    rows = {row.name: row for row in printed_rows()}
    assert [*rows] == [*PAPER[:-1], "SPR, all runs", "SPR-UCB"]
    for entry in printed_aggregates():
        if entry.runs == "10":
            estimate = rows[entry.method].values[entry.statistic]
            assert estimate == Estimate(entry.estimate, entry.low, entry.high)
    assert rows["SimPLe"].runs == "5"
    assert rows["SPR"].runs == rows["SPR-UCB"].runs == "10"
    assert rows["SPR, all runs"].runs == "100"
    assert rows["SPR, all runs"].values == {"mean": Estimate(0.616, 0.597, 0.636)}
    assert set(rows["SPR-UCB"].values) == {"mean", "median"}


def test_rows_of_runs_are_the_statistics_with_intervals(here: list[Scores]) -> None:
    for row, one in zip(run_rows(here), here, strict=True):
        for name, statistic in (
            ("mean", mean),
            ("median", median),
            ("iqm", iqm),
            ("optimality_gap", optimality_gap),
        ):
            value, low, high = row.values[name]
            assert value == pytest.approx(float(statistic(one.matrix)))
            assert low < value < high
        assert (row.here, row.runs) == (True, "4")


def test_one_run_a_task_has_no_interval() -> None:
    (row,) = run_rows([scores("spr", 0.2, runs=1)])
    assert row.values["mean"].low is None
    (one,) = comparisons([scores("a", 0.2, runs=1), scores("b", 0.2, runs=3)])
    assert one.chance.low is None


def test_scores_without_a_scale_have_no_optimality_gap(here: list[Scores]) -> None:
    assert "optimality_gap" not in run_rows(here, goal=None)[0].values


def test_table_rows_average_over_the_games_asked_for() -> None:
    table = atari100k()
    for row in table_rows():
        assert row.values["mean"].value == pytest.approx(published_mean(row.name))
    rows = {row.name: row for row in table_rows(["Pong", "Alien"])}
    at = [table.games.index(game) for game in ("Pong", "Alien")]
    assert rows["SPR"].values["mean"].value == pytest.approx(table.methods["SPR"].scores[at].mean())


def test_bars_are_as_long_as_the_means(here: list[Scores]) -> None:
    rows = table_rows() + run_rows(here)
    (axes,) = mean_figure(rows).axes
    bars = {bar.get_label(): bar.patches[0] for bar in axes.containers}
    assert len(bars) == 10
    for row in rows:
        assert bars[row.name].get_width() == pytest.approx(row.values["mean"].value)
        assert bool(bars[row.name].get_hatch()) == row.here
    published = [name for name in bars if name in PAPER]
    assert [*bars][:8] == published  # those run here come below
    assert published[:2] == ["SPR-UCB", "SPR"]
    texts = {text.get_text() for text in axes.texts}
    assert {"0.694", "0.616", "run here"} <= texts
    assert [tick.get_text() for tick in axes.get_yticklabels()][:2] == ["SPR-UCB (10)", "SPR (100)"]


def test_dots_and_bars_are_estimates_and_intervals(here: list[Scores]) -> None:
    rows = printed_rows() + run_rows(here)
    panels = aggregates_figure(rows).axes
    assert len(panels) == 4
    for axes, name in zip(panels, ("median", "iqm", "mean", "optimality_gap"), strict=True):
        dots = named(axes)
        bars = {tuple(line.get_xdata()) for line in axes.lines if line.get_label() == "_"}
        for row in rows:
            if name in row.values:
                value, low, high = row.values[name]
                assert dots[row.name].get_xdata()[0] == value
                assert dots[row.name].get_marker() == ("D" if row.here else "o")
                assert low is None or (low, high) in bars
            else:
                assert row.name not in dots
    assert [text.get_text() for text in panels[1].texts].count("not published") == 2


def test_profiles_fall_from_one(here: list[Scores]) -> None:
    (axes,) = profile_figure(here).axes
    lines = named(axes)
    assert [*lines] == ["spr-ucb", "spr"]
    for line in lines.values():
        assert line.get_ydata()[0] == 1
        assert (np.diff(line.get_ydata()) <= 1e-12).all()
    level = lines["spr"].get_xdata()[30]
    above = np.mean([(runs > level).mean() for runs in here[1].runs])
    assert lines["spr"].get_ydata()[30] == pytest.approx(above)


def test_improvement_is_drawn_as_computed(here: list[Scores]) -> None:
    (one,) = comparisons(here)
    wins = [
        (left[:, None] > right).mean()
        for left, right in zip(here[0].runs, here[1].runs, strict=True)
    ]
    assert one.chance.value == pytest.approx(np.mean(wins))
    assert one.chance.low < one.chance.value < one.chance.high
    (other,) = comparisons(here, sign=-1)
    assert other.chance.value == pytest.approx(1 - one.chance.value)
    (axes,) = improvement_figure([one], palette(["spr-ucb", "spr"])).axes
    assert named(axes)["spr-ucb"].get_xdata()[0] == one.chance.value
    assert axes.texts[0].get_text() == "spr-ucb over spr"
    assert comparison_table([one]).rows[0][:2] == ("spr-ucb", "spr")


def test_many_methods_are_compared_with_the_first() -> None:
    many = [scores(f"agent-{at}", 0.1 * at) for at in range(6)]
    assert [(c.x, c.y) for c in comparisons(many)] == [
        ("agent-0", f"agent-{at}") for at in range(1, 6)
    ]


def test_figures_are_whole_and_have_the_same_bytes(here: list[Scores]) -> None:
    long = [scores("contrastive-ucb (negatives=sampled, rounds=10000)", 0.4)]
    for make in (
        lambda: mean_figure(table_rows() + run_rows(here)),
        lambda: aggregates_figure(printed_rows() + run_rows(here)),
        lambda: aggregates_figure(run_rows(long)),
        lambda: profile_figure(here),
        lambda: improvement_figure(comparisons(here), palette(["spr-ucb", "spr"])),
    ):
        figure = make()
        figure.draw_without_rendering()
        assert inside(figure)
        svg = to_svg(figure)
        assert svg == to_svg(make())
        ElementTree.fromstring(svg)


def test_variants_have_colours_of_their_own() -> None:
    labels = ["spr-ucb", "spr", *(f"spr-ucb (n_step={at})" for at in range(6))]
    styles = palette(labels)
    assert len({style["color"] for style in styles.values()}) == len(labels)


def test_the_table_of_aggregates_says_where_numbers_come_from(here: list[Scores]) -> None:
    rows = aggregate_table(printed_rows() + run_rows(here)).rows
    assert rows[6][:3] == ("SPR", "published", "10")
    assert rows[6][5] == "0.698 [0.615, 0.813]"
    assert rows[8] == ("SPR-UCB", "published", "10", "0.384", NOTHING, "0.694", NOTHING)
    assert rows[-1][:3] == ("spr", "run here", "4")


def test_welch_is_scipys() -> None:
    ours, base = (atari100k().methods[name] for name in ("SPR-UCB", "SPR"))
    tests = {test.game: test for test in welch_tests()}
    for game, test in tests.items():
        at = GAMES.index(game)
        expected = ttest_ind_from_stats(
            *(ours.scores[at], ours.deviations[at], ours.n_runs),
            *(base.scores[at], base.deviations[at], base.n_runs),
            equal_var=False,
        )
        assert test.t == pytest.approx(expected.statistic)
        assert test.p == pytest.approx(expected.pvalue)


def test_what_welch_says_of_the_published_table() -> None:
    tests = welch_tests()
    below = [test.game for test in tests if test.p < 0.05]
    assert {*below} == {"Freeway", "Frostbite", "Krull", "RoadRunner"}
    assert {test.game for test in tests if test.p < 0.001} == {*below} - {"RoadRunner"}
    assert {test.game for test in holm(tests)} == {*below} - {"RoadRunner"}
    assert untestable() == ["PrivateEye", "Seaquest"]


def test_the_fair_words_have_the_numbers() -> None:
    section = fair_section()
    first = section.paragraphs[0]
    assert "10 runs of SPR-UCB, whose mean is 0.694" in first
    assert "100 runs of SPR, whose mean is 0.616" in first
    assert "The first 10 of these 100 runs alone give 0.701" in first
    assert [row[0] for row in section.table.rows] == [
        test.game for test in welch_tests() if test.p < 0.05
    ]
    notes = " ".join(source_notes())
    assert "SPR-UCB: 10 runs" in notes
    assert "SPR: 100 runs" in notes
    assert "SimPLe: 5 runs" in notes


@pytest.mark.parametrize(
    "means",
    [
        [Estimate(-0.4, -0.9, -0.1), Estimate(-0.2, -0.3, -0.05)],  # the axis was cut at both ends
        [Estimate(-0.4, -0.9, 0.0), Estimate(-0.2)],  # an end at 0 is an end
        [Estimate(0.5, -0.25, 1.25), Estimate(0.0)],
        [Estimate(0.0)],
    ],
)
def test_bars_of_any_sign_are_whole(means: list[Estimate]) -> None:
    rows = [Row(f"agent {at}", "3", True, {"mean": mean}) for at, mean in enumerate(means)]
    figure = mean_figure(rows)
    (axes,) = figure.axes
    left, right = axes.get_xlim()
    ends = [end for mean in means for end in mean if end is not None]
    assert left <= min(0, *ends) <= max(0, *ends) < right
    assert (left < min(ends)) == (min(ends) < 0)  # room beside what is below 0
    figure.draw_without_rendering()
    shown = axes.get_window_extent()
    for text in axes.texts:
        box = text.get_window_extent()
        assert shown.x0 <= box.x0
        assert box.x1 <= figure.get_figwidth() * figure.dpi
    assert inside(figure)
