"""Run folders of observations: they stop when solved; a killed run equals an undisturbed one."""

import json
from pathlib import Path
from typing import Any

import pytest
from runs.training_runs import without_time

from contrastive_ucb.agents.finite import neural_model
from contrastive_ucb.agents.finite.config import NeuralConfig
from contrastive_ucb.cli import main
from contrastive_ucb.core.checkpoint import latest_checkpoint, load_checkpoint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.runs.loop import overall, solve
from contrastive_ucb.runs.problem import Problem

QUICK = {
    "trajectories": 4,
    "fit_steps": 5,
    "batch_size": 16,
    "n_negatives": 16,
    "n_draws": 12,
}
ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "continuous": {"n_actions": 2, "true_rank": 3, "horizon": 2, "amplitude": 0.5},
    "rich-lock": {"horizon": 3, "n_actions": 2},
    "rich-lock-game": {"horizon": 2, "n_actions": 2},
    "gym": {"id": "CartPole-v1", "horizon": 4},
}


def problem(env: str, rounds: int = 4, **settings: Any) -> Problem:
    algo = "contrastive-ulcb" if env.endswith("game") else "contrastive-ucb"
    return Problem(env, algo, {**ENVIRONMENTS[env], **QUICK, **settings}, rounds)


@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_seeds_together_are_seeds_alone(env: str, tmp_path: Path) -> None:
    both = solve(problem(env), [0, 1], tmp_path / "both", progress=False)
    [alone] = solve(problem(env), [1], tmp_path / "alone", progress=False)
    assert without_time(both[1]) == without_time(alone)
    assert both[0]["trajectories"] == 4 * 4 * ENVIRONMENTS[env]["horizon"]
    total = overall(both)
    assert total["seeds"] == [0, 1]
    metrics = [Path(run["run_dir"]) / "metrics.jsonl" for run in (both[1], alone)]
    assert metrics[0].read_bytes() == metrics[1].read_bytes()


