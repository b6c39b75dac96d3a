"""Figures hold the right data, and the same data give the same bytes."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from report.runs import STEPS, write_demo, write_run

from contrastive_ucb.agents.finite.presets import GAME_PRESETS, PRESETS
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.report.figures import curves, lock_figure, save_png, to_svg
from contrastive_ucb.report.interval import mean_interval
from contrastive_ucb.report.read import read_groups
from contrastive_ucb.report.style import COLOURS, SPARE, colour, spread


@pytest.fixture
def groups(tmp_path):
    write_demo(tmp_path)
    return read_groups(tmp_path)


def of_task(groups, task):
    return [group for group in groups if group.task == task]


def lines_of(axes):
    return {line.get_label(): line for line in axes.lines if line.get_label()[0] != "_"}


def texts_of(axes):
    return {text.get_text() for text in axes.texts}


def regret(groups, **options):
    chosen = of_task(groups, "lowrank")
    return curves(chosen, "average_regret", title="Regret", ylabel="regret", **options)


def test_curves_hold_the_means(groups):
    lines = lines_of(regret(groups).axes[0])
    level = {"uniform": 1.1, "contrastive-ucb": 2.1, "no-bonus": 3.1}
    assert set(lines) == {*level, "slope $k^{-1/2}$"}
    for agent, mean in level.items():
        np.testing.assert_array_equal(lines[agent].get_xdata(), STEPS)
        np.testing.assert_allclose(lines[agent].get_ydata(), mean / np.sqrt(STEPS))


def test_every_line_is_labelled_at_its_end(groups):
    axes = regret(groups).axes[0]
    assert set(lines_of(axes)) == texts_of(axes)


@pytest.mark.parametrize(("name", "power"), [("average_regret", -0.5), ("zeta", -1.0)])
def test_the_reference_has_the_slope_of_the_theorem_and_touches_the_first_agent(
    groups, name, power
):
    figure = curves(of_task(groups, "lowrank"), name, title="", ylabel="")
    axes = figure.axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    (label,) = (label for label in lines_of(axes) if label.startswith("slope"))
    x, y = lines_of(axes)[label].get_data()
    assert np.log(y[1] / y[0]) / np.log(x[1] / x[0]) == pytest.approx(power)
    curve = lines_of(axes)["contrastive-ucb"]
    assert y[0] == curve.get_ydata()[list(curve.get_xdata()).index(x[0])]


def test_linear_axes_have_no_reference(groups):
    axes = regret(groups, log=False).axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "linear")
    assert not any(label.startswith("slope") for label in lines_of(axes))


def test_a_measure_that_is_zero_everywhere_is_drawn_without_a_log(tmp_path):
    write_run(tmp_path, "uniform", "lowrank", 0, level=0.0)
    figure = curves(read_groups(tmp_path), "zeta", title="", ylabel="")
    assert figure.axes[0].get_yscale() == "linear"
    assert to_svg(figure)


def test_one_seed_has_no_band_and_several_have_one(tmp_path):
    write_run(tmp_path, "uniform", "lowrank", 0)
    one = curves(read_groups(tmp_path), "zeta", title="", ylabel="")
    write_run(tmp_path, "uniform", "lowrank", 1, level=2.0)
    two = curves(read_groups(tmp_path), "zeta", title="", ylabel="")
    assert [len(figure.axes[0].collections) for figure in (one, two)] == [0, 1]


def test_agents_without_a_finished_run_are_left_out(tmp_path):
    write_run(tmp_path, "contrastive-ucb", "lock", 0, solved_at=3)
    write_run(tmp_path, "uniform", "lock", 0, finished=False)
    groups = read_groups(tmp_path)
    assert "uniform" not in lines_of(curves(groups, "gap", title="", ylabel="").axes[0])
    above, below = lock_figure(groups).axes
    assert "uniform" not in lines_of(above)
    assert "0 of 0" in texts_of(below)


def test_nothing_finished_is_an_error(tmp_path):
    write_run(tmp_path, "uniform", "lock", 0, finished=False)
    with pytest.raises(UserError, match="no finished run has measured 'gap'"):
        curves(read_groups(tmp_path), "gap", title="", ylabel="")
    with pytest.raises(UserError, match="no lock run is finished"):
        lock_figure(read_groups(tmp_path))


def test_the_lock_figure_shows_values_and_who_opened_it(groups):
    above, below = lock_figure(of_task(groups, "lock")).axes
    lines = lines_of(above)
    assert next(iter(lines)) == "contrastive-ucb"
    np.testing.assert_allclose(lines["uniform"].get_ydata(), 1 - 1 / np.array(STEPS) / 2)
    thin = [line for line in above.lines if line.get_linewidth() == 0.6]
    assert len(thin) == 9
    opened = {agent: len(line.get_xdata()) for agent, line in lines_of(below).items()}
    assert opened == {"contrastive-ucb": 3, "no-bonus": 0, "uniform": 0}
    assert texts_of(below) == {"contrastive-ucb", "no-bonus", "uniform", "3 of 3", "0 of 3"}


def test_a_lock_without_a_value_is_an_error(tmp_path):
    path = write_run(tmp_path, "uniform", "lock", 0, optimal_value=0.0)
    with pytest.raises(UserError, match="optimal_value 0") as caught:
        lock_figure(read_groups(tmp_path))
    assert str(path) in str(caught.value)


def test_two_settings_of_one_agent_are_refused(groups):
    with pytest.raises(UserError, match="contrastive-ucb has 2 settings of this task"):
        curves(groups, "gap", title="", ylabel="")


def test_the_same_data_give_the_same_svg_and_png(groups, tmp_path):
    first, second = regret(groups), regret(groups)
    assert to_svg(first) == to_svg(second) == to_svg(first)
    paths = [save_png(f, tmp_path / n) for f, n in ((first, "a.png"), (second, "b.png"))]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert not list(tmp_path.glob(".*.png.*"))


def test_the_users_settings_neither_change_nor_matter(groups):
    plain = to_svg(regret(groups))
    with mpl.rc_context({"lines.linewidth": 9, "svg.hashsalt": "other", "font.size": 30}):
        assert to_svg(regret(groups)) == plain
        assert mpl.rcParams["font.size"] == 30


def test_svgs_share_no_ids_and_refer_to_their_own(groups):
    svgs = [to_svg(regret(groups)), to_svg(lock_figure(of_task(groups, "lock")))]
    ids = [re.findall(r'\bid="([^"]+)"', svg) for svg in svgs]
    assert not set(ids[0]) & set(ids[1])
    for svg, own in zip(svgs, ids, strict=True):
        ElementTree.fromstring(svg)
        assert len(own) == len(set(own))
        assert {*re.findall(r'href="#([^"]+)"', svg), *re.findall(r"url\(#([^)]+)\)", svg)} <= {
            *own
        }
        assert re.findall(r"<style[^>]*>([^ ]+)", svg) == [f"#{own[0]}"]
        assert "<metadata" not in svg


def test_colours_are_fixed_and_different():
    assert len(set(COLOURS.values())) == len(COLOURS)
    assert colour("contrastive-ucb") == "#D55E00"
    assert colour("contrastive-ulcb") == colour("contrastive-ucb")
    for family in (PRESETS, GAME_PRESETS):
        assert len({colour(agent) for agent in family}) == len(family)
        assert not {colour(agent) for agent in family} & {*SPARE}
    assert colour("somebody new") == colour("somebody new")
    assert colour("somebody new") not in COLOURS.values()


def test_spread_keeps_order_and_distance():
    wanted = np.array([0.5, 0.5, 0.1, 0.52, 0.9])
    spots = spread(wanted, 0.1)
    assert all(b - a >= 0.1 - 1e-12 for a, b in pairwise(sorted(spots)))
    assert list(np.argsort(spots, kind="stable")) == list(np.argsort(wanted, kind="stable"))
    np.testing.assert_allclose(spots[[2, 4]], wanted[[2, 4]])
    assert spots[[0, 1, 3]].mean() == pytest.approx(wanted[[0, 1, 3]].mean())
    assert spread(np.array([]), 0.1).shape == (0,)


def test_the_interval_equals_a_plain_bootstrap():
    values = np.random.default_rng(0).exponential(size=(8, 3))
    mean, low, high = mean_interval(values)
    rng = np.random.default_rng(1)
    means = [values[rng.integers(8, size=8)].mean(0) for _ in range(20_000)]
    np.testing.assert_allclose(mean, values.mean(0))
    np.testing.assert_allclose([low, high], np.quantile(means, [0.025, 0.975], axis=0), rtol=0.08)
