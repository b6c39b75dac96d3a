"""What a run takes up: in grids, in jobs, and what is said about mistakes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs.sweep_runs import jobs_of, solve_table, train_table

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.runs.grid import Job, Resources, grid_of


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


@given(
    cpus=st.floats(0.1, 64) | st.integers(1, 64),
    gpus=st.integers(0, 8) | st.floats(0, 1),
)
def test_resources_travel_with_the_job(cpus: float, gpus: float) -> None:
    [job] = jobs_of(solve_table(seeds=1, resources={"cpus": cpus, "gpus": gpus}))
    again = Job.from_json(json.loads(json.dumps(job.to_json())))
    assert again == job
    assert again.resources == Resources(cpus, gpus)


def test_jobs_that_were_written_down_before_there_were_resources_are_read() -> None:
    [job] = jobs_of(solve_table(seeds=1))
    content = job.to_json()
    del content["resources"]
    assert Job.from_json(content) == job


@pytest.mark.parametrize(
    ("resources", "says"),
    [
        (3, "resources is a table such as"),
        ({"cpu": 1}, "resources has no 'cpu'; did you mean 'cpus'"),
        ({"memory": 1}, "resources has no 'memory'; choose from cpus, gpus"),
        ({"cpus": "two"}, "cpus takes a number, got 'two'"),
        ({"cpus": True}, "cpus takes a number, got True"),
        ({"cpus": 0}, "cpus must be more than 0, got 0; 0.5 lets two"),
        ({"cpus": -1}, "cpus must be more than 0, got -1"),
        ({"cpus": float("nan")}, "cpus must be more than 0, got nan"),
        ({"gpus": float("inf")}, "gpus must be at least 0, got inf"),
        ({"gpus": 1.5}, "gpus must be an integer .*, got 1.5"),
    ],
)
def test_mistakes_are_one_line(resources: Any, says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        grid_of(solve_table(resources=resources), "g")
    assert "\n" not in str(caught.value)
