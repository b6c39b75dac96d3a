"""The deep sea's part of the demo page: what is drawn and said is what the dives were."""

import numpy as np
import pytest
from report.runs import write_sea_run

from contrastive_ucb.agents.deep.presets import ALGORITHMS, BONUSES
from contrastive_ucb.commands import train
from contrastive_ucb.commands.demo import FIRST_UPDATE, Demo, _train_command, dives_of
from contrastive_ucb.commands.options import parse
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs.deepsea import DeepSeaGrid
from contrastive_ucb.experiments.train import Training
from contrastive_ucb.experiments.train import train as train_one
from contrastive_ucb.report.read import agent_order, read_groups
from contrastive_ucb.report.sea_page import SEA, SIZE, sea_page, sea_table, treasures
from contrastive_ucb.report.style import save_png, to_svg
from contrastive_ucb.report.tables import NOTHING


@pytest.fixture
def groups(tmp_path):
    for seed in range(2):
        write_sea_run(tmp_path, "spr-ucb", seed, first=18 + 9 * seed)
        write_sea_run(tmp_path, "spr", seed)
    return read_groups(tmp_path)


def lines(axes):
    """The lines with a name, by it."""
    return {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}


def test_treasures_are_counted_dive_by_dive(groups):
    dives, found = treasures(groups[0])
    assert dives.tolist() == list(range(1, 51))
    for row, first in zip(found, (18, 27), strict=True):
        assert row.tolist() == [max(0, dive - first + 1) for dive in dives]
    assert not treasures(groups[1])[1].any()


def test_the_figure_shows_treasures_and_the_bonus(groups):
    left, right = sea_page(groups).pictures["deep_sea"].axes
    shown = lines(left)
    assert [*shown] == ["spr-ucb", "spr", "random policy"]
    np.testing.assert_allclose(shown["random policy"].get_xydata(), [[0, 0], [50, 50 / 2**SIZE]])
    np.testing.assert_array_equal(shown["spr-ucb"].get_ydata(), treasures(groups[0])[1].mean(0))
    assert [*lines(right)] == ["spr-ucb"]
    bonus = lines(right)["spr-ucb"]
    np.testing.assert_allclose(bonus.get_xydata(), [[at, 10 / at] for at in (100, 200, 300, 400)])
    thin = [line for line in left.lines if line.get_label() == "_"]
    assert len(thin) == 4


def test_nothing_of_the_figure_is_cut_off(groups):
    figure = sea_page(groups).pictures["deep_sea"]
    figure.draw_without_rendering()
    box = figure.get_tightbbox()  # inches
    assert box.x0 >= 0
    assert box.x1 <= figure.get_figwidth()
    assert box.y0 >= 0
    assert box.y1 <= figure.get_figheight()


def test_the_table_has_the_dive_of_each_seed_that_solved_it(groups):
    first, second, *controls = sea_table(groups).rows
    assert first == ("spr-ucb", "2", "50", "28.5", "2 of 2", "20, 30", "1.00", "2.0")
    assert second[0] == "spr"
    assert second[3:] == ("0.0", "0 of 2", NOTHING, "0.01", "2.0")
    assert [row[:2] for row in controls] == [("random policy", "2"), ("best constant action", "2")]
    assert all(float(row[6]) <= 0.02 for row in controls)


def test_words_follow_the_runs(tmp_path):
    """If the bonus fails and luck helps the other one, the page says so."""
    write_sea_run(tmp_path, "spr-ucb", 0)
    write_sea_run(tmp_path, "spr", 0, first=9)
    section = sea_page(read_groups(tmp_path)).section({"deep_sea": "<svg/>"})
    assert "spr-ucb in 0 of 1; spr in 1 of 1." in section.paragraphs[-1]
    assert "largest at step 100 (0.100) and is 0.025 at the end" in section.figures[0].caption
    assert "spr-ucb, 0.0 at the end; spr, 42.0 at the end" in section.figures[0].alt
    assert f"that is {2**SIZE}, dives" in section.paragraphs[0]


def test_unfinished_seeds_are_named(tmp_path, groups):
    write_sea_run(tmp_path, "spr", 2, finished=False)
    groups = read_groups(tmp_path)
    assert [row[1] for row in sea_table(groups).rows[:2]] == ["2 (missing: 2)", "2 (missing: 2)"]
    section = sea_page(groups).section({"deep_sea": "<svg/>"})
    assert section.table_caption.endswith("left out: spr seed 2.")


