"""Categorical targets, losses and priorities against implementations in plain Python."""

from math import ceil, exp, floor, log

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from contrastive_ucb.planning.categorical import (
    atoms,
    cross_entropy,
    huber,
    kl_priority,
    project_categorical,
    td_priority,
    td_target,
)

SUPPORT = atoms(-10, 10, 51)


def project_slowly(support: list[float], target: list[float], probs: list[float]) -> list[float]:
    """Algorithm 1 of the C51 paper, atom by atom, with its special case."""
    low, high, n = support[0], support[-1], len(support)
    mass = [0.0] * n
    for point, p in zip(target, probs, strict=True):
        at = (min(max(point, low), high) - low) / (high - low) * (n - 1)
        left, right = floor(at), ceil(at)
        if left == right:
            mass[left] += p
        else:
            mass[left] += p * (right - at)
            mass[right] += p * (at - left)
    return mass


@st.composite
def cases(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor]:
    """A support, points inside and outside it, and weights of the points."""
    n = draw(st.integers(2, 12))
    low = draw(st.floats(-20, 20))
    support = atoms(low, low + draw(st.floats(0.5, 40)), n)
    points = draw(st.lists(st.floats(-100, 100), min_size=n, max_size=n))
    weights = draw(st.lists(st.floats(0, 1), min_size=n, max_size=n).filter(lambda w: sum(w) > 0))
    return support.double(), torch.tensor(points).double(), torch.tensor(weights).double()


@settings(max_examples=150, deadline=None)
@given(cases())
def test_projection_against_loops(case: tuple[Tensor, Tensor, Tensor]) -> None:
    support, target, probs = case
    expected = project_slowly(support.tolist(), target.tolist(), probs.tolist())
    assert project_categorical(support, target, probs).tolist() == pytest.approx(expected, abs=1e-6)


@settings(max_examples=150, deadline=None)
@given(cases())
def test_projection_preserves_mass_and_the_mean_of_clamped_points(
    case: tuple[Tensor, Tensor, Tensor],
) -> None:
    support, target, probs = case
    projected = project_categorical(support, target, probs)
    assert (projected >= 0).all()
    assert float(projected.sum()) == pytest.approx(float(probs.sum()))
    clamped = target.clamp(float(support[0]), float(support[-1]))
    mean = float((clamped * probs).sum())
    assert float((projected * support).sum()) == pytest.approx(mean, rel=1e-6, abs=1e-4)


def test_projection_never_rounds_to_negative_mass() -> None:
    """Regression: dividing by support[1] - support[0] gave the last atom 1.00005 of its mass, its
    neighbor a negative mass, and a KL divergence of NaN."""
    probs = torch.full((51,), 1 / 51)
    projected = project_categorical(SUPPORT, SUPPORT, probs)
    np.testing.assert_allclose(projected, probs, atol=1e-6)
    far = project_categorical(SUPPORT, SUPPORT + 100, probs)
    assert far[:-1].abs().max() == 0
    assert far[-1] == pytest.approx(1)
    assert torch.isfinite(kl_priority(far, probs.log()))


def test_target_of_atoms() -> None:
    returns, discounts = torch.tensor([1.0, -2.0, 0.5]), torch.tensor([0.9, 0.0, 0.5])
    bonus = torch.tensor([0.25, 0.0, 1.0])
    support = atoms(-1, 1, 3)
    expected = [[0.1, 1.0, 1.9], [-2, -2, -2], [0, 0.5, 1.0]]
    np.testing.assert_allclose(td_target(returns, discounts, support), expected, atol=1e-6)
    with_bonus = np.array(expected) + bonus.numpy()[:, None]
    np.testing.assert_allclose(td_target(returns, discounts, support, bonus), with_bonus, atol=1e-6)


def test_cross_entropy_and_divergence_against_loops() -> None:
    rng = np.random.default_rng(2)
    target = rng.dirichlet(np.ones(6), 5).astype(np.float32)
    target[:, 2] = 0  # 0 log 0 = 0
    log_probs = torch.randn(5, 6, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    loss = cross_entropy(torch.from_numpy(target), log_probs)
    priority = kl_priority(torch.from_numpy(target), log_probs)
    for m, logs, a, b in zip(target, log_probs.tolist(), loss, priority, strict=True):
        assert float(a) == pytest.approx(-sum(x * y for x, y in zip(m, logs, strict=True)), 1e-5)
        divergence = sum(x * log(x / exp(y)) for x, y in zip(m, logs, strict=True) if x > 0)
        assert float(b) == pytest.approx(max(divergence, 0), abs=1e-5)


def test_divergence_is_never_negative() -> None:
    probs = torch.rand(1000, 51, generator=torch.Generator().manual_seed(0)).softmax(-1)
    priority = kl_priority(probs, probs.log())
    assert (priority >= 0).all()
    assert priority.max() < 1e-5


def test_huber_loss_and_priority() -> None:
    value = torch.tensor([[0.5], [-3.0], [2.0]])
    target = torch.zeros(3, 1)
    assert huber(target, value).tolist() == pytest.approx([0.125, 2.5, 1.5])
    assert huber(target, value, delta=2.0).tolist() == pytest.approx([0.125, 4.0, 2.0])
    assert td_priority(target, value).tolist() == [0.5, 3.0, 2.0]


def test_invalid_supports() -> None:
    with pytest.raises(ValueError, match="at least 2 atoms"):
        atoms(-1, 1, 1)
    with pytest.raises(ValueError, match="low < high"):
        atoms(1, 1, 51)
