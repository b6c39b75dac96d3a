"""Counts against a dictionary, in both layouts."""

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.data import counts as counts_module
from contrastive_ucb.data.counts import DenseCounts, PairTotals, SparseCounts, make_counts
from contrastive_ucb.data.sampler import Tuples

B, H, Z, S = 2, 3, 4, 3
SHAPE = (B, H, Z, S)
NEGATIVES = np.array([0.5, 0.3, 0.2])
PSEUDO = 0.5


def random_tuples(seed: int, n_seeds: int = B) -> Tuples:
    rng = np.random.default_rng(seed)
    n = 2 * H - 1
    next_state, label = rng.integers(S, size=(n_seeds, n)), rng.integers(2, size=(n_seeds, n))
    return Tuples(
        np.concatenate([np.arange(H), np.arange(1, H)]),
        rng.integers(Z, size=(n_seeds, n)),
        next_state,
        rng.random((n_seeds, n)),
        label,
        np.where(label == 1, next_state, rng.integers(S, size=(n_seeds, n))),
    )


def some_rounds(seeds: list[int]) -> list[Tuples]:
    return [random_tuples(seed) for seed in seeds]


def oracle(rounds: list[Tuples], exact: bool) -> tuple[Array, Array]:
    """N1 and N0 tuple by tuple in dictionaries."""
    positive: dict[tuple[int, ...], float] = defaultdict(float)
    negative: dict[tuple[int, ...], float] = defaultdict(float)
    for b, h, s in np.ndindex(B, H, S):
        positive[b, h, Z, s] = negative[b, h, Z, s] = PSEUDO * NEGATIVES[s]
    for t in rounds:
        for b, i in np.ndindex(t.pair.shape):
            at = (b, int(t.step[i]), int(t.pair[b, i]))
            if exact:
                positive[*at, int(t.next_state[b, i])] += 1
                for s in range(S):
                    negative[*at, s] += NEGATIVES[s]
            elif t.label[b, i]:
                positive[*at, int(t.contrast[b, i])] += 1
            else:
                negative[*at, int(t.contrast[b, i])] += 1
    cells = [(b, h, z, s) for b, h, z, s in np.ndindex(B, H, Z + 1, S)]
    as_table = [
        np.array([n[c] for c in cells]).reshape(B, H, Z + 1, S) for n in (positive, negative)
    ]
    return as_table[0], as_table[1]


def tables(counts: DenseCounts | SparseCounts) -> tuple[Array, Array]:
    """N1 and N0 of either layout as tables (B, H, Z+1, S)."""
    if isinstance(counts, DenseCounts):
        return counts.positive, counts.negative
    positive, negative = np.zeros((2, *counts.shape))
    positive.ravel()[counts.key] = counts.positive
    negative.ravel()[counts.key] = counts.negative
    if counts.exact:
        negative += counts.visits[..., None] * NEGATIVES
    return positive, negative


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("layout", [DenseCounts, SparseCounts])
@settings(max_examples=30, deadline=None)
@given(seeds=st.lists(st.integers(0, 10_000), max_size=12))
def test_counts_equal_a_dictionary(layout: Any, exact: bool, seeds: list[int]) -> None:
    counts = layout(SHAPE, NEGATIVES, PSEUDO, exact)
    rounds = some_rounds(seeds)
    for tuples in rounds:
        counts.add(tuples)
    for got, expected in zip(tables(counts), oracle(rounds, exact), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-12)
    if isinstance(counts, SparseCounts):
        assert (np.diff(counts.key) > 0).all()


@settings(max_examples=30, deadline=None)
@given(seeds=st.lists(st.integers(0, 10_000), max_size=8))
def test_pair_totals_equal_a_dictionary(seeds: list[int]) -> None:
    totals = PairTotals(B, H, Z)
    rolled_in, visits, rewards = np.zeros((3, B, H, Z))
    for tuples in some_rounds(seeds):
        totals.add(tuples)
        for b, i in np.ndindex(tuples.pair.shape):
            at = (b, tuples.step[i], tuples.pair[b, i])
            rolled_in[at] += i < H  # the first H tuples are those of d~
            visits[at] += 1
            rewards[at] += tuples.reward[b, i]
    np.testing.assert_array_equal(totals.rolled_in, rolled_in)
    np.testing.assert_array_equal(totals.visits, visits)
    np.testing.assert_allclose(totals.rewards, rewards, atol=1e-12)


def test_layout_depends_on_the_size_of_one_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts_module, "DENSE_CELLS", H * Z * S)
    for n_seeds in (1, 1000):
        assert isinstance(make_counts((n_seeds, H, Z, S), NEGATIVES, PSEUDO, False), DenseCounts)
    assert isinstance(make_counts((1, H, Z + 1, S), NEGATIVES, PSEUDO, False), SparseCounts)


def test_sparse_memory_grows_with_the_data_only() -> None:
    """The specified size S=2,000, A=10, H=10 would take 3.2 GB as a table."""
    negatives = np.full(2000, 1 / 2000)
    counts = make_counts((1, 10, 20_000, 2000), negatives, PSEUDO, False)
    assert isinstance(counts, SparseCounts)
    assert counts.key.size == 10 * 2000  # row Z of every step
