"""One thread a test process: two workers on two cores, and no spinning on small matrices."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

for library in ("OPENBLAS", "MKL", "OMP"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
# Background jobs of shells ignore SIGINT, and those of `nohup` SIGHUP; some tests send them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A browser without a window."""
    from report.browser import started

    with started() as browser:
        yield browser


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "number of random faults of each test in tests/faults, also corruption=N,kills=N"
    parser.addoption("--faults", metavar="N", help=f"{text}; by default a few")
