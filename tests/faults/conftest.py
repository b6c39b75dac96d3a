"""`--faults N` sets the number of random faults of each test; its seed is the test's parameter.

`--faults corruption=200,kills=100` sets the number for each file of tests.
"""

from collections import Counter
from typing import Any

import pytest

SHORT = {"kills": 5, "corruption": 24}  # in `make test`


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "fault" in metafunc.fixturenames:
        name = metafunc.module.__name__.rpartition("test_")[2]
        asked = metafunc.config.getoption("--faults")
        metafunc.parametrize("fault", range(number_of(name, asked)))


def number_of(name: str, asked: str | None) -> int:
    """The number of faults of the tests in test_<name>.py."""
    if asked is None:
        return SHORT[name]
    if "=" not in asked:
        return int(asked)
    numbers = dict(part.split("=") for part in asked.split(","))
    return int(numbers.get(name, SHORT[name]))


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
