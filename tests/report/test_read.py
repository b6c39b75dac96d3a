"""Run folders become groups; what is damaged is named, what is unfinished is marked."""

import json

import numpy as np
import pytest
from report.runs import STEPS, write_run

from contrastive_ucb.agents.finite.presets import GAME_PRESETS, PRESETS
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.report.read import agent_order, missing_seeds, read_groups


def test_groups_are_sorted_with_contrastive_ucb_first_and_strangers_last(tmp_path):
    for agent in ("uniform", "contrastive-ucb", "a-peer"):
        for task in ("lowrank", "lock"):
            write_run(tmp_path, agent, task, 0)
    found = [(group.task, group.agent) for group in read_groups(tmp_path)]
    agents = ["contrastive-ucb", "uniform", "a-peer"]
    assert found == [(task, agent) for task in ("lock", "lowrank") for agent in agents]


@pytest.mark.parametrize("family", [PRESETS, GAME_PRESETS])
def test_agents_of_a_family_keep_its_order(family):
    assert sorted(set(family), key=agent_order) == list(family)


def test_runs_are_sorted_by_seed_as_a_number(tmp_path):
    for seed in (10, 9, 0):
        write_run(tmp_path, "uniform", "lock", seed)
    (group,) = read_groups(tmp_path)
    assert [run.seed for run in group.runs] == [0, 9, 10]


def test_a_series_has_a_row_a_seed(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path, "uniform", "lock", seed, level=1.0 + seed)
    (group,) = read_groups(tmp_path)
    steps, values = group.series("gap")
    assert steps.tolist() == list(STEPS)
    np.testing.assert_array_equal(values, np.outer([1, 2], 1 / np.array(STEPS)))


def test_a_series_has_the_steps_at_which_all_seeds_measured(tmp_path):
    write_run(tmp_path, "uniform", "lock", 0)
    write_run(tmp_path, "uniform", "lock", 1, steps=(1, 2, 4, 8))
    (group,) = read_groups(tmp_path)
    assert group.series("zeta")[0].tolist() == [1, 4, 8]
    steps, values = group.series("never measured")
    assert steps.shape == (0,)
    assert values.shape == (2, 0)


def test_the_last_line_of_a_step_counts(tmp_path):
    """Steps stand still while SimPLe learns."""
    path = write_run(tmp_path, "uniform", "lock", 0)
    with (path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 64, "gap": 7.0}\n{"step": 64, "gap": 5.0}\n')
    (group,) = read_groups(tmp_path)
    steps, values = group.series("gap")
    assert steps[-1] == 64
    assert values[0, -1] == 5.0


def test_unfinished_runs_are_marked_and_give_no_numbers(tmp_path):
    write_run(tmp_path, "uniform", "lock", 0)
    write_run(tmp_path, "uniform", "lock", 1, finished=False)
    (group,) = read_groups(tmp_path)
    assert [run.finished for run in group.runs] == [True, False]
    assert group.seeds == (0,)
    assert group.series("gap")[1].shape == (1, len(STEPS))
    assert group.runs[1].number("zeta") is None


def test_a_group_without_a_finished_run_has_empty_series(tmp_path):
    write_run(tmp_path, "uniform", "lock", 0, finished=False)
    (group,) = read_groups(tmp_path)
    steps, values = group.series("gap")
    assert steps.shape == (0,)
    assert values.shape == (0, 0)


def test_missing_seeds_are_those_unfinished_or_that_a_peer_has(tmp_path):
    for seed in (0, 1, 2):
        write_run(tmp_path, "contrastive-ucb", "lock", seed)
    write_run(tmp_path, "uniform", "lock", 0)
    write_run(tmp_path, "uniform", "lock", 2, finished=False)
    groups = read_groups(tmp_path)
    assert [missing_seeds(group, groups) for group in groups] == [[], [1, 2]]


def test_a_suite_can_be_chosen(tmp_path):
    write_run(tmp_path, "uniform", "lock", 0)
    write_run(tmp_path, "uniform", "lock", 0, suite="theory")
    assert len(read_groups(tmp_path)) == 2
    (group,) = read_groups(tmp_path, "theory")
    assert group.runs[0].spec.suite == "theory"


