"""Grids from tables: the runs, jobs as JSON, and errors."""

import json
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from runs.sweep_runs import LOWRANK, jobs_of, results_of, solve_table, train_table

from contrastive_ucb.cli import main
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.runs.grid import Job, Resources, grid_of, read_grid
from contrastive_ucb.runs.problem import Problem
from contrastive_ucb.runs.training import Training, read_settings
from contrastive_ucb.runs.worker import run_job

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
GAME = {
    "env": "lowrank-game",
    "algo": "tight-cce",
    "settings": {"n_states": 4, "n_actions": 2, "n_column_actions": 3, "rank": 2, "horizon": 2},
}
TABLES: dict[str, dict[str, Any]] = {
    "mdp": solve_table(4, 1, env_seed=3, resources={"cpus": 0.5, "gpus": 2}),
    "game": solve_table(4, 1, **GAME),
    "wrong rank": solve_table(4, 1, settings={"n_states": 5, "true_rank": 2, "rank": 3}),
    "all defaults": solve_table(2, 1, env="riverswim", settings={}),
    "deep": train_table(21, seeds=[2], eval_episodes=3),
}
TABLES["deep"]["settings"] |= {"noisy": 0, "epsilon": [1, 0.1], "double": False, "support": [-1, 2]}


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in solve_table().items() if name != key}


def test_every_env_with_every_agent_and_seed(tmp_path: Path) -> None:
    (tmp_path / "my grid.toml").write_text(TOML)
    grid = read_grid(tmp_path / "my grid.toml")
    table = tomllib.loads(TOML)
    again = grid_of({**table, "part": [{}, {"seeds": [3]}]}, "twice")
    assert again.jobs == grid.jobs  # each run once
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


def test_numbers_have_the_type_of_their_setting() -> None:
    """A whole number in TOML makes the same run as the same number after --set."""
    words = ["noisy=0", "mlp=8,8", "epsilon=1,0", "replay_capacity=1e4", "bonus.scale=2"]
    settings = {"noisy": 0, "mlp": [8, 8], "epsilon": [1, 0], "replay_capacity": 1e4}
    [job] = jobs_of({**train_table(), "settings": {**settings, "bonus": {"scale": 2}}})
    command = Training("DeepSea-4", "spr", read_settings(words), 24)
    assert json.dumps(job.spec().to_json()) == json.dumps(command.spec().to_json())
    for one, other in (({"n_states": 10}, {"n_states": 10.0}), ({}, {"horizon": 3.0})):
        tables = [solve_table(seeds=1, settings={**LOWRANK, **more}) for more in (one, other)]
        first, second = jobs_of(*tables)
        assert first.spec().identity() == second.spec().identity()


def test_parts_inherit_the_keys_above_them() -> None:
    part = [{}, {"env": "lock", "settings": {"horizon": 2}, "rounds": 7, "resources": {"gpus": 1}}]
    table = solve_table(5, 1, part=part, resources={"cpus": 2})
    with pytest.raises(UserError, match="no setting of lock is called 'n_states'"):
        grid_of(table, "g")
    table["settings"] = {"n_actions": 2, "horizon": 3}
    one, two = grid_of(table, "g").jobs
    assert one.task.env_settings["horizon"] == 3
    assert two.task.env_settings == {"horizon": 2, "n_actions": 2, "n_dead": 1}
    assert (one.task.rounds, two.task.rounds) == (5, 7)
    assert [job.resources for job in (one, two)] == [Resources(2), Resources(1, 1)]


def test_over_makes_an_agent_per_value() -> None:
    jobs = jobs_of(solve_table(seeds=1, over={"alpha": [0.1, 1.0]}))
    agents = [(job.label, job.task.agent_settings["alpha"]) for job in jobs]
    assert agents == [("0.1", 0.1), ("1.0", 1.0)]


def test_a_batch_is_one_job_with_the_runs_of_separate_jobs() -> None:
    separate = jobs_of(solve_table(seeds=[0, 1, 4]))
    batches = jobs_of(solve_table(seeds=[0, 1, 4], batch=True))
    assert [job.seeds for job in batches] == [[0, 1], [4]]
    assert [spec for job in batches for spec in job.specs] == [job.spec() for job in separate]
    assert [f for job in batches for f in job.folders(Path())] == [
        job.folder(Path()) for job in separate
    ]


