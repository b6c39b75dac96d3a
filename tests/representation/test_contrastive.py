"""The contrastive loss tuple by tuple, its multiplicative steps, and the normalization."""

from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.representation.contrastive import (
    contrastive_loss,
    likelihood_loss,
    normalize,
)

Z, S, D = 6, 5, 2
NEGATIVES = np.array([0.3, 0.25, 0.2, 0.15, 0.1])


def factors(seed: int, z: int = Z, s: int = S, d: int = D) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.uniform(0.2, 2, (z, d)), rng.uniform(0.2, 2, (d, s))


def tables(seed: int, z: int = Z, s: int = S) -> tuple[Array, Array]:
    """N1 and N0 without empty rows or columns."""
    rng = np.random.default_rng(seed)
    return rng.poisson(2, (z, s)) + 0.1, rng.poisson(2, (z, s)) + 0.1


def test_loss_is_the_sum_over_the_tuples() -> None:
    rng = np.random.default_rng(0)
    phi, psi = factors(1)
    tuples = [tuple(rng.integers([Z, S, 2])) for _ in range(40)]
    expected, positive, negative = 0.0, np.zeros((Z, S)), np.zeros((Z, S))
    for z, s, y in tuples:
        f = sum(psi[j, s] * phi[z, j] for j in range(D))
        expected += y * log(1 + 1 / f) + (1 - y) * log(1 + f)
        (positive if y else negative)[z, s] += 1
    assert contrastive_loss(phi @ psi, positive, negative) == pytest.approx(expected, rel=1e-12)


def test_a_ratio_of_zero_costs_nothing_without_positives_and_everything_with_one() -> None:
    ratio, none = np.array([[0.0, 1.0]]), np.zeros((1, 2))
    assert contrastive_loss(ratio, none, np.array([[3.0, 0.0]])) == 0
    assert contrastive_loss(ratio, np.array([[1.0, 0.0]]), none) == np.inf


def test_likelihood_loss_tuple_by_tuple() -> None:
    phi, psi = factors(2)
    ratio, (positive, _) = phi @ psi, tables(3)
    expected = 0.0
    for z, s in np.ndindex(Z, S):
        expected += positive[z].sum() * NEGATIVES[s] * ratio[z, s]
        expected -= positive[z, s] * log(ratio[z, s])
    got = likelihood_loss(ratio, positive, positive.sum(-1), NEGATIVES)
    assert got == pytest.approx(expected, rel=1e-12)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), rank=st.integers(1, 5))
def test_normalised_kernel_is_a_distribution_in_a_canonical_gauge(seed: int, rank: int) -> None:
    phi, psi = factors(seed, d=rank)
    kernel = normalize(phi, psi, NEGATIVES)
    assert kernel.measures is not None
    ratio = phi @ psi * NEGATIVES  # eq. normalization: the same P^ without any gauge
    np.testing.assert_allclose(kernel.table(), ratio / ratio.sum(-1, keepdims=True), atol=1e-12)
    np.testing.assert_allclose(kernel.table().sum(-1), 1, atol=1e-12)
    np.testing.assert_allclose(kernel.features.sum(-1), 1, atol=1e-12)
    np.testing.assert_allclose(kernel.measures.sum(-1), 1, atol=1e-12)
    assert kernel.features.min() >= 0
    assert np.linalg.norm(kernel.features, axis=-1).max() <= 1 + 1e-12
    latent = np.random.default_rng(seed).uniform(0.01, 100, rank)
    scaled = normalize(phi * latent, psi / latent[:, None], NEGATIVES)
    np.testing.assert_allclose(scaled.features, kernel.features, atol=1e-12)
    np.testing.assert_allclose(scaled.table(), kernel.table(), atol=1e-12)
