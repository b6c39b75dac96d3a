"""`cucb bench neural` prints its figures; how large they are is not for tests."""

import json
from pathlib import Path

import pytest

from contrastive_ucb.cli import main
from contrastive_ucb.commands import bench_deep
from contrastive_ucb.commands.bench_neural import MARKS, Neural, measure, text_of
from contrastive_ucb.commands.marks import table

READ = {"one_by_one_over_together", "core_seconds_a_round"}  # by the documentation


def test_the_bench_prints_what_it_promises(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "bench.json"
    words = ["--horizon", "2", "--rounds", "1", "--between", "1", "--turns", "1", "--json"]
    assert main(["bench", "neural", *words, "--out", str(out)]) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures == json.loads(out.read_text())
    assert {*READ, *MARKS, "horizon", "seconds_a_round", "seconds_a_later_round"} <= figures.keys()
    assert all(value > 0 for value in figures.values())
    assert main(["bench", "neural", "--horizon", "1"]) == 2
    assert main(["bench", "neural", "--between", "-1"]) == 2


def test_later_rounds_are_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds 22 to 31 by default; the refits are of the data of the first eleven.

    The first round was timed: what torch sets up in it made the early rounds look slower.
    """
    timed: list[range] = []

    class Counting:
        played = 0

        def __init__(self, *given: object, **settings: object):
            pass

        def round(self) -> None:
            self.played += 1

    def seconds(agent: Counting, rounds: int) -> tuple[float, float]:
        start = agent.played
        for _ in range(rounds):
            agent.round()
        timed.append(range(start + 1, agent.played + 1))
        return 1.0, 1.0

    monkeypatch.setattr("contrastive_ucb.agents.finite.contrastive_ucb.ContrastiveUCB", Counting)
    monkeypatch.setattr("contrastive_ucb.commands.bench_neural._seconds_a_round", seconds)
    monkeypatch.setattr("contrastive_ucb.commands.timing.in_turns", lambda works, turns: (1.0, 4.0))
    figures = measure(Neural())
    assert timed == [range(2, 12), range(22, 32)]
    assert figures["one_by_one_over_together"] == 4


def test_the_marks_are_shown_where_they_apply() -> None:
    figures = {"horizon": 12, "one_by_one_over_together": 2.5, "core_seconds_a_round": 1.6}
    _, head, *lines = text_of(figures).splitlines()
    assert head.split() == ["measured", "mark"]
    assert [line.split()[1:] for line in lines] == [
        ["12"],
        ["2.5", ">=", "2.5", "holds"],
        ["1.6", "<=", "1.5", "does", "not"],
    ]
    assert "holds" not in text_of({**figures, "horizon": 6})


def test_the_table_is_that_of_the_deep_bench() -> None:
    shown = {"ms_update_yardstick_spr": 3.0, "yardstick_over_paper": 2.0, "spr_over_der": None}
    assert table("deep", shown, bench_deep.MARKS) == bench_deep.text_of(shown)
