"""The command line: what it prints, where, and how it fails."""

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest
from cli_errors import check_error

from contrastive_ucb.agents.finite.presets import GAME_PRESETS
from contrastive_ucb.cli import main
from contrastive_ucb.envs import LowRankGame
from contrastive_ucb.evaluation.exact import nash_value

FAST = ["--rounds", "5", "--json"]


def last_json(capsys: pytest.CaptureFixture[str]) -> dict:
    return json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.mark.parametrize(
    "env",
    [
        ["lowrank", "--n-states", "6", "--rank", "2"],
        ["lock", "--n-dead", "3", "--n-actions", "3"],
        ["deepsea", "--size", "4"],
        ["riverswim", "--horizon", "5"],
    ],
)
@pytest.mark.parametrize("algo", ["contrastive-ucb", "rep-ucb", "lsvi-ucb", "ucbvi", "uniform"])
def test_solve_runs_every_algorithm_on_every_environment(
    env: list[str], algo: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["solve", *env, "--algo", algo, *FAST, "--out", str(tmp_path)]) == 0
    summary = last_json(capsys)
    assert summary["algo"] == algo
    assert summary["rounds"] == 5
    assert Path(summary["run_dir"]).is_relative_to(tmp_path)
    assert ("solved_at" in summary) == (env[0] in ("lock", "deepsea"))


@pytest.mark.parametrize("algo", GAME_PRESETS)
@pytest.mark.parametrize("env", [["lowrank-game", "--rank", "2"], ["lock-game", "--n-dead", "2"]])
def test_solve_runs_every_algorithm_on_every_game(
    env: list[str], algo: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--n-actions", "2", "--n-column-actions", "3", "--horizon", "2"]
    assert main(["solve", *env, *sizes, "--algo", algo, *FAST, "--out", str(tmp_path)]) == 0
    summary = last_json(capsys)
    assert (summary["algo"], summary["rounds"]) == (algo, 5)
    assert sum(summary["cce_stages"].values()) > 0
    assert ("solved_at" in summary) == (env[0] == "lock-game")


def test_own_game_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    game = LowRankGame(4, (2, 3), 2, 2, seed=1)
    path = tmp_path / "my_game.npz"
    np.savez(path, transitions=game.transitions, rewards=game.rewards)
    words = ["solve", "file", f"--path={path}", "--rank", "2", *FAST, "--out", str(tmp_path)]
    assert main([*words, "--algo", "contrastive-ulcb"]) == 0
    assert last_json(capsys)["nash_value"] == pytest.approx(nash_value(game))
    assert main(words) == 0  # a game's own algorithm is the default
    assert last_json(capsys)["algo"] == "contrastive-ulcb"


@pytest.mark.parametrize(
    ("env", "switch"),
    [
        ("lowrank", "--schedule theory"),
        ("lowrank", "--covariance averaged"),
        ("lowrank", "--negatives exact"),
        ("lowrank", "--function-class finite --class-size 4"),
        ("lowrank", "--reward learned"),
        ("lowrank", "--clip off"),
        ("lowrank", "--tilt 2"),
        ("lowrank", "--alpha 0.2"),
        ("lowrank-game", "--equilibrium midpoint"),
        ("lowrank-game", "--iota 5"),
    ],
)
def test_every_switch_changes_the_run(
    env: str, switch: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = ["solve", env, "--rounds", "30", "--json", "--out", str(tmp_path)]
    metrics = []
    for words in (plain, [*plain, *switch.split()]):
        assert main(words) == 0
        metrics.append(Path(last_json(capsys)["run_dir"], "metrics.jsonl").read_text())
    assert metrics[0] != metrics[1]


def test_presets_are_the_defaults_that_options_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ["solve", "lowrank", "--algo", "epsilon-greedy", *FAST, "--out", str(tmp_path)]
    assert main([*base, "--epsilon", "0"]) == 0
    spec = json.loads(Path(last_json(capsys)["run_dir"], "spec.json").read_text())
    assert spec["config"]["agent"]["epsilon"] == 0
    assert main(base) == 0
    spec = json.loads(Path(last_json(capsys)["run_dir"], "spec.json").read_text())
    assert spec["config"]["agent"]["epsilon"] == 0.1


def test_inputs_are_the_settings_that_differ_from_the_defaults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two = ["--algo", "uniform", "--algo", "no-bonus", "--n-states", "10", "--rank=3"]
    assert main(["solve", "lowrank", *two, *FAST, "--out", str(tmp_path)]) == 0
    spec = json.loads(Path(last_json(capsys)["run_dir"], "spec.json").read_text())
    assert (spec["agent"], spec["config"]["agent"]["epsilon"]) == ("no-bonus", 0)  # the last one
    inputs = {"algo": "no-bonus", "env": "lowrank", "settings": {"rank": 3}, "length": 5}
    assert spec["inputs"] == inputs


def test_several_seeds_have_means_and_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["solve", "lowrank", *FAST, "--seed", "2", "--seeds", "3", "--out", str(tmp_path)])
        == 0
    )
    summary = last_json(capsys)
    assert [run["seed"] for run in summary["runs"]] == [2, 3, 4]
    assert summary["zeta"] == pytest.approx(np.mean([run["zeta"] for run in summary["runs"]]))


def bad_file(tmp_path: Path, transitions: np.ndarray, rewards: np.ndarray) -> list[str]:
    path = tmp_path / "bad.npz"
    np.savez(path, transitions=transitions, rewards=rewards)
    return ["solve", "file", "--path", str(path), "--rank", "2", *FAST]


