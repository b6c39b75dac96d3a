"""What every wrong input gets: one line that says the way out, and exit code 2."""

import re

import pytest

from contrastive_ucb.cli import main


def check_error(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("cucb: ")
    assert said.err.count("\n") == 1
    assert re.search(says, said.err), said.err