@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_a_stopped_run_goes_on_as_if_nothing_had_happened(
    env: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = solve(problem(env), [0], tmp_path / "whole", progress=False, checkpoint_seconds=0)
    train, calls = neural_model.train, 0

    def dies(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise OSError("the power went")
        return train(*arguments)

    monkeypatch.setattr("contrastive_ucb.agents.finite.neural_model.train", dies)
    with pytest.raises(OSError, match="power"):
        solve(problem(env), [0], tmp_path / "cut", progress=False, checkpoint_seconds=0)
    said: list[str] = []
    cut = solve(problem(env), [0], tmp_path / "cut", progress=False, say=said.append)
    assert [line.split()[-1] for line in said] == ["2"]
    assert without_time(cut[0]) == without_time(whole[0])
    one, other = (Path(runs[0]["run_dir"]) for runs in (whole, cut))
    assert (one / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()


def test_a_nan_leaves_the_last_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, asked = neural_model.check_finite, problem("rich-lock")

    def broken(fitted: Any, number: int) -> None:
        if number == 3:
            fitted.weights["phi"].fill_(float("nan"))
        check(fitted, number)

    monkeypatch.setattr("contrastive_ucb.agents.finite.neural_model.check_finite", broken)
    with pytest.raises(ArithmeticError, match=r"'phi'.*round 3"):
        solve(asked, [0], tmp_path, progress=False, checkpoint_seconds=0)
    newest = latest_checkpoint(asked.spec(0).folder(tmp_path) / "checkpoints")
    assert newest is not None
    assert load_checkpoint(newest)["agent"]["n_rounds"] == 2


def test_a_run_ends_when_the_lock_is_open(tmp_path: Path) -> None:
    asked = problem("rich-lock", 200, trajectories=30, fit_steps=60, batch_size=64, n_draws=128)
    [summary] = solve(asked, [0], tmp_path, progress=False)
    assert summary["rounds"] == summary["solved_at"] + 4
    assert summary["trajectories"] == summary["rounds"] * 30 * 3
    folder = Path(summary["run_dir"])
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(1, summary["rounds"] + 1))
    assert [row["return"] for row in rows[-5:]] == [1] * 5
    assert solve(asked, [0], tmp_path, progress=False)[0] == summary


def test_tabular_runs_do_not_depend_on_settings_of_networks() -> None:
    plain = Problem("lock", settings={"horizon": 3}).spec(0)
    assert not {"trajectories", "representation"} & plain.config["agent"].keys()
    assert plain.identity().startswith("e2273dc7e3648b51")
    neural = problem("rich-lock").spec(0).config["agent"]
    assert set(NeuralConfig.__dataclass_fields__) <= neural.keys()
    shown = Problem("lock", settings={"horizon": 3, "representation": "neural"})
    assert shown.spec(0).config["agent"]["representation"] == "neural"
    with pytest.raises(ValueError, match="hidden = 5 is for networks"):
        Problem("lock", settings={"hidden": 5})
    settings = {"hidden": 5, "representation": "neural"}
    default = {"sampler": "shared", "n_dead": 1}
    for given in (settings, {**default, **settings}):
        assert Problem("lock", settings=given).settings == settings
    assert Problem("rich-lock", settings={"hidden": 5}).is_observed


def test_settings_are_arguments_of_environment_and_agent() -> None:
    gym = Problem("gym", settings={"id": "CartPole-v1", "horizon": 4, "reward_high": 2})
    assert gym.env_settings == {
        "env_id": "CartPole-v1",
        "horizon": 4,
        "reward_low": 0.0,
        "reward_high": 2.0,
    }
    assert Problem("continuous", settings={"rank": 3}).env_settings["rank"] == 3
    both = Problem("continuous", settings={"rank": 3, "true_rank": 5})
    assert (both.env_settings["rank"], both.agent_settings) == (5, {"rank": 3})
    game = Problem("lock-game", "contrastive-ulcb", {"n_actions": 4})
    assert game.env_settings["n_actions"] == [4, 4]
    with pytest.raises(UserError, match="did you mean 'rich-lock'"):
        Problem("rich-lok")
    with pytest.raises(UserError, match="no setting of lock is called 'n_ded'; did you mean"):
        Problem("lock", settings={"n_ded": 3})


def test_clipped_rewards_of_all_seeds_are_printed_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--id", "MountainCar-v0", "--horizon", "2", "--rounds", "1", "--fit-steps", "1"]
    common = ["solve", "gym", *words, "--seeds", "2", "--out", str(tmp_path)]
    assert main(common) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "pays" in line]
    assert [line.split(":")[0] for line in said] == ["cucb"]
    assert "--reward-low -1" in said[0]
    assert main([*common, "--reward-low", "-1", "--reward-high", "0"]) == 0
    assert "pays" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["rich-lock", "--density", "uniform"], "needs bounds"),
        (["rich-lock", "--algo", "lsvi-ucb"], "needs tables"),
        (["continuous", "--amplitude", "2"], "amplitude must be"),
        (["continuous", "--amplitude", "nan"], "amplitude takes a number, got nan"),
        (["continuous", "--rank", "2", "--amplitude", "0.41421356237309515"], "amplitude must be"),
        (["gym", "--id", "Nope-v0"], "Gymnasium cannot make"),
        (["gym", "--reward-low", "nan"], "reward_low takes a number, got nan"),
        (["gym", "--reward-low", "-1", "--reward-high", "-0.5"], "reward_high at least 0"),
        (["gym", "--horizon", "501"], "give a horizon of at most 500"),
        (["lock", "--trajectories", "5"], "is for networks"),
        (["lock", "--hidden", "5"], "hidden = 5 is for networks and has no effect on tables"),
        (["lock", "--fit-steps", "7"], "fit_steps = 7 is for networks"),
        (["lock", "--sampler", "paper"], "sampler = 'paper' is for networks"),
        (["lock-game", "--density", "gaussian"], "density = 'gaussian' is for networks"),
        (["rich-lock", "--sweeps", "50"], "sweeps = 50 needs tables"),
        (["rich-lock", "--pseudo", "3"], "pseudo = 3.0 needs tables"),
        (["rich-lock-game", "--reseed-every", "3"], "reseed_every = 3 needs tables"),
    ],
)
def test_bad_options_are_one_line(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["solve", *words, "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert len(error.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())
