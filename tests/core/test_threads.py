"""Threads are limited where it is said, and as before afterwards."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import scipy.linalg  # noqa: F401  (brings a BLAS of its own)
import torch
from threadpoolctl import threadpool_info

import contrastive_ucb as cu
from contrastive_ucb.core.runtime import one_thread, threads


def used() -> set[int]:
    """Threads of torch and of every BLAS."""
    pools = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    assert len(pools) >= 2  # numpy's and scipy's
    return {torch.get_num_threads(), *pools}


@pytest.fixture(autouse=True)
def two() -> Iterator[None]:
    with threads(2):
        yield


def test_torch_and_blas_are_limited_together() -> None:
    assert used() == {2}
    with threads(1):
        assert used() == {1}
        with threads(2):
            assert used() == {2}
        assert used() == {1}
    assert used() == {2}


@pytest.mark.parametrize(("limit", "within"), [(lambda: threads(1), {1}), (one_thread, {1, 2})])
def test_they_are_restored_after_an_error(limit: Callable[[], Any], within: set[int]) -> None:
    def fails() -> None:
        with limit():
            assert used() == within
            assert torch.get_num_threads() == 1
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert used() == {2}


def test_learning_takes_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[int]] = []
    agent = cu.ContrastiveUCB(cu.RiverSwim(horizon=3), seed=0)
    inner = agent.sampler.collect
    monkeypatch.setattr(
        agent.sampler, "collect", lambda *given: seen.append(used()) or inner(*given)
    )
    agent.learn(rounds=2, progress=False)
    assert seen == [{1}, {1}]
    assert used() == {2}
