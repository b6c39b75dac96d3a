"""Counts and their sums in both layouts, against dictionaries and formulas."""

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.data.sampler import Tuples
from contrastive_ucb.representation import tabular_fit
from contrastive_ucb.representation.tabular_fit import CountsModel, DenseCounts, SparseCounts

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
    cells, shape = list(np.ndindex(B, H, Z + 1, S)), (B, H, Z + 1, S)
    tables = [np.array([n[c] for c in cells]).reshape(shape) for n in (positive, negative)]
    return tables[0], tables[1]


def tables(counts: DenseCounts | SparseCounts) -> tuple[Array, Array]:
    """N1 and N0 of either layout as tables (B, H, Z+1, S)."""
    if isinstance(counts, DenseCounts):
        return counts.positive, counts.negative
    positive, negative = np.zeros((2, *counts.shape))
    positive.ravel()[counts.key] = counts.positive
    negative.ravel()[counts.key] = counts.negative
    if counts.exact:
        negative += counts.visits_of[..., None] * NEGATIVES
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


@pytest.mark.parametrize(
    ("exact", "likelihood"),
    [(False, False), (True, False), (True, True)],
    ids=["sampled", "exact", "mle"],
)
def test_the_sums_of_both_layouts_equal_the_formula(exact: bool, likelihood: bool) -> None:
    rng = np.random.default_rng(1)
    phi, psi = rng.uniform(0.1, 2, (B, H, Z + 1, 3)), rng.uniform(0.1, 2, (B, H, 3, S))
    positive, negative = oracle(rounds := some_rounds([1, 2, 3, 4, 5, 6]), exact)
    ratio = np.einsum("bhzd,bhds->bhzs", phi, psi)
    pull = positive / ratio
    push = negative if likelihood else (positive + negative) / (1 + ratio)
    for layout in (DenseCounts, SparseCounts):
        counts = layout(SHAPE, NEGATIVES, PSEUDO, exact, likelihood)
        for tuples in rounds:
            counts.add(tuples)
        counts.prepare()
        for table, over_states, over_pairs in zip(
            (pull, push), counts.over_states(phi, psi), counts.over_pairs(phi, psi), strict=True
        ):
            np.testing.assert_allclose(
                over_states, np.einsum("bhzs,bhds->bhzd", table, psi), rtol=1e-12, atol=1e-12
            )
            np.testing.assert_allclose(
                over_pairs, np.einsum("bhzs,bhzd->bhds", table, phi), rtol=1e-12, atol=1e-12
            )


def test_the_layout_depends_on_the_size_of_one_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def layout(n_seeds: int, n_pairs: int) -> type:
        generators = [np.random.default_rng(0)] * n_seeds
        return type(CountsModel((n_seeds, H, n_pairs, S), 2, NEGATIVES, generators).counts)

    monkeypatch.setattr(tabular_fit, "DENSE_CELLS", H * Z * S)
    assert layout(1, Z) == layout(100, Z) == DenseCounts
    assert layout(1, Z + 1) == SparseCounts