def test_folders_that_hold_no_run_yet_are_passed_over(tmp_path):
    path = write_run(tmp_path, "uniform", "lock", 0)
    (path.parent / "seed_1").mkdir()
    (path.parent / "seed_1" / ".lock").touch()
    (path.parent / ".seed_2").mkdir()
    (tmp_path / ".draft" / "a" / "b" / "seed_0").mkdir(parents=True)
    assert [run.seed for group in read_groups(tmp_path) for run in group.runs] == [0]


def test_a_run_in_progress_may_end_in_the_middle_of_a_line(tmp_path):
    path = write_run(tmp_path, "uniform", "lock", 0, finished=False)
    with (path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 99, "ga')
    (group,) = read_groups(tmp_path)
    assert len(group.runs[0].lines) == len(STEPS)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"step": 99, "ga', "not valid JSON"),
        ("", "not valid JSON"),
        ("[1, 2]", "whole 'step'"),
        ('{"gap": 1.0}', "whole 'step'"),
        ('{"step": 99, "gap": NaN}', "gap is nan"),
        ('{"step": 99, "gap": "small"}', "gap is 'small'"),
        ('{"step": 63, "gap": 1.0}', "step 63 after 64"),
    ],
)
def test_a_damaged_line_is_named(tmp_path, line, complaint):
    path = write_run(tmp_path, "uniform", "lock", 0)
    with (path / "metrics.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(UserError) as caught:
        read_groups(tmp_path)
    message = str(caught.value)
    assert f"{path / 'metrics.jsonl'} line {len(STEPS) + 1} is damaged" in message
    assert complaint in message
    assert f"put it right, or move {path} elsewhere and repeat the run's command" in message


def test_a_finished_run_with_a_torn_last_line_is_damaged(tmp_path):
    path = write_run(tmp_path, "uniform", "lock", 0)
    text = (path / "metrics.jsonl").read_text()
    (path / "metrics.jsonl").write_text(text[:-5])
    with pytest.raises(UserError, match=f"line {len(STEPS)} is damaged"):
        read_groups(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("spec.json", b"{", "damaged"),
        ("spec.json", b"[]", "damaged"),
        ("spec.json", b'{"suite": "demo"}', "'agent' is missing"),
        ("spec.json", b"\xff\xfe", "not UTF-8"),
        ("spec.json", None, "cannot be read"),
        ("metrics.jsonl", b"\xff\xfe", "not UTF-8"),
        ("metrics.jsonl", None, "cannot be read"),
        ("DONE", b"{", "not valid JSON"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, name, content, complaint):
    path = write_run(tmp_path, "uniform", "lock", 0)
    (path / name).unlink()
    if content is not None:
        (path / name).write_bytes(content)
    with pytest.raises(UserError, match=complaint) as caught:
        read_groups(tmp_path)
    assert str(path / name) in str(caught.value)
    assert f"remove {path} " not in str(caught.value)  # a file is enough
    assert "command" in str(caught.value) or "run again" in str(caught.value)


def test_a_spec_in_the_wrong_folder_is_named(tmp_path):
    path = write_run(tmp_path, "uniform", "lock", 0)
    spec = json.loads((path / "spec.json").read_text()) | {"seed": 7}
    (path / "spec.json").write_text(json.dumps(spec))
    with pytest.raises(UserError, match=r"seed_7; move the folder there$"):
        read_groups(tmp_path)


def test_a_summary_that_holds_no_number_is_named(tmp_path):
    path = write_run(tmp_path, "uniform", "lock", 0, zeta="small")
    (group,) = read_groups(tmp_path)
    with pytest.raises(UserError, match="zeta is 'small'") as caught:
        group.runs[0].number("zeta")
    assert str(path / "DONE") in str(caught.value)


def test_no_such_folder(tmp_path):
    with pytest.raises(UserError, match="there is no run folder"):
        read_groups(tmp_path / "nowhere")
