"""Figures: what they draw, and that they are the same each time."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from contrastive_ucb.report.atari import published_aggregates, published_means
from contrastive_ucb.report.plots import (
    COLORS,
    COUNTERPARTS,
    aggregates_figure,
    color_of,
    improvement_figure,
    mean_figure,
    palette,
    panels,
    profile_figure,
    save_png,
    seeds_figure,
    to_svg,
)
from contrastive_ucb.report.scores import aggregate, improvements
from contrastive_ucb.stats.aggregate import Scores

STEPS = np.array([1, 10, 100])


def line(axes: Axes, label: str) -> tuple[np.ndarray, np.ndarray]:
    [found] = [one for one in axes.get_lines() if one.get_label() == label]
    return np.asarray(found.get_xdata()), np.asarray(found.get_ydata())


def drawing(*values: list[list[float]], **look: Any) -> Figure:
    names = ("contrastive-ucb", "uniform", "no-bonus")
    lines = {name: (STEPS, np.array(own)) for name, own in zip(names, values, strict=False)}
    return panels({"T": lines}, xlabel="x", ylabel="y", **look)


def test_curves_are_means_with_bands_and_labeled_axes() -> None:
    values = [[3.0, 2.0, 1.0], [5.0, 4.0, 3.0], [4.0, 3.0, 2.0]]
    (axes,) = drawing(values, log=True, slope=(-0.5, "slope")).axes
    np.testing.assert_allclose(line(axes, "contrastive-ucb")[1], [4, 3, 2])
    assert (axes.get_title("left"), axes.get_xlabel(), axes.get_ylabel()) == ("T", "x", "y")
    x, y = line(axes, "slope")
    assert np.log(y[1] / y[0]) / np.log(x[1] / x[0]) == pytest.approx(-0.5)
    assert y[0] == 3  # it starts on the first curve
    assert len(axes.collections) == 1
    (axes,) = drawing(values[:2]).axes
    assert len(axes.collections) == 0  # two runs have no band


def test_zeros_on_a_logarithmic_axis_are_drawn_at_its_lower_edge() -> None:
    """A band that reached 0 was drawn wrongly, and an agent with zero gap vanished."""
    touching = [[1.0, 0.5, 0.3], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    zero = [[0.0, 0.0, 0.0]] * 3
    (axes,) = drawing(touching, zero, log=True).axes
    assert axes.get_yscale() == "log"
    bottom = axes.get_ylim()[0]
    assert 0 < bottom < 0.1
    np.testing.assert_allclose(line(axes, "uniform")[1], bottom)
    for band in axes.collections:
        [path] = band.get_paths()
        assert path.vertices[:, 1].min() == pytest.approx(bottom)
    (axes,) = drawing(zero, log=True).axes
    assert axes.get_yscale() == "linear"


def test_a_single_point_is_a_dot() -> None:
    lines = {"spr": (np.array([5]), np.array([[1.0]]))}
    figure = panels({"t": lines}, xlabel="x", ylabel="y")
    assert figure.axes[0].get_lines()[0].get_marker() == "o"


def test_panels_have_means_controls_and_short_titles() -> None:
    lines = {"spr": (STEPS, np.array([[1.0, 2, 3], [3, 4, 5]]))}
    name = "a very long name of a task that does not fit into one line or two lines"
    levels = {"a": {"random policy": 0.5}}
    figure = panels({"a": lines, name: lines}, xlabel="x", ylabel="y", levels=levels)
    first, second = figure.axes
    np.testing.assert_allclose(line(first, "spr")[1], [2, 3, 4])
    assert line(first, "random policy")[1][0] == 0.5
    assert second.get_title("left").endswith("…")
    assert (figure.get_supxlabel(), figure.get_supylabel()) == ("x", "y")


def test_lines_of_seeds_and_how_many_solved_the_task() -> None:
    lines = {"contrastive-ucb": (STEPS, np.array([[0.0, 1, 1]] * 3))}
    labels = {"title": "", "xlabel": "", "ylabel": ""}
    figure = seeds_figure(lines, {"contrastive-ucb": (2, 3)}, **labels, percent=True, limit=0.5)
    (axes,) = figure.axes
    assert len(axes.get_lines()) == 3 + 1 + 1  # seeds, mean, limit
    np.testing.assert_allclose(line(axes, "contrastive-ucb: solved by 2 of 3 seeds")[1], [0, 1, 1])


def test_a_mean_without_an_interval_has_no_error_bar() -> None:
    """Unknown intervals once were drawn as intervals of width 0."""
    means = published_means()
    means.loc[means["method"] == "SPR", ["low", "high"]] = 0.5, 0.7
    _, bars = mean_figure(means, "T", "score").axes[0].containers
    drawn = bars.errorbar.lines[2][0].get_segments()
    assert sum(len(segment) > 0 for segment in drawn) == 1


@pytest.fixture(scope="module")
def scores() -> list[Scores]:
    random = np.random.default_rng(0)
    return [
        Scores(name, ("x", "y"), tuple(random.normal(level, 0.1, (2, 4))))
        for name, level in (("spr-ucb", 1.0), ("spr", 0.5))
    ]


def test_bars_dots_profiles_and_pairs_show_the_numbers(scores: list[Scores]) -> None:
    here = aggregate(scores)
    both = pd.concat([published_means(), here], ignore_index=True)
    bars = mean_figure(both, "T", "score").axes[0].patches
    means = both[both["statistic"] == "mean"]["value"]
    assert sorted(bar.get_width() for bar in bars) == pytest.approx(sorted(means))
    dots = aggregates_figure(pd.concat([published_aggregates(), here], ignore_index=True), "score")
    assert len(dots.axes) == 4
    assert all(axes.get_xlabel() == "score" for axes in dots.axes)
    x, _ = line(dots.axes[2], "spr")
    assert x[0] == here[(here["method"] == "spr") & (here["statistic"] == "mean")]["value"].item()
    (profile,) = profile_figure(scores, "score").axes
    share = line(profile, "spr-ucb")[1]
    assert share[0] == 1
    assert (np.diff(share) <= 0).all()
    pairs = improvements(scores)
    (axes,) = improvement_figure(pairs).axes
    assert line(axes, "spr-ucb")[0][0] == pairs["value"].item()


def test_the_same_figure_gives_the_same_bytes(tmp_path: Path) -> None:
    """Whatever the user's settings are, which stay as they were."""
    made = []
    for size in (10, 30):
        with mpl.rc_context({"font.size": size}):
            figure = drawing([[1.0, 2, 3]] * 3)
            save_png(figure, tmp_path / "a.png")
            made.append((to_svg(figure), (tmp_path / "a.png").read_bytes()))
            assert mpl.rcParams["font.size"] == size
    assert made[0] == made[1]


def test_colors_are_distinct() -> None:
    assert len(set(COLORS.values())) == len(COLORS)
    assert all(color_of(name) == color_of(other) for name, other in COUNTERPARTS.items())
    styles = palette(["spr", *(f"spr (n={n})" for n in range(5))])
    assert len({style["color"] for style in styles.values()}) == 6
