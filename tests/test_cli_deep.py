"""`cucb train` and `cucb eval`: what they print, where, and how they fail."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from cli_errors import check_error

from contrastive_ucb.agents.deep.presets import DEEP_PRESETS
from contrastive_ucb.cli import main
from contrastive_ucb.runs.training import Training, read_settings

TINY = "first_update=20 hidden=8 mlp=8 atoms=11 batch_size=4 n_step=3 jumps=2 updates_per_step=1"
FAST = ["--steps", "24", "--eval-episodes", "4", "--json", "--set", *TINY.split()]


def last_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads(capsys.readouterr().out)  # nothing else
    return summary


RAINBOWS = [
    (algo, env)
    for algo in DEEP_PRESETS
    for env in ("DeepSea-5", "CartPole-v1", "MinAtar/Breakout-v1")
    if algo != "curl" or env.startswith("MinAtar")  # it crops images
]


@pytest.mark.parametrize(("algo", "env"), RAINBOWS)
def test_train_runs_every_algorithm_everywhere(
    algo: str, env: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", env, "--algo", algo, *FAST, "--out", str(tmp_path)]) == 0
    summary = last_json(capsys)
    assert (summary["algo"], summary["env"], summary["steps"]) == (algo, env, 24)
    assert summary["updates"] == 4
    assert Path(summary["run_dir"]).is_relative_to(tmp_path / "train" / algo)
    assert ("solved_at" in summary) == (env == "DeepSea-5")


@pytest.mark.parametrize("algo", [name for name in DEEP_PRESETS if name != "spr-ucb"])
def test_every_algorithm_takes_the_bonus_by_one_flag(
    algo: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "MinAtar/Breakout-v1", "--algo", algo, *FAST, "bonus.scale=1"]
    assert main([*words, "--out", str(tmp_path)]) == 0
    summary = last_json(capsys)
    assert summary["bonus"].split()[0] == "paper"
    noted = (Path(summary["run_dir"]) / "metrics.jsonl").read_text()
    assert '"bonus/mean"' in noted


def test_algos_shows_every_algorithm_and_where_they_differ(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["algos", "--json"]) == 0
    printed = capsys.readouterr()
    table, said = json.loads(printed.out), printed.err
    assert table["algos"].keys() == {*DEEP_PRESETS, "simple", "ppo"}
    assert table["algos"]["otr"]["settings"]["updates_per_step"] == 8
    assert "atoms" not in table["algos"]["otr"]["settings"]  # alike in all
    assert table["algos"]["curl"]["settings"]["curl_weight"] == 0.01  # on Pong
    assert all(one["what"] in said and one["source"] in said for one in table["algos"].values())
    row = next(line.split() for line in said.splitlines() if line.startswith("n_step"))
    header = next(line.split() for line in said.splitlines() if line.startswith("setting"))
    assert dict(zip(header, row, strict=True))["curl"] == "20"
    assert main(["algos", "--env", "MinAtar/Breakout-v1", "--json"]) == 0
    small = last_json(capsys)
    assert small["algos"]["der"]["settings"]["target_every"] == 200


def test_eval_repeats_the_last_evaluation_and_takes_run_or_root(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "CartPole-v1", *FAST, "--out", str(tmp_path)]
    assert main(words) == 0
    summary = last_json(capsys)
    for where in (str(tmp_path), summary["run_dir"]):
        assert main(["eval", where, "--episodes", "4", "--json"]) == 0
        found = last_json(capsys)
        lines = Path(summary["run_dir"], "eval.jsonl").read_text().splitlines()
        final = json.loads(lines[-1])
        assert {name: found[name] for name in final} == final
        assert final["mean"] == summary["evaluation"]["points"][-1]["mean"]
        assert (len(found["scores"]), found["step"]) == (4, 24)
        assert found["run_dir"] == summary["run_dir"]
    assert main([*words, "--resume"]) == 0
    said = capsys.readouterr()
    assert "finished already" in said.err
    assert json.loads(said.out.splitlines()[-1]) == summary


def test_other_episodes_of_a_finished_run_are_not_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "DeepSea-5", "--out", str(tmp_path), *FAST]  # 4 episodes
    assert main(words) == 0
    said = capsys.readouterr()
    summary = json.loads(said.out.splitlines()[-1])
    assert "evaluated with" not in said.err
    more = f"cucb eval {summary['run_dir']} --episodes"
    for option in (["--eval-episodes", "50"], ["--eval-episodes=20"], ["--eval_episodes", "20"]):
        count = re.findall("[0-9]+", option[-1])[-1]
        assert main([*words, *option]) == 0
        said = capsys.readouterr()
        lines = [line for line in said.err.splitlines() if "evaluated" in line]
        assert lines == [f"it was evaluated with 4 episodes; {more} {count} plays {count}"]
        assert json.loads(said.out.splitlines()[-1]) == summary
    default = [word for word in words if word not in ("--eval-episodes", "4")]
    assert main(default) == 0
    said = capsys.readouterr()
    assert "finished already" in said.err
    assert "evaluated with" not in said.err


def test_eval_takes_random_actions_if_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "CartPole-v1", *FAST, "--out", str(tmp_path)]) == 0
    words = ["eval", str(tmp_path), "--episodes", "40", "--json", "--epsilon"]
    scores = []
    capsys.readouterr()
    for epsilon in ("0", "1"):
        assert main([*words, epsilon]) == 0
        found = last_json(capsys)
        assert found["epsilon"] == float(epsilon)
        scores.append(found["scores"])
    assert scores[0] != scores[1]
    assert 15 < sum(scores[1]) / 40 < 30  # random play lasts about 22 steps
    check_error([*words, "2"], "epsilon must be in", capsys)


def test_threads_are_as_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    assert main(["train", "DeepSea-5", *FAST, "--threads", "2", "--out", str(tmp_path)]) == 0
    assert main(["eval", str(tmp_path), "--episodes", "2"]) == 0
    assert asked[0] == 2
    assert 1 in asked


def test_settings_are_read_in_their_type() -> None:
    words = "n_step=3 noisy=0 double=off mlp=16 epsilon=1,0.1 support=-1,5 bonus.scale=1e-1"
    more = "replay_capacity=1e4 bonus.preset=reference bonus.optimistic=True encoder=mlp"
    settings = {
        "n_step": 3,
        "noisy": 0.0,
        "double": False,
        "mlp": (16,),
        "epsilon": (1.0, 0.1),
        "support": (-1.0, 5.0),
        "bonus.scale": 0.1,
        "replay_capacity": 10_000,
        "bonus.preset": "reference",
        "bonus.optimistic": True,
        "encoder": "mlp",
    }
    read = Training("Pong", settings=read_settings([*words.split(), *more.split()])).settings
    assert read == settings
    assert [type(value) for value in read.values()] == [type(v) for v in settings.values()]
    assert read_settings(["support=none"]) == {"support": None}


def test_set_may_be_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "DeepSea-5", "--set", "discount=0.5", "--algo", "spr", *FAST]
    assert main([*words, "--set=double=no", "--out", str(tmp_path)]) == 0
    agent = json.loads(Path(last_json(capsys)["run_dir"], "spec.json").read_text())["config"][
        "agent"
    ]
    assert (agent["discount"], agent["double"], agent["hidden"]) == (0.5, False, 8)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["train", "Pnog"], "did you mean 'Pong'"),
        (["train", "CartPole-v1", "--algo", "curl"], "CURL needs images.*choose another agent"),
        (["train", "DeepSea-5", "--set", "precision=float16"], "one of float32, bfloat16, got"),
        (["train", "DeepSea-0"], "size of DeepSea must be at least 1"),
        (["train", "Pendulum-v1"], "need Discrete"),
        (["train", "DeepSea-5", "--algo", "spr-ubc"], "did you mean 'spr-ucb'"),
        (["train", "DeepSea-5", "--set", "n_stpe=3"], "'n_stpe'; did you mean 'n_step'"),
        (["train", "DeepSea-5", "--set", "bonus.scala=3"], "did you mean 'bonus.scale'"),
        (["train", "DeepSea-5", "--set", "n_step=ten"], "n_step takes a whole number, got 'ten'"),
        (["train", "DeepSea-5", "--set", "n_step=1.5"], "n_step takes a whole number, got 1.5"),
        (["train", "DeepSea-5", "--set", "n_step=0"], "n_step must be at least 1"),
        (["train", "DeepSea-5", "--set", "n_step"], "write KEY=VALUE"),
        (["train", "DeepSea-5", "--set", "noisy=nan"], "noisy takes a number, got 'nan'"),
        (["train", "DeepSea-5", "--set", "double=maybe"], "double takes true or false"),
        (["train", "DeepSea-5", "--set", "epsilon=1"], "epsilon takes 2 numbers such as"),
        (["train", "DeepSea-5", "--set", "support=1"], "2 numbers such as 0,10, or none, got 1"),
        (["train", "DeepSea-5", "--set", "mlp=a,b"], "mlp takes whole numbers such as 64,64"),
        (["train", "DeepSea-5", "--set", "bonus.feature=x"], "takes one of probs, hidden"),
        (["train", "DeepSea-5", "--set", "bonus.preset=papre"], "did you mean 'paper'"),
        (["train", "DeepSea-5", "--steps", "0"], "steps must be at least 1"),
        (["train", "DeepSea-5", "--seed", "-1"], "seed must be at least 0"),
        (["train", "DeepSea-5", "--threads", "0"], "threads must be at least 1"),
        (["train", "DeepSea-5", "--checkpoint-seconds", "nan"], "checkpoint_seconds must be"),
        (["train", "DeepSea-5", "--colour", "red"], "--colour"),
        (["train", "--json"], "Missing from cucb train: ENV"),
        (["eval", "--json"], "Missing from cucb eval: RUN"),
        (["eval", "nowhere"], "no folder nowhere"),
        (["eval", "src"], "no run of 'cucb train'"),
        (["eval", "src", "--episodes", "0"], "episodes must be at least 1"),
        (["trian"], "did you mean 'train'"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(
    arguments: list[str],
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path)
    check_error(arguments, says, capsys)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("words", [["train"], ["train", "--help"], ["eval"], ["play"], ["status"]])
def test_help_explains(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    said = capsys.readouterr().out
    assert f"usage: cucb {words[0]}" in said
    assert "--json" in said


def test_an_environment_of_a_module_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mymodule.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Mine-v0', 'gymnasium.envs.classic_control:CartPoleEnv')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [path for path in sys.path if path])
    assert main(["train", "mymodule:Mine-v0", *FAST]) == 0
    assert last_json(capsys)["env"] == "mymodule:Mine-v0"


def test_a_run_shorter_than_its_warm_up_is_remarked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "DeepSea-4", "--steps", "9", "--out", str(tmp_path)]) == 0
    assert "use at least 101 steps" in capsys.readouterr().err
