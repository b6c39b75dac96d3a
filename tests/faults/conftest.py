"""`--faults N` sets the number of random faults of each test; its seed is the test's parameter."""

import pytest

SHORT = {"test_kills": 8, "test_corruption": 24}  # in `make test`


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "fault" in metafunc.fixturenames:
        asked = metafunc.config.getoption("--faults")
        name = metafunc.module.__name__.rpartition(".")[2]
        metafunc.parametrize("fault", range(asked or SHORT[name]))
