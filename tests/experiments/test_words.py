"""Commands from tasks and from specifications: read again, they are the same runs."""

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.sweep_runs import jobs_of, solve_table, train_table
from experiments.test_catalog import of_solve, of_train

from contrastive_ucb.experiments.job import Job
from contrastive_ucb.experiments.spec import RunSpec
from contrastive_ucb.experiments.words import (
    commands,
    spec_elsewhere,
    words_of_spec,
    words_of_task,
)

GYM = {"id": "Acrobot-v1", "horizon": 20, "reward_low": -1, "reward_high": 0}
TABLES: dict[str, dict[str, Any]] = {
    "gym": solve_table(3, 1, env="gym", settings={**GYM, "rank": 3, "hidden": 8}),
    "rich lock": solve_table(3, 1, env="rich-lock", settings={"horizon": 3, "fit_steps": 7}),
    "continuous": solve_table(3, 1, env="continuous", settings={"true_rank": 3, "rank": 2}),
    "lowrank": solve_table(3, 1, settings={"reward_kind": "linear", "true_rank": 2, "alpha": 1}),
    "game": solve_table(
        3,
        1,
        env="lowrank-game",
        algo="tight-cce",
        settings={"n_actions": 2, "n_column_actions": 3, "iota": 0.5},
    ),
    "simple": train_table(24, algo="simple", settings={"bits": 4, "extra_rounds": [1, 2]}),
    "simple, full": train_table(24, algo="simple", settings={"size": "full", "middle": 1}),
    "bonus": train_table(24, settings={"bonus.preset": "algorithm-1", "n_step": 2}),
    "curl": train_table(24, env="Pong", algo="curl", settings={}),
    "curl, as elsewhere": train_table(24, env="Pong", algo="curl", settings={"curl_weight": 1}),
}


def identity_of(command: str) -> tuple[str, int]:
    """Which run a command would be, without running it."""
    _cucb, kind, *words = shlex.split(command)
    at = words.index("--seed")
    words, seed = words[:at], int(words[at + 1])
    if kind == "train":
        [(identity, _)] = of_train([(shlex.join(["train", *words]), 1)])
    else:
        [(identity, _)] = of_solve(words)
    return identity, seed


@pytest.mark.parametrize("name", TABLES)
def test_a_command_is_its_run(name: str, tmp_path: Path) -> None:
    """Of gyms, files and SimPLe it once was another one, or none at all."""
    [job] = jobs_of(TABLES[name])
    wanted = (job.spec().identity(), 0)
    assert identity_of(job.command(tmp_path)) == wanted
    [command] = commands(words_of_spec(job.spec()), [0], tmp_path)
    assert identity_of(command) == wanted


def test_plain_runs_have_plain_commands() -> None:
    [job] = jobs_of(TABLES["curl"])
    plain = "cucb train Pong --algo curl --steps 24 --threads 1"
    assert shlex.join(words_of_spec(job.spec())) == shlex.join(job.words()) == plain
    words = words_of_task(job.task, 20)
    assert words == words_of_spec(job.spec(), 20)
    assert words[-2:] == ["--eval-episodes", "20"]
    assert words_of_spec(job.spec(), 100) == job.words()  # the default on Atari


def test_a_file_stands_with_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("m.npz", transitions=np.full((1, 2, 2, 2), 0.5), rewards=np.ones((1, 2, 2)))
    [job] = jobs_of(solve_table(3, 1, env="file", settings={"path": "m.npz", "rank": 2}))
    words = job.words()
    assert words[words.index("--path") + 1] == str(tmp_path / "m.npz")
    unknown = words_of_spec(job.spec())  # it knows the content, not the place
    assert [word for word in unknown if word != "FILE.npz"] == [
        word for word in words if word != str(tmp_path / "m.npz")
    ]


def test_seeds_go_together(tmp_path: Path) -> None:
    assert commands(["cucb", "x"], [4, 0, 1], tmp_path) == [
        f"cucb x --seed 0 --seeds 2 --out {tmp_path}",
        f"cucb x --seed 4 --out {tmp_path}",
    ]
    assert commands(["cucb", "x"], [3], None) == ["cucb x --seed 3"]


def test_the_same_agent_in_another_game_has_the_settings_of_that_game() -> None:
    def job(env: str, **settings: Any) -> Job:
        return jobs_of(train_table(24, env=env, algo="curl", settings=settings))[0]

    assert spec_elsewhere(job("Alien").spec(), "Pong") == job("Pong").spec()
    assert spec_elsewhere(job("Pong").spec(), "Alien") == job("Alien").spec()
    changed = {"n_step": 2, "epsilon": [1.0, 0.5]}
    assert spec_elsewhere(job("Pong", **changed).spec(), "Alien") == job("Alien", **changed).spec()
    odd = RunSpec("train", "mine", "Pong", 3, {"env": "Pong", "steps": 7})
    assert spec_elsewhere(odd, "Alien") == RunSpec(
        "train", "mine", "Alien", 3, {"env": "Alien", "steps": 7}
    )
