"""`--faults N` sets the number of random faults of each test; its seed is the test's parameter.

`--faults corruption=200,kills=100` sets the number for each file of tests.
"""

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
