"""Figures: what they draw, and that they are the same each time."""

import re
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes

from contrastive_ucb.report.plots import (
    COLORS,
    COUNTERPARTS,
    MIN_CONTRAST,
    Curve,
    aggregates_figure,
    color_of,
    contrast,
    curve_figure,
    improvement_figure,
    mean_figure,
    palette,
    panels,
    profile_figure,
    readable,
    save_png,
    solving_figure,
    spread,
    to_svg,
)
from contrastive_ucb.report.reproduce import published_aggregates, published_means
from contrastive_ucb.report.scores import aggregate, improvements
from contrastive_ucb.stats.aggregate import Scores

STEPS = np.array([1, 10, 100])


def line(axes: Axes, label: str) -> tuple[np.ndarray, np.ndarray]:
    [found] = [one for one in axes.get_lines() if one.get_label() == label]
    return np.asarray(found.get_xdata()), np.asarray(found.get_ydata())


def curves(*values: list[list[float]]) -> list[Curve]:
    names = ("contrastive-ucb", "uniform", "no-bonus")
    return [Curve.of(name, STEPS, np.array(v)) for name, v in zip(names, values, strict=False)]


def test_curves_are_means_with_bands_and_labeled_axes() -> None:
    values = [[3.0, 2.0, 1.0], [5.0, 4.0, 3.0], [4.0, 3.0, 2.0]]
    figure = curve_figure(curves(values), title="T", ylabel="y", slope=(-0.5, "slope"))
    (axes,) = figure.axes
    np.testing.assert_allclose(line(axes, "contrastive-ucb")[1], [4, 3, 2])
    assert (axes.get_title("left"), axes.get_xlabel(), axes.get_ylabel()) == ("T", "round $k$", "y")
    x, y = line(axes, "slope")
    assert np.log(y[1] / y[0]) / np.log(x[1] / x[0]) == pytest.approx(-0.5)
    assert y[0] == 3  # it starts on the first curve
    assert len(axes.collections) == 1
    assert "contrastive-ucb" in [text.get_text() for text in axes.texts]


def test_two_runs_have_no_band() -> None:
    (axes,) = curve_figure(curves([[1.0, 1, 1], [2, 2, 2]]), title="", ylabel="").axes
    assert len(axes.collections) == 0


@pytest.mark.parametrize("kind", ["curve", "panel"])
def test_zeros_on_a_logarithmic_axis_are_drawn_at_its_lower_edge(kind: str) -> None:
    """A band that reached 0 was drawn wrongly, and an agent with zero gap vanished."""
    touching = [[1.0, 0.5, 0.3], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    zero = [[0.0, 0.0, 0.0]] * 3
    if kind == "curve":
        figure = curve_figure(curves(touching, zero), title="", ylabel="")
    else:
        lines = {"contrastive-ucb": (STEPS, np.array(touching)), "uniform": (STEPS, np.array(zero))}
        styles = palette(list(lines))
        figure = panels({"t": lines}, styles, xlabel="rounds", ylabel="gap", log=True)
    axes = figure.axes[0]
    assert axes.get_yscale() == "log"
    bottom = axes.get_ylim()[0]
    assert 0 < bottom < 0.1
    np.testing.assert_allclose(line(axes, "uniform")[1], bottom)
    for band in axes.collections:
        [path] = band.get_paths()
        assert path.vertices[:, 1].min() == pytest.approx(bottom)


def test_all_zero_is_a_linear_axis() -> None:
    (axes,) = curve_figure(curves([[0.0] * 3] * 3), title="", ylabel="").axes
    assert axes.get_yscale() == "linear"


def test_a_single_point_is_a_dot() -> None:
    lines = {"spr": (np.array([5]), np.array([[1.0]]))}
    figure = panels({"t": lines}, palette(["spr"]), xlabel="x", ylabel="y")
    assert figure.axes[0].get_lines()[0].get_marker() == "o"


def test_panels_have_means_controls_and_short_titles() -> None:
    lines = {"spr": (STEPS, np.array([[1.0, 2, 3], [3, 4, 5]]))}
    name = "a very long name of a task that does not fit into one line or two lines"
    levels = {"a": {"random policy": 0.5}}
    figure = panels(
        {"a": lines, name: lines}, palette(["spr"]), xlabel="x", ylabel="y", levels=levels
    )
    first, second = figure.axes
    np.testing.assert_allclose(line(first, "spr")[1], [2, 3, 4])
    assert line(first, "random policy")[1][0] == 0.5
    assert second.get_title("left").endswith("…")
    assert (figure.get_supxlabel(), figure.get_supylabel()) == ("x", "y")


def test_solved_seeds_are_filled_dots() -> None:
    figure = solving_figure(
        curves([[1.0, 1, 1]] * 3), {"contrastive-ucb": (2, 3)}, title="", ylabel="",
        solved_title="S", percent=True, limit=0.5,
    )  # fmt: skip
    below = figure.axes[1]
    assert len(line(below, "contrastive-ucb")[0]) == 2
    assert "2 of 3" in [text.get_text() for text in below.texts]


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
    (axes,) = improvement_figure(pairs, palette(["spr-ucb", "spr"])).axes
    assert line(axes, "spr-ucb")[0][0] == pairs["value"].item()


def test_the_same_figure_gives_the_same_bytes(tmp_path: Path) -> None:
    """Whatever the user's settings are, which stay as they were."""
    made = []
    for size in (10, 30):
        with mpl.rc_context({"font.size": size}):
            figure = curve_figure(curves([[1.0, 2, 3]] * 3), title="", ylabel="")
            save_png(figure, tmp_path / "a.png")
            made.append((to_svg(figure), (tmp_path / "a.png").read_bytes()))
            assert mpl.rcParams["font.size"] == size
    assert made[0] == made[1]


def test_figures_share_no_ids() -> None:
    svgs = [
        to_svg(curve_figure(curves([[1.0, 2, n]] * 3), title="", ylabel="")) for n in (3.0, 4.0)
    ]
    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in svgs]
    assert not ids[0] & ids[1]
    for own, svg in zip(ids, svgs, strict=True):
        ElementTree.fromstring(svg)
        assert {one.removeprefix("#") for one in re.findall(r'href="([^"]+)"', svg)} <= own


def test_colors_are_distinct_and_legible() -> None:
    assert len(set(COLORS.values())) == len(COLORS)
    assert all(color_of(name) == color_of(other) for name, other in COUNTERPARTS.items())
    assert contrast("black", "white") == pytest.approx(21)
    assert all(contrast(readable(color), "white") >= MIN_CONTRAST for color in COLORS.values())
    styles = palette(["spr", *(f"spr (n={n})" for n in range(5))])
    assert len({style["color"] for style in styles.values()}) == 6


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_spread_keeps_order_and_distance(wanted: list[float]) -> None:
    spots = spread(np.array(wanted), 0.1)
    order = np.argsort(wanted, kind="stable")
    assert (np.diff(spots[order]) >= 0.1 - 1e-9).all()
    assert spots.mean() == pytest.approx(np.mean(wanted), abs=1e-9)