def test_an_agent_without_a_finished_run_has_an_empty_row(tmp_path):
    write_sea_run(tmp_path, "spr-ucb", 0, first=9)
    write_sea_run(tmp_path, "spr", 0, finished=False)
    page = sea_page(read_groups(tmp_path))
    assert [*lines(page.pictures["deep_sea"].axes[0])] == ["spr-ucb", "random policy"]
    row = page.section({"deep_sea": "<svg/>"}).table.rows[1]
    assert row[2:6] == (NOTHING, NOTHING, "0 of 0", NOTHING)


def test_without_the_agent_that_has_a_bonus_there_is_nothing_to_show(tmp_path):
    write_sea_run(tmp_path, "spr", 0)
    write_sea_run(tmp_path, "spr-ucb", 0, finished=False)
    with pytest.raises(UserError, match="no run of spr-ucb in the deep sea is finished"):
        sea_page(read_groups(tmp_path))


def test_runs_that_measured_nothing_are_an_error(tmp_path):
    write_sea_run(tmp_path, "spr-ucb", 0, steps=(8, 16))
    with pytest.raises(UserError, match="has measured 'bonus/mean'"):
        sea_page(read_groups(tmp_path))


def test_two_settings_of_one_agent_are_refused(tmp_path, groups):
    write_sea_run(tmp_path, "spr", 0, config={"steps": 800})
    with pytest.raises(UserError, match="spr has several settings of the deep sea"):
        sea_page(read_groups(tmp_path))


def test_real_dives_can_be_drawn(tmp_path):
    for trainings in dives_of(Demo(sea_steps=104, sea_seeds=1, seed=3)):
        for training in trainings:
            train_one(training, tmp_path, progress=False, eval_episodes=2)
    groups = read_groups(tmp_path, "demo")
    assert [(group.agent, group.task) for group in groups] == [("spr-ucb", SEA), ("spr", SEA)]
    figure = sea_page(groups).pictures["deep_sea"]
    assert treasures(groups[0])[1].shape == (1, 13)
    assert to_svg(figure) == to_svg(sea_page(groups).pictures["deep_sea"])
    assert save_png(figure, tmp_path / "a.png").stat().st_size > 1000
    assert 0 <= groups[0].finished[0].number("evaluation.mean") <= 1


def test_the_commands_of_the_dives_are_the_dives():
    for trainings in dives_of(Demo(seed=4, sea_seeds=3, sea_steps=200)):
        _, what, env, *rest = _train_command(trainings).split()
        assert what == "train"
        options = parse(train.Train, train.gathered(rest), "cucb train", train.Train())
        settings = train.read_settings(options.set)
        seeds = range(options.seed, options.seed + options.seeds)
        told = [Training(env, options.algo, settings, options.steps, seed) for seed in seeds]
        assert [one.spec().config for one in told] == [one.spec().config for one in trainings]
        assert [one.seed for one in told] == [one.seed for one in trainings] == [4, 5, 6]


def test_what_the_page_says_about_agents_and_sea_is_so():
    bonus, plain = (trainings[0].config for trainings in dives_of(Demo()))
    assert bonus.first_update == plain.first_update == FIRST_UPDATE
    assert bonus.bonus.optimistic
    assert (bonus.bonus.feature, bonus.bonus.pairs) == ("hidden", "visits")
    assert bonus.bonus.scale == BONUSES["algorithm-1"].bonus.scale
    assert not plain.bonus.is_on
    assert plain.noisy > 0
    assert plain.epsilon == (1.0, 0.0)
    assert bonus.eval_epsilon == plain.eval_epsilon == 0.001
    rewards = DeepSeaGrid(SIZE, seed=0).mdp.rewards
    assert {*np.unique(rewards)} == {0.0, 0.01 / SIZE, 1.0}


def test_deep_agents_are_listed_as_the_package_lists_them():
    assert sorted(ALGORITHMS, key=agent_order) == list(ALGORITHMS)
    assert list(ALGORITHMS)[:2] == ["spr-ucb", "spr"]
