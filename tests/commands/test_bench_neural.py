"""`cucb bench neural` prints both of its figures; how large they are is not for tests."""

import json
from pathlib import Path

import pytest

from contrastive_ucb.cli import main


def test_the_bench_prints_what_it_promises(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "bench.json"
    words = ["--horizon", "2", "--rounds", "1", "--turns", "1", "--out", str(out), "--json"]
    assert main(["bench", "neural", *words]) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures == json.loads(out.read_text())
    assert {"seconds_a_round", "one_by_one_over_together"} <= figures.keys()
    assert all(value > 0 for value in figures.values())
    assert main(["bench", "neural", "--horizon", "1"]) == 2