FAIR, HALF = np.full((2, 2, 2, 2), 0.5), np.full((2, 2, 2), 0.5)


@pytest.mark.parametrize(
    ("transitions", "rewards", "says"),
    [
        (FAIR * 0.9, HALF, "sum to 1"),
        (FAIR * np.array([-1, 3]), HALF, "negative"),
        (FAIR * np.nan, HALF, "finite"),
        (FAIR, HALF * 4, r"\[0, 1\]"),
        (FAIR, HALF - 1, r"\[0, 1\]"),
        (FAIR[0], HALF, "shape"),
    ],
)
def test_bad_arrays_are_one_line_and_exit_code_2(
    transitions: np.ndarray,
    rewards: np.ndarray,
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = bad_file(tmp_path, transitions, rewards)
    check_error([*arguments, "--out", str(tmp_path / "runs")], says, capsys)
    assert not list((tmp_path / "runs").rglob("DONE"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["solve", "lowrank-game", "--algo", "ucbvi"], "a game takes contrastive-ulcb"),
        (["solve", "lowrank", "--algo", "tight-cce"], "tight-cce is for games; an MDP takes"),
        (["solve", "lowrank-game", "--iota", "0"], "iota must be positive"),
        (["solve", "lock-game", "--n-actions", "1"], "n_actions must be at least 2"),
        (["solve", "lock", "--equilibrium", "cce"], "Unrecognized options"),
        (["solve", "lock", "--rounds", "0"], "rounds must be at least 1, got 0"),
        (["solve", "lock", "--rounds", "ten"], "'ten'"),
        (["solve", "lock", "--rank", "0"], "rank must be at least 1"),
        (["solve", "lock", "--n-dead", "0"], "n_dead must be at least 1"),
        (["solve", "lowrank", "--true-rank", "0"], "rank must be at least 1"),
        (["solve", "lowrank", "--algo", "no-bonus", "--alpha", "1"], "defined by alpha = 0"),
        (["solve", "lowrank", "--algo", "uniform", "--epsilon", "0"], "defined by epsilon = 1"),
        (["solve", "lowrank", "--algo", "ucbvi", "--features", "true"], "defined by features"),
        (["solve", "riverswim", "--env-seed", "-1"], "env_seed must be at least 0"),
        (["solve", "lock", "--checkpoint-seconds", "nan"], "checkpoint_seconds must be"),
        (["solve", "lowrank", "--n-states", "1000000000"], "out of memory|too large|Unable"),
        (["solve", "lock", "--alpha", "nan"], "alpha takes a number, or none, got nan"),
        (["solve", "lock", "--colour", "red"], "--colour"),
        (["solve", "lock", "--negatives", "none"], "'sampled', 'exact'"),
        (["solve", "lock", "--algo", "contrastive"], "did you mean 'contrastive-ucb'"),
        (["solve", "lok"], "did you mean 'lock'"),
        (["solve", "file"], "needs a file; set path"),
        (["solve", "file", "--path", "nowhere.npz", "--rank", "2"], "no file at nowhere.npz"),
        (["solve", "lock", "--out", "/proc/nowhere", "--rounds", "2"], "--out"),
        (["solve", "--json"], "no environment is called '--json'"),
        (["slove"], "did you mean 'solve'"),
        (["demo", "--seeds", "0"], "seeds must be at least 1"),
        (["demo", "--sea-seeds", "0"], "sea_seeds must be at least 1"),
        (["demo", "--sea-steps", "99"], "sea_steps must be at least 100"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check_error(arguments, says, capsys)


def test_debug_shows_the_traceback() -> None:
    with pytest.raises(ValueError, match="no environment"):
        main(["solve", "lok", "--debug"])


def test_missing_rank_tells_what_the_table_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "m.npz", transitions=FAIR, rewards=HALF)
    arguments = ["solve", "file", "--path", str(tmp_path / "m.npz"), "--out", str(tmp_path)]
    check_error(arguments, "its table has rank 1", capsys)


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["solve", "--help"], ["solve", "lock", "--help"], ["demo", "--help"]],
)
def test_help_explains_without_torch(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.suppress(SystemExit):  # tyro's help exits
        assert main(arguments) == 0
    assert "usage: cucb" in capsys.readouterr().out


def test_demo_makes_its_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--rounds", "20", "--lock-rounds", "10", "--seeds", "2"]
    sizes += ["--game-rounds", "5", "--lock-game-rounds", "5"]
    sizes += ["--sea-steps", "104", "--sea-seeds", "2"]
    assert main(["demo", *sizes, "--json", "--out", str(tmp_path)]) == 0
    printed = last_json(capsys)
    page = Path(printed["page"])
    assert page.is_relative_to(tmp_path.resolve())
    text = page.read_text()
    assert text.count("<svg") >= 3
    assert "cucb solve lock --algo contrastive-ucb" in text
    settings = "jumps=2 learning_rate=0.002 bonus.preset=algorithm-1"
    sea = f"cucb train DeepSea-8 --algo spr-ucb --set {settings} --steps 104"
    assert f"{sea} --threads 1 --seed 0 --seeds 2" in text
    dived = printed["results"][-2:]
    assert [(one["algo"], one["seeds"]) for one in dived] == [("spr", [0, 1]), ("spr-ucb", [0, 1])]
    assert all(0 <= one["evaluation"]["mean"] <= 1 for one in dived)
