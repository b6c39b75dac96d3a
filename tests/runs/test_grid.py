"""Grids from tables: what runs there are, and what is said about mistakes."""

import json
from pathlib import Path
from typing import Any

import pytest
from runs.sweep_runs import LOWRANK, jobs_of, solve_table, train_table

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.runs.grid import Resources, grid_of, read_grid
from contrastive_ucb.runs.problem import Problem
from contrastive_ucb.runs.training import Training, read_settings

TOML = """
kind = "train"
env = ["DeepSea-5", "MinAtar/Breakout-v1"]
algo = "spr"
seeds = [3, 5]
steps = 40
settings.n_step = 2
settings.noisy = 0
[variants.visits]
algo = "spr-ucb"
settings.bonus.preset = "algorithm-1"
settings.n_step = 1
"""


def test_every_env_with_every_agent_and_seed(tmp_path: Path) -> None:
    (tmp_path / "my grid.toml").write_text(TOML)
    grid = read_grid(tmp_path / "my grid.toml")
    assert grid.name == "my-grid"
    assert [(job.task.env, job.label, job.seed) for job in grid.jobs] == [
        (env, label, seed)
        for env in ("DeepSea-5", "MinAtar/Breakout-v1")
        for label in ("spr", "visits")
        for seed in (3, 5)
    ]
    last = grid.jobs[-1].task
    assert isinstance(last, Training)
    assert last.settings == {"n_step": 1, "noisy": 0.0, "bonus.preset": "algorithm-1"}
    assert (last.config.n_step, last.config.bonus.optimistic) == (1, True)


def test_numbers_are_what_the_command_would_read() -> None:
    """A whole number in TOML must not make another run than the same number after --set."""
    words = ["noisy=0", "mlp=8,8", "epsilon=1,0", "replay_capacity=1e4", "bonus.scale=2"]
    settings: dict[str, Any] = {
        "noisy": 0,
        "mlp": [8, 8],
        "epsilon": [1, 0],
        "replay_capacity": 1e4,
    }
    settings |= {"bonus": {"scale": 2}}
    [job] = jobs_of({**train_table(), "settings": settings})
    command = Training("DeepSea-4", "spr", read_settings(words), 24)
    assert json.dumps(job.spec().to_json()) == json.dumps(command.spec().to_json())


def test_parts_stand_on_what_is_above_them() -> None:
    table = solve_table(5, 1, part=[{}, {"env": "lock", "settings": {"horizon": 2}, "rounds": 7}])
    with pytest.raises(UserError, match="no setting of lock is called 'n_states'"):
        grid_of(table, "g")
    table["settings"] = {"n_actions": 2, "horizon": 3}
    one, two = grid_of(table, "g").jobs
    assert one.task.env_settings["horizon"] == 3
    assert two.task.env_settings == {"horizon": 2, "n_actions": 2, "n_dead": 1}
    assert (one.task.rounds, two.task.rounds) == (5, 7)


def test_each_run_is_there_once() -> None:
    variants = {"other": {"algo": "uniform"}}
    grid = grid_of(solve_table(variants=variants, part=[{"seeds": 1}, {}]), "g")
    assert sorted((job.label, job.seed) for job in grid.jobs) == [
        ("contrastive-ucb", 0),
        ("contrastive-ucb", 1),
        ("other", 0),
        ("other", 1),
    ]


def test_over_makes_an_agent_per_value() -> None:
    jobs = jobs_of(solve_table(seeds=1, over={"alpha": [0.1, 1.0]}))
    assert [(job.label, job.task.agent_settings["alpha"]) for job in jobs] == [
        ("0.1", 0.1),
        ("1.0", 1.0),
    ]


def test_a_batch_is_one_job_with_the_runs_of_separate_jobs() -> None:
    separate = jobs_of(solve_table(seeds=[0, 1, 4]))
    batches = jobs_of(solve_table(seeds=[0, 1, 4], batch=True))
    assert [job.seeds for job in batches] == [[0, 1], [4]]
    assert [spec for job in batches for spec in job.specs()] == [job.spec() for job in separate]
    assert [f for job in batches for f in job.folders(Path())] == [
        job.folder(Path()) for job in separate
    ]


def test_probes_and_stopping_make_another_run() -> None:
    tables = [
        solve_table(seeds=1),
        solve_table(seeds=1, stops=True),
        solve_table(seeds=1, probes="contrastive_ucb.facts.probes:Spread"),
        solve_table(seeds=1, suite="facts"),
    ]
    specs = [job.spec() for job in jobs_of(*tables)]
    assert len({spec.identity() for spec in specs}) == 4
    assert [Problem.of_spec(spec).spec(0) for spec in specs] == specs


