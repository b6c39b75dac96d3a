"""Sums from tables equal sums from sparse cells, and both the formula written out."""

import numpy as np
import pytest

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.data.counts import DenseCounts, SparseCounts
from contrastive_ucb.data.sampler import Tuples
from contrastive_ucb.representation.tabular_fit import DenseSums, SparseSums, make_sums

B, H, Z, S, D = 2, 3, 5, 4, 3
NEGATIVES = np.array([0.4, 0.3, 0.2, 0.1])
KINDS = {"sampled": (False, False), "exact": (True, False), "likelihood": (True, True)}


def both_counts(exact: bool, n_rounds: int = 6) -> tuple[DenseCounts, SparseCounts]:
    dense = DenseCounts((B, H, Z, S), NEGATIVES, 0.5, exact)
    sparse = SparseCounts((B, H, Z, S), NEGATIVES, 0.5, exact)
    rng = np.random.default_rng(0)
    step = np.concatenate([np.arange(H), np.arange(1, H)])
    for _ in range(n_rounds):
        pair, state, other = (rng.integers(n, size=(B, 2 * H - 1)) for n in (Z, S, S))
        label = rng.integers(2, size=pair.shape)
        contrast = np.where(label == 1, state, other)
        tuples = Tuples(step, pair, state, np.zeros(pair.shape), label, contrast)
        dense.add(tuples)
        sparse.add(tuples)
    return dense, sparse


def factors() -> tuple[Array, Array]:
    rng = np.random.default_rng(1)
    return rng.uniform(0.1, 2, (B, H, Z + 1, D)), rng.uniform(0.1, 2, (B, H, D, S))


@pytest.mark.parametrize("kind", KINDS)
def test_both_layouts_equal_the_formula(kind: str) -> None:
    exact, likelihood = KINDS[kind]
    dense, sparse = both_counts(exact)
    phi, psi = factors()
    ratio = np.einsum("bhzd,bhds->bhzs", phi, psi)
    pull = dense.positive / ratio
    weights = dense.negative if likelihood else (dense.positive + dense.negative) / (1 + ratio)
    over_states = [np.einsum("bhzs,bhds->bhzd", table, psi) for table in (pull, weights)]
    over_pairs = [np.einsum("bhzs,bhzd->bhds", table, phi) for table in (pull, weights)]
    for counts in (dense, sparse):
        sums = make_sums(counts, NEGATIVES, likelihood)
        assert isinstance(sums, DenseSums if counts is dense else SparseSums)
        for got, expected in zip(sums.over_states(phi, psi), over_states, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
        for got, expected in zip(sums.over_pairs(phi, psi), over_pairs, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
