"""The figures of the games show what was learnt, and what the game really is."""

import json
import shutil

import numpy as np
import pytest
from report.runs import GAME, STEPS, write_game_run

from contrastive_ucb import LowRankGame
from contrastive_ucb.core.checkpoint import save_checkpoint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.evaluation.exact import exploitability, game_value, nash
from contrastive_ucb.experiments.solve import Problem, solve
from contrastive_ucb.report.figures import curves, save_png, to_svg
from contrastive_ucb.report.game_figures import (
    certificate_figure,
    equilibrium_figure,
    vault_figure,
)
from contrastive_ucb.report.pair import Pair, learnt_and_exact
from contrastive_ucb.report.read import read_groups

SIZES = {
    "lowrank-game": {"n_states": 4, "n_actions": [3, 2], "rank": 2, "horizon": 2},
    "lock-game": {"horizon": 2, "n_actions": [2, 3], "n_dead": 2},
}


@pytest.fixture(scope="module", params=SIZES)
def real(request, tmp_path_factory):
    """A short run of Contrastive ULCB, as `cucb demo` leaves it behind."""
    root = tmp_path_factory.mktemp("real")
    problem = Problem(request.param, SIZES[request.param], "contrastive-ulcb", rounds=12)
    solve(problem, [3, 4], root, progress=False)
    (group,) = read_groups(root)
    return problem, group


def test_the_learnt_pair_is_the_one_that_the_run_recommends(real):
    _, group = real
    for run in group.finished:
        learnt, _ = learnt_and_exact(run)
        assert learnt.exploitability == pytest.approx(run.number("exploitability"), abs=1e-12)


def test_the_exact_pair_is_an_equilibrium_of_the_runs_own_game(real):
    problem, group = real
    for run in group.finished:
        _, exact = learnt_and_exact(run)
        assert exact.value == pytest.approx(run.number("nash_value"), abs=1e-9)
        assert exact.exploitability == pytest.approx(0, abs=1e-9)
        assert exact.joint.shape == tuple(problem.env_settings["n_actions"])
        assert exact.joint.sum() == pytest.approx(1)
    values = [learnt_and_exact(run)[1].value for run in group.finished]
    assert problem.env == "lock-game" or values[0] != values[1]  # each seed has its own game


def test_real_runs_can_be_drawn(real, tmp_path):
    problem, group = real
    figures = [certificate_figure(group), equilibrium_figure(*learnt_and_exact(group.finished[0]))]
    figures.append(curves([group], "average_gap", title="", ylabel=""))
    if problem.env == "lock-game":
        figures.append(vault_figure([group], 0.05))
    for figure in figures:
        assert to_svg(figure) == to_svg(figure)
        assert save_png(figure, tmp_path / "a.png").stat().st_size > 1000


def test_the_pair_of_a_made_up_run_is_evaluated_by_hand(tmp_path):
    write_game_run(tmp_path, "contrastive-ulcb", "lowrank-game", 7)
    (group,) = read_groups(tmp_path)
    learnt, exact = learnt_and_exact(group.finished[0])
    game = LowRankGame(4, (3, 2), 2, 2, seed=7)
    row, column = np.full((2, 4, 3), 1 / 3), np.full((2, 4, 2), 1 / 2)
    np.testing.assert_allclose(learnt.joint, np.full((3, 2), 1 / 6))
    assert learnt.value == game_value(game, row, column)
    assert learnt.exploitability == exploitability(game, row, column)
    np.testing.assert_array_equal(exact.row, nash(game).row[0, 0])


def test_the_heat_map_writes_every_probability():
    learnt = Pair(np.array([0.25, 0.75]), np.array([0.5, 0.5, 0.0]), -0.125, 0.25)
    exact = Pair(np.array([1.0, 0.0]), np.array([0.0, 0.0, 1.0]), 0.5, -1e-17)
    left, right = equilibrium_figure(learnt, exact).axes
    texts = [text.get_text() for text in left.texts]
    assert texts[:6] == ["0.12", "0.12", "0.00", "0.38", "0.38", "0.00"]  # the joint play
    assert texts[6:8] == ["0.25", "0.75"]
    assert texts[8:11] == ["0.50", "0.50", "0.00"]
    assert texts[11] == "value -0.125\nexploitability 0.250"
    assert [text.get_text() for text in right.texts][11] == "value 0.500\nexploitability 0.000"
    assert [axes.get_title(loc="left") for axes in (left, right)] == ["Learnt", "Nash equilibrium"]
    assert "<image" not in to_svg(left.figure)  # shapes, not pixels: nothing to load