def test_probes_and_stopping_change_a_run_and_resources_do_not() -> None:
    tables = [
        solve_table(seeds=1),
        solve_table(seeds=1, stops=True),
        solve_table(seeds=1, probes="contrastive_ucb.facts.probes:Spread"),
        solve_table(seeds=1, suite="facts"),
    ]
    specs = [job.spec() for job in jobs_of(*tables)]
    assert len({spec.identity() for spec in specs}) == 4
    assert [Problem.of_spec(spec).spec(0) for spec in specs] == specs
    [large] = jobs_of(solve_table(seeds=1, resources={"cpus": 4, "gpus": 1}))
    assert large.spec().to_json() == specs[0].to_json()


def test_the_rank_of_the_model_is_the_default_of_the_true_rank() -> None:
    ranks = []
    for rank in ({}, {"rank": 2}, {"true_rank": 2}, {"true_rank": 2, "rank": 4}):
        settings = {**{k: v for k, v in LOWRANK.items() if k != "rank"}, **rank}
        [job] = jobs_of(solve_table(seeds=1, settings=settings))
        config = job.spec().config
        ranks.append((config["env"]["rank"], config["agent"]["rank"]))
    assert ranks == [(3, None), (2, 2), (2, None), (2, 4)]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"kind": "solv"}, "kind must be 'solve' or 'train', got 'solv'"),
        (solve_table(sedes=3), "has no 'sedes'; did you mean 'seeds'"),
        (without("env"), "needs env"),
        (without("algo"), "needs an algo or variants"),
        (solve_table(env="lowrnk"), "did you mean 'lowrank'"),
        (solve_table(env="lowrank-game"), "contrastive-ucb is for MDPs"),
        (solve_table(env=3), "env must be a name or a list of names"),
        (solve_table(settings={"n_states": "ten"}), "n_states takes a whole number, got 'ten'"),
        (solve_table(settings={"n_stats": 3}), "is called 'n_stats'; did you mean 'n_states'"),
        (solve_table(settings=3), "settings is a table"),
        (solve_table(seeds=0), "seeds must be at least 1"),
        (solve_table(seeds=[]), "seeds is empty"),
        (solve_table(seeds=[1, -1]), "each of seeds must be at least 0, got -1"),
        (solve_table(name="a b"), "cannot be called 'a b'"),
        (solve_table(part=3), "part is a list of tables"),
        (
            solve_table(variants={"twin": {"algo": "contrastive-ucb"}}),
            r"\('contrastive-ucb', None\) and \('twin', None\); leave one",
        ),
        (
            train_table(part=[{"eval_episodes": 3}, {"eval_episodes": 5, "seeds": [7]}]),
            r"\('spr', 3\) and \('spr', 5\); leave one",
        ),
        (solve_table(over={"alpha": 3}), "over = .* needs one setting and algo"),
        (solve_table(stops=True, batch=True), "cannot be in a batch"),
        (solve_table(resources={"cpu": 1}), "resources has no 'cpu'; did you mean 'cpus'"),
        (solve_table(resources={"cpus": 0}), "cpus must be positive, got 0"),
        (solve_table(resources={"gpus": 1.5}), "gpus must be an integer .*, got 1.5"),
        (solve_table(variants={"a": {}}), "variant 'a' needs an algo"),
        (solve_table(variants={"a": {"set": 1}}), "has no 'set'; choose from algo"),
        (train_table(env="Pnog"), "did you mean 'Pong'"),
        (train_table(settings={"n_stepp": 3}), "did you mean 'n_step'"),
        (train_table(eval_episodes=0), "eval_episodes must be at least 1"),
    ],
)
def test_errors_name_the_value(table: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        grid_of(table, "g")
    assert "\n" not in str(caught.value)


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "g.toml"
    with pytest.raises(UserError, match=r"cannot be read \(No such file.*; name an existing"):
        read_grid(path)
    for content, says in (
        (b"kind = train\n", "is not valid TOML: .*line 1"),
        (b"\xff\xfe", "is not valid TOML"),
        (b'kind = "walk"\n', "kind must be"),
    ):
        path.write_bytes(content)
        with pytest.raises(UserError, match=f"g.toml:? {says}"):
            read_grid(path)


# Jobs


@pytest.mark.parametrize("name", TABLES)
def test_a_job_is_the_run_of_its_command_also_as_json(name: str, tmp_path: Path) -> None:
    [job] = jobs_of(TABLES[name])
    again = Job.from_json(json.loads(json.dumps(job.to_json())))
    assert (again.spec(), again.resources) == (job.spec(), job.resources)
    ours, theirs = tmp_path / "job", tmp_path / "command"
    summary = run_job(again, ours)
    assert Path(summary["run_dir"]) == job.folder(ours)
    assert main(shlex.split(job.command(theirs))[1:]) == 0
    assert results_of(ours) == results_of(theirs)
