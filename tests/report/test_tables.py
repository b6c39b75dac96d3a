"""Tables say what a hand computation says."""

import pytest
from report.runs import write_game_run, write_run

from contrastive_ucb.report.read import read_groups
from contrastive_ucb.report.tables import (
    GAME_COLUMNS,
    NOTHING,
    Table,
    solved_seeds,
    summary_table,
)


def test_the_summary_table_equals_a_hand_computation(tmp_path):
    for seed, (level, solved_at) in enumerate([(1.0, 30), (2.0, 50), (6.0, None)]):
        write_run(
            tmp_path, "contrastive-ucb", "lock", seed, level=level, solved_at=solved_at,
            strictly_optimistic_fraction=0.5 + seed / 10, seconds=1.0 + seed, rounds=5000,
        )  # fmt: skip
    table = summary_table(read_groups(tmp_path))
    (row,) = table.rows
    assert dict(zip(table.header, row, strict=True)) == {
        "agent": "contrastive-ucb",
        "seeds": "3",
        "rounds": "5,000",
        "trajectories": "256",
        "final gap": "0.0469",  # 3 / 64
        "average regret": "0.375",  # 3 / 8
        "model error ζ": "0.0469",
        "optimistic rounds": "60.0%",
        "solved": "2 of 3",
        "median round": "40",
        "seconds": "2.0",
    }


def test_what_no_run_has_is_a_dash(tmp_path):
    write_run(tmp_path, "uniform", "lowrank", 0, zeta=None)
    (group,) = read_groups(tmp_path)
    row = dict(zip(summary_table([group]).header, summary_table([group]).rows[0], strict=True))
    assert row["model error ζ"] == NOTHING
    assert "solved" not in row


def test_a_lock_that_nobody_opens_is_zero_not_a_dash(tmp_path):
    write_run(tmp_path, "uniform", "lock", 0, solved_at=None)
    (group,) = read_groups(tmp_path)
    assert solved_seeds(group) == (0, 1)
    assert summary_table([group]).rows[0][-3:-1] == ("0 of 1", NOTHING)


def test_missing_seeds_are_shown(tmp_path):
    for seed in range(3):
        write_run(tmp_path, "contrastive-ucb", "lock", seed)
        write_run(tmp_path, "uniform", "lock", seed, finished=False)
    write_run(tmp_path, "no-bonus", "lock", 1)
    seeds = {row[0]: row[1] for row in summary_table(read_groups(tmp_path)).rows}
    assert seeds == {
        "contrastive-ucb": "3",
        "no-bonus": "1 of 3 (missing: 0, 2)",
        "uniform": "0 of 3 (missing: 0, 1, 2)",
    }


def test_rounding_is_not_shown_as_a_gap(tmp_path):
    write_run(tmp_path, "uniform", "lock", 0, final_gap=-2e-16)
    assert summary_table(read_groups(tmp_path)).rows[0][4] == "0"


def test_the_table_of_games_equals_a_hand_computation(tmp_path):
    for seed, level in enumerate((1.0, 3.0)):
        write_game_run(tmp_path, "contrastive-ulcb", "lock-game", seed, level=level, solved_at=None)
    table = summary_table(read_groups(tmp_path), GAME_COLUMNS)
    assert dict(zip(table.header, table.rows[0], strict=True)) == {
        "agent": "contrastive-ulcb",
        "seeds": "2",
        "rounds": "64",
        "trajectories": "128",
        "average gap": "0.25",
        "last round's gap": "0.0312",
        "exploitability of the recommended pair": "0.0625",
        "its certificate": "0.0938",
        "rounds in which the bracket held": "75.0%",
        "solved": "0 of 2",
        "median round": NOTHING,
        "seconds": "2.0",
    }


def test_an_empty_certificate_is_not_shown(tmp_path):
    """Without a bonus the certificate is 0 in every round and says nothing."""
    write_game_run(tmp_path, "no-bonus", "lowrank-game", 0, certificate=0.0)
    (row,) = summary_table(read_groups(tmp_path), GAME_COLUMNS).rows
    assert row[4:] == ("0.125", "0.0156", "0.0312", NOTHING, "75.0%", "2.0")


def test_markdown():
    table = Table(("agent", "gap"), (("a|b", "1"), ("c", "2")))
    assert table.to_markdown() == "| agent | gap |\n| --- | ---: |\n| a\\|b | 1 |\n| c | 2 |\n"


def test_a_row_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="has 1 cells, the header 2"):
        Table(("agent", "gap"), (("a",),))