def test_certificate_and_gap_are_drawn_with_their_means(tmp_path):
    for seed, level in enumerate((1.0, 2.0)):
        write_game_run(tmp_path, "contrastive-ulcb", "lowrank-game", seed, level=level)
    (group,) = read_groups(tmp_path)
    (axes,) = certificate_figure(group).axes
    lines = {line.get_label(): line for line in axes.lines if line.get_label()[0] != "_"}
    assert set(lines) == {"certificate", "true gap"} == {text.get_text() for text in axes.texts}
    np.testing.assert_allclose(lines["certificate"].get_ydata(), 4.5 / np.array(STEPS))
    np.testing.assert_allclose(lines["true gap"].get_ydata(), 1.5 / np.array(STEPS))
    assert len(axes.collections) == 2
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_the_average_gap_has_the_slope_of_the_theorem(tmp_path):
    write_game_run(tmp_path, "contrastive-ulcb", "lowrank-game", 0)
    (axes,) = curves(read_groups(tmp_path), "average_gap", title="", ylabel="").axes
    (line,) = (line for line in axes.lines if line.get_label().startswith("slope"))
    x, y = line.get_data()
    assert np.log(y[1] / y[0]) / np.log(x[1] / x[0]) == pytest.approx(-0.5)


def test_the_vault_shows_gaps_the_limit_and_who_solved_it(tmp_path):
    for seed in range(2):
        write_game_run(tmp_path, "uniform", "lock-game", seed, solved_at=None)
        write_game_run(tmp_path, "contrastive-ulcb", "lock-game", seed, solved_at=8 if seed else 4)
    above, below = vault_figure(read_groups(tmp_path), 0.05).axes
    lines = {line.get_label(): line for line in above.lines if line.get_label()[0] != "_"}
    assert list(lines) == ["contrastive-ulcb", "uniform"]
    np.testing.assert_allclose(lines["uniform"].get_ydata(), 1 / np.array(STEPS))
    (limit,) = (line for line in above.lines if line.get_label() == "_limit")
    assert set(limit.get_ydata()) == {0.05}
    assert above.get_ylim()[0] == 0
    texts = {text.get_text() for text in below.texts}
    assert texts == {"contrastive-ulcb", "uniform", "2 of 2", "0 of 2"}


def test_nothing_finished_is_an_error(tmp_path):
    write_game_run(tmp_path, "contrastive-ulcb", "lock-game", 0, finished=False)
    (group,) = read_groups(tmp_path)
    with pytest.raises(UserError, match="no lock-game run is finished"):
        vault_figure([group], 0.05)
    with pytest.raises(UserError, match="contrastive-ulcb has measured 'certificate'"):
        certificate_figure(group)


def test_a_run_without_its_policies_is_an_error_of_one_line(tmp_path):
    path = write_game_run(tmp_path, "contrastive-ulcb", "lowrank-game", 0, policies=False)
    (group,) = read_groups(tmp_path)
    with pytest.raises(UserError, match="has no checkpoint to take the policies from") as caught:
        learnt_and_exact(group.finished[0])
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    save_checkpoint(path / "checkpoints", 1, {"session": {}})
    with pytest.raises(UserError, match="holds no policies \\('agent' is missing\\)"):
        learnt_and_exact(group.finished[0])
    shutil.rmtree(path / "checkpoints")


@pytest.mark.parametrize(
    ("env", "match"),
    [
        ({**GAME, "name": "chess"}, "describes no game \\(no environment is called 'chess'"),
        ({**GAME, "n_dead": 3}, "describes no game \\(.*n_dead"),
        ({**GAME, "name": "lowrank", "n_actions": [2, 2]}, "describes no game"),
        ({"name": "lock", "n_actions": [2, 2], "horizon": 2, "n_states": 3}, "describes no game"),
    ],
)
def test_a_run_of_something_else_is_an_error_of_one_line(tmp_path, env, match):
    path = write_game_run(tmp_path, "contrastive-ulcb", "lowrank-game", 0, env=env)
    (group,) = read_groups(tmp_path)
    with pytest.raises(UserError, match=match) as caught:
        learnt_and_exact(group.finished[0])
    assert str(path / "spec.json") in str(caught.value)
    assert "\n" not in str(caught.value)
    assert json.loads((path / "spec.json").read_text())["config"]["env"] == env


def test_an_mdp_is_no_game(tmp_path):
    env = {"name": "lowrank", "n_states": 4, "n_actions": 3, "horizon": 2}
    write_game_run(tmp_path, "contrastive-ulcb", "lowrank-game", 0, env=env, policies=False)
    (group,) = read_groups(tmp_path)
    with pytest.raises(UserError, match="describes no game but an MDP"):
        learnt_and_exact(group.finished[0])
