"""Deep agents learn: minutes each, so only `make test-all` runs them."""

from pathlib import Path

import pytest
import torch

from contrastive_ucb.runs.loop import train
from contrastive_ucb.runs.training import Training

pytestmark = pytest.mark.slow
QUARTER = {"updates_per_step": 0.25}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def score(task: Training, root: Path) -> float:
    return float(train(task, root, progress=False)["evaluation"]["mean"])


def test_optimism_solves_the_deep_sea(tmp_path: Path) -> None:
    task = Training("DeepSea-10", "spr-ucb", {"bonus.preset": "algorithm-1"}, steps=4000, seed=20)
    summary = train(task, tmp_path, progress=False)
    assert summary["solved_at"] is not None
    assert summary["evaluation"]["mean"] > 0.9


@pytest.mark.parametrize("algo", ["spr-ucb", "der", "drq"])
def test_breakout_is_learnt(algo: str, tmp_path: Path) -> None:
    task = Training("MinAtar/Breakout-v1", algo, QUARTER, steps=20_000, seed=20)
    assert score(task, tmp_path) > 1.5  # random play scores .4


def test_cart_pole_is_learnt_by_rainbow(tmp_path: Path) -> None:
    task = Training("CartPole-v1", "rainbow", {}, steps=5000, seed=20)
    assert score(task, tmp_path) > 60  # random play lasts 22 steps