@pytest.mark.parametrize(
    ("one", "other"), [({"n_states": 10}, {"n_states": 10.0}), ({}, {"horizon": 3.0})]
)
def test_a_number_of_an_environment_has_one_type(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    first, second = (
        jobs_of(solve_table(seeds=1, settings={**LOWRANK, **own}))[0] for own in (one, other)
    )
    assert first.spec() == second.spec()
    assert first.spec().identity() == second.spec().identity()


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"kind": "solv"}, "kind must be 'solve' or 'train', got 'solv'"),
        (solve_table(sedes=3), "has no 'sedes'; did you mean 'seeds'"),
        (solve_table(rounds=0), "rounds must be at least 1, got 0"),
        ({k: v for k, v in solve_table().items() if k != "rounds"}, "needs rounds"),
        ({k: v for k, v in solve_table().items() if k != "env"}, "needs an env"),
        ({k: v for k, v in solve_table().items() if k != "algo"}, "needs an algo or variants"),
        (solve_table(env="lowrnk"), "did you mean 'lowrank'"),
        (solve_table(algo="uniforn"), "did you mean 'uniform'"),
        (solve_table(env="lowrank-game"), "contrastive-ucb is for MDPs"),
        (solve_table(env=3), "env must be a name or a list of names"),
        (solve_table(env="file", settings={"path": "no.npz", "rank": 2}), "no file at no.npz"),
        (solve_table(settings={"n_states": "ten"}), "n_states takes a whole number, got 'ten'"),
        (solve_table(env_seed=-1), "env_seed must be at least 0, got -1"),
        (solve_table(settings={"n_stats": 3}), "is called 'n_stats'; did you mean 'n_states'"),
        (solve_table(settings=3), "settings is a table"),
        (solve_table(settings={"alpha": "big"}), "alpha takes a number, got 'big'"),
        (solve_table(seeds=0), "seeds must be at least 1"),
        (solve_table(seeds=[]), "seeds is empty"),
        (solve_table(seeds=[1, -1]), "each of seeds must be at least 0, got -1"),
        (solve_table(name=3), "name must be a word"),
        (solve_table(name="a b"), "cannot be called 'a b'"),
        (solve_table(part=3), "part is a list of tables"),
        (solve_table(part=[]), "part is empty"),
        (
            solve_table(variants={"twin": {"algo": "contrastive-ucb"}}),
            "the label 'contrastive-ucb' and 'twin'; leave one",
        ),
        (
            train_table(part=[{"eval_episodes": 3}, {"eval_episodes": 5, "seeds": [7]}]),
            "the eval_episodes 3 and 5; leave one",
        ),
        (solve_table(over={"alpha": 3}), "over = .* needs one setting and algo"),
        (solve_table(stops=True, batch=True), "cannot be in a batch"),
        (solve_table(resources=3), "resources is a table such as"),
        (solve_table(resources={"cpu": 1}), "resources has no 'cpu'; did you mean 'cpus'"),
        (solve_table(resources={"cpus": "two"}), "cpus takes a number, got 'two'"),
        (solve_table(resources={"cpus": 0}), "cpus must be more than 0, got 0; 0.5 lets two"),
        (solve_table(resources={"cpus": float("nan")}), "cpus must be more than 0, got nan"),
        (solve_table(resources={"gpus": float("inf")}), "gpus must be at least 0, got inf"),
        (solve_table(resources={"gpus": 1.5}), "gpus must be an integer .*, got 1.5"),
        (solve_table(variants=3), "variants is a table of tables"),
        (solve_table(variants={"a": {}}), "variant 'a' needs an algo"),
        (
            solve_table(variants={"a": {"algo": "uniform", "set": 1}}),
            "has no 'set'; choose from algo",
        ),
        (train_table(env="Pnog"), "did you mean 'Pong'"),
        (train_table(algo="sprr"), "did you mean 'spr'"),
        (train_table(settings={"n_stepp": 3}), "did you mean 'n_step'"),
        (train_table(settings={"n_step": 2.5}), "n_step takes a whole number, got 2.5"),
        (train_table(eval_episodes=0), "eval_episodes must be at least 1"),
    ],
)
def test_mistakes_are_named(table: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        grid_of(table, "g")
    assert "\n" not in str(caught.value)


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "g.toml"
    with pytest.raises(UserError, match=r"cannot be read \(No such file.*; name an existing"):
        read_grid(path)
    path.write_text("kind = train\n")
    with pytest.raises(UserError, match=r"g.toml is not valid TOML: .*line 1"):
        read_grid(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match=r"g.toml is not valid TOML"):
        read_grid(path)
    path.write_text('kind = "walk"\n')
    with pytest.raises(UserError, match=r"g.toml: kind must be"):
        read_grid(path)


def test_the_rank_of_the_model_speaks_for_the_truth_unless_that_is_given() -> None:
    ranks = [{}, {"rank": 2}, {"true_rank": 2}, {"true_rank": 2, "rank": 4}]
    found = []
    for rank in ranks:
        settings = {**{k: v for k, v in LOWRANK.items() if k != "rank"}, **rank}
        [job] = jobs_of(solve_table(seeds=1, settings=settings))
        config = job.spec().config
        found.append((config["env"]["rank"], config["agent"]["rank"]))
    assert found == [(3, None), (2, 2), (2, None), (2, 4)]


def test_a_grid_asks_for_its_runs_and_a_part_for_its_own() -> None:
    part = [{}, {"rounds": 7, "resources": {"gpus": 0.5}}]
    plain = grid_of(solve_table(seeds=1, part=part), "g").jobs
    assert [job.resources for job in plain] == [Resources(1, 0), Resources(1, 0.5)]
    table = solve_table(seeds=1, resources={"cpus": 2}, part=part)
    assert [job.resources for job in grid_of(table, "g").jobs] == [Resources(2), Resources(1, 0.5)]
    [deep] = jobs_of(train_table(resources={"cpus": 0.5, "gpus": 1}))
    assert deep.resources == Resources(0.5, 1)


def test_resources_are_no_part_of_what_a_run_is() -> None:
    [small] = jobs_of(solve_table(seeds=1))
    [large] = jobs_of(solve_table(seeds=1, resources={"cpus": 4, "gpus": 1}))
    assert small.spec() == large.spec()
    assert small.spec().to_json() == large.spec().to_json()
    assert small != large
