"""`--faults N` sets the number of random faults of each test; its seed is the test's parameter."""

from collections import Counter
from typing import Any

import pytest

SHORT = {"test_kills": 8, "test_corruption": 24}  # in `make test`


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "fault" in metafunc.fixturenames:
        asked = metafunc.config.getoption("--faults")
        name = metafunc.module.__name__.rpartition(".")[2]
        metafunc.parametrize("fault", range(asked or SHORT[name]))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """A table of the outcomes of random faults, by command."""
    reports = [
        report
        for group in terminalreporter.stats.values()
        for report in group
        if getattr(report, "when", "") == "call"
    ]
    recorded = [dict(getattr(report, "user_properties", ())).get("outcome") for report in reports]
    if counts := Counter(tuple(outcome) for outcome in recorded if outcome):
        columns = ("identical", "recovered", "reported", "failure")
        terminalreporter.section("outcomes of faults")
        terminalreporter.write_line("".join(name.rjust(11) for name in ("", *columns)))
        for command in sorted({command for command, _ in counts}):
            numbers = [str(counts[command, column]) for column in columns]
            terminalreporter.write_line("".join(cell.rjust(11) for cell in (command, *numbers)))
