"""From run folders to scores, gaps and commands: nothing is averaged over, nothing is lost."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report.runs import write_game_run, write_run
from report.score_runs import raw_score, write_atari, write_deep_run

from contrastive_ucb.cli import main
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.experiments.catalog import experiment
from contrastive_ucb.experiments.grid import grid_of
from contrastive_ucb.experiments.spec import RunSpec
from contrastive_ucb.experiments.words import neighbours
from contrastive_ucb.report.fill import commands
from contrastive_ucb.report.missing import (
    missing_commands,
    missing_games,
    missing_runs,
    read_entries,
    read_folder,
    seeds_text,
)
from contrastive_ucb.report.read import read_groups
from contrastive_ucb.report.scores import (
    KINDS,
    comparable,
    natural,
    on_shared_tasks,
    scores_by_agent,
)
from contrastive_ucb.stats.aggregate import Scores


def scores_in(root: Path, kind: str) -> dict[str, dict[str, list[float]]]:
    found = scores_by_agent(read_entries(root), KINDS[kind])
    return {
        one.name: {task: r.tolist() for task, r in zip(one.tasks, one.runs, strict=True)}
        for one in found
    }


def test_atari_scores_are_human_normalised(tmp_path: Path) -> None:
    write_atari(tmp_path, {"spr": 0.5, "spr-ucb": 0.7}, ["Pong", "Alien"], seeds=2)
    found = scores_in(tmp_path, "atari")
    assert [*found] == ["spr-ucb", "spr"]
    for agent, level in (("spr-ucb", 0.7), ("spr", 0.5)):
        assert [*found[agent]] == ["Alien", "Pong"]
        for runs in found[agent].values():
            assert runs == pytest.approx([level, level + 0.1])


def test_each_kind_has_its_own_number(tmp_path: Path) -> None:
    write_deep_run(tmp_path, "spr", "DeepSea-8", 0, score=0.25)
    write_run(tmp_path, "uniform", "lock", 0, level=2.0)  # regret 2 / 8 of a V* of 2
    write_game_run(tmp_path, "contrastive-ulcb", "lock-game", 0, level=1.0, policies=False)
    assert scores_in(tmp_path, "deep") == {"spr": {"DeepSea-8": [0.25]}}
    assert scores_in(tmp_path, "mdp") == {"uniform": {"lock": [0.875]}}
    assert scores_in(tmp_path, "game") == {"contrastive-ulcb": {"lock-game": [0.125]}}
    assert scores_in(tmp_path, "atari") == {}


def test_unfinished_runs_have_no_score(tmp_path: Path) -> None:
    write_deep_run(tmp_path, "spr", "Pong", 0, score=raw_score("Pong", 0.5))
    write_deep_run(tmp_path, "spr", "Pong", 1, finished=False)
    write_deep_run(tmp_path, "spr-ucb", "Pong", 0, finished=False)
    assert scores_in(tmp_path, "atari") == {"spr": {"Pong": pytest.approx([0.5])}}


def test_two_settings_of_one_agent_get_two_names(tmp_path: Path) -> None:
    for scale in (0.1, 1.0):
        config = {"agent": {"bonus": {"scale": scale}, "n_step": 3}}
        write_deep_run(tmp_path, "spr-ucb", "DeepSea-8", 0, score=scale, config=config)
    assert scores_in(tmp_path, "deep") == {
        "spr-ucb (bonus.scale=0.1)": {"DeepSea-8": [0.1]},
        "spr-ucb (bonus.scale=1.0)": {"DeepSea-8": [1.0]},
    }


def test_many_differing_settings_get_a_mark(tmp_path: Path) -> None:
    for value in (1, 2):
        config = {"agent": dict.fromkeys("abcd", value)}
        write_deep_run(tmp_path, "spr", "DeepSea-8", 0, config=config)
    names = [*scores_in(tmp_path, "deep")]
    assert len({*names}) == 2
    assert all(name.startswith("spr #") for name in names)


def test_budgets_and_environments_are_part_of_the_task(tmp_path: Path) -> None:
    for steps in (100, 200):
        write_deep_run(tmp_path, "spr", "DeepSea-8", 0, config={"steps": steps})
    found = scores_in(tmp_path, "deep")
    assert set(found["spr"]) == {"DeepSea-8 (steps=100)", "DeepSea-8 (steps=200)"}


def test_shared_tasks_are_those_of_all() -> None:
    x = Scores("x", ("a", "b", "c"), (np.ones(1), np.ones(2), np.ones(3)))
    y = Scores("y", ("c", "b"), (np.zeros(4), np.zeros(5)))
    found = on_shared_tasks([x, y])
    assert [one.tasks for one in found] == [("b", "c"), ("b", "c")]
    assert found[1].n_runs.tolist() == [5, 4]
    z = Scores("z", ("d",), (np.ones(1),))
    assert on_shared_tasks([x, z]) == []
    assert [one.name for one in comparable([x, z])] == ["x"]


def test_seeds_that_others_have_are_missing(tmp_path: Path) -> None:
    for seed in range(4):
        write_deep_run(tmp_path, "spr", "Pong", seed)
    write_deep_run(tmp_path, "spr-ucb", "Pong", 1)
    write_deep_run(tmp_path, "spr-ucb", "Pong", 2, finished=False)
    (gap,) = missing_runs(read_entries(tmp_path), tmp_path)
    assert (gap.agent, gap.task, gap.seeds) == ("spr-ucb", "Pong", (0, 2, 3))
    words = "cucb train Pong --algo spr-ucb --steps 100000 --threads 1 --seed"
    assert gap.commands == (
        f"{words} 0 --out {tmp_path}",
        f"{words} 2 --seeds 2 --out {tmp_path}",
    )
    assert missing_commands([gap, gap]) == gap.commands


def test_games_without_any_run_are_missing(tmp_path: Path) -> None:
    write_atari(tmp_path, {"spr": 0.5}, ["Pong"], seeds=2)
    (gap,) = missing_games(read_entries(tmp_path), ["Alien", "Pong"], tmp_path)
    assert (gap.task, gap.seeds) == ("Alien", (0, 1))
    assert gap.commands[0].startswith("cucb train Alien --algo spr --steps 100000")


def test_a_sweep_knows_its_names_and_its_gaps(tmp_path: Path) -> None:
    table = {
        "kind": "train",
        "env": "DeepSea-4",
        "algo": "spr",
        "variants": {"mine": {"algo": "spr-ucb", "settings": {"bonus.preset": "algorithm-1"}}},
        "seeds": 2,
        "steps": 200,
    }
    grid = grid_of(table, "small")
    grid.remember(tmp_path)
    first = next(job for job in grid.jobs if job.label == "mine")
    config = first.spec().config
    path = write_deep_run(tmp_path, "spr-ucb", "DeepSea-4", first.seed, config=dict(config))
    assert path == first.folder(tmp_path)
    entries = read_entries(tmp_path)
    assert [entry.agent for entry in entries] == ["mine"]
    gaps = {gap.agent: gap for gap in read_folder(tmp_path).missing}
    assert {name: gap.seeds for name, gap in gaps.items()} == {"mine": (1,), "spr": (0, 1)}
    assert "--set bonus.preset=algorithm-1 --steps 200" in gaps["mine"].commands[0]


def test_the_papers_grid_has_plain_commands(tmp_path: Path) -> None:
    job = next(job for job in experiment("atari26").jobs if job.task.algo == "spr-ucb")
    (command,) = commands(job.spec(), [job.seed], tmp_path, job.eval_episodes)
    assert command == (
        f"cucb train Alien --algo spr-ucb --steps 100000 --threads 1 --seed 0 --out {tmp_path}"
    )


@pytest.mark.parametrize(
    "words",
    [
        ["solve", "lowrank", "--n-states", "6", "--true-rank", "2", "--rounds", "4"],
        ["solve", "lock", "--n-dead", "3", "--negatives", "exact", "--env-seed", "7"],
        ["solve", "lowrank-game", "--n-actions", "2", "--n-column-actions", "3", "--iota", "0.5"],
        ["train", "DeepSea-4", "--algo", "spr", "--set", "n_step=2", "--steps", "40"],
        ["train", "DeepSea-4", "--set", "bonus.preset=algorithm-1", "hidden=8", "--steps", "40"],
    ],
)
def test_the_command_of_a_gap_fills_it(words: list[str], tmp_path: Path) -> None:
    short = ["--rounds", "4"] if words[0] == "solve" else ["--eval-episodes", "1"]
    assert main([*words, *short, "--seed", "1", "--out", str(tmp_path)]) == 0
    (group,) = read_groups(tmp_path)
    (command,) = commands(group.runs[0].spec, [2, 3], tmp_path, 1)
    for seed in ("2", "3"):  # one at a time: seeds of 'train' have processes of their own
        one = command.replace("--seed 2 --seeds 2", f"--seed {seed}")
        assert main(one.split()[1:]) == 0
    (group,) = read_groups(tmp_path)
    assert group.seeds == (1, 2, 3)


def test_neighbouring_seeds_go_together() -> None:
    assert neighbours([5, 0, 1, 2, 7, 8]) == [(0, 3), (5, 1), (7, 2)]
    assert seeds_text([5, 0, 1, 2, 7, 8]) == "0 to 2, 5, 7, 8"
    assert neighbours([]) == []


def test_other_suites_are_repeated_by_their_own_command(tmp_path: Path) -> None:
    spec = RunSpec("demo", "spr", "DeepSea-8", 0, {"steps": 400})
    assert commands(spec, [0, 4], tmp_path) == [f"cucb demo --out {tmp_path}"]
    assert commands(spec, [], tmp_path) == []


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there are no runs under"):
        read_entries(tmp_path)


def test_tasks_are_listed_by_the_size_of_their_numbers(tmp_path: Path) -> None:
    for size in (10, 8, 100):
        write_deep_run(tmp_path, "spr", f"DeepSea-{size}", 0)
    entries = read_entries(tmp_path)
    names = ["DeepSea-8", "DeepSea-10", "DeepSea-100"]
    assert [entry.task for entry in entries] == names
    assert scores_by_agent(entries, KINDS["deep"])[0].tasks == tuple(names)


@given(st.lists(st.text(st.characters(blacklist_categories=["Nd"]))))
def test_names_without_numbers_keep_their_usual_order(names: list[str]) -> None:
    assert sorted(names, key=natural) == sorted(names)


@given(st.text("ab-"), st.integers(0, 2000), st.integers(0, 2000), st.text("ab-"))
def test_numbers_within_names_count(before: str, one: int, other: int, after: str) -> None:
    first, second = (natural(f"{before}{number}{after}") for number in (one, other))
    assert (first < second) == (one < other)
