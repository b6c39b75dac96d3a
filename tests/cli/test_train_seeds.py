"""`cucb train --seeds N`: each seed is the run it would be alone."""

import json
from pathlib import Path

import pytest
from runs.training_runs import SEA, WORDS

from contrastive_ucb.cli import main


def train(out: Path, *words: str) -> list[str]:
    return ["train", SEA, "--steps", "24", "--eval-episodes", "2", "--out", str(out), *words]


def test_seeds_together_and_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["--set", *WORDS, "precision=bfloat16"]
    seeds = ["--seed", "3", "--seeds=2"]
    assert main([*train(tmp_path / "both", *seeds, "--json"), *settings]) == 0
    printed = capsys.readouterr()
    both = json.loads(printed.out.splitlines()[-1])
    assert [run["seed"] for run in both["runs"]] == [3, 4]
    assert (both["seed"], both["seeds"], both["solved"]) == (3, 2, 0)
    assert both["precision"] == "bfloat16"
    assert both["evaluation"]["mean"] == sum(r["evaluation"]["mean"] for r in both["runs"]) / 2
    assert "seed 4: mean score" in printed.err
    alone = train(tmp_path / "alone", "--seed", "4", "--threads", "1", "--json")
    assert main([*alone, *settings]) == 0
    one = json.loads(capsys.readouterr().out.splitlines()[-1])
    for name in ("metrics.jsonl", "eval.jsonl"):
        files = [Path(run["run_dir"], name).read_bytes() for run in (one, both["runs"][1])]
        assert files[0] == files[1]


def test_wrong_settings_fail_before_any_seed_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(train(tmp_path, "--seeds", "2", "--set", "n_stepp=3")) == 2
    assert "did you mean 'n_step'" in capsys.readouterr().err.strip().splitlines()[-1]
    assert not list(tmp_path.iterdir())


def test_the_error_of_a_seed_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(train(tmp_path, "--seeds", "2", "--set", *WORDS, "learning_rate=1e38")) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert "2 of 2 seeds failed; seed 0:" in last
    assert "is not finite" in last
