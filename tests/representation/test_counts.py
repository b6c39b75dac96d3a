"""Counts and their sums in both layouts, against loops and formulas."""

import numpy as np
import pytest

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.data.sampler import Tuples
from contrastive_ucb.representation import tabular_fit
from contrastive_ucb.representation.tabular_fit import CountsModel, DenseCounts, SparseCounts

B, H, Z, S = 2, 3, 4, 3
SHAPE = (B, H, Z, S)
NEGATIVES = np.array([0.5, 0.3, 0.2])
PSEUDO = 0.5


def random_tuples(seed: int) -> Tuples:
    rng, shape = np.random.default_rng(seed), (B, 2 * H - 1)
    next_state, label = rng.integers(S, size=shape), rng.integers(2, size=shape)
    return Tuples(
        np.concatenate([np.arange(H), np.arange(1, H)]),
        rng.integers(Z, size=shape),
        next_state,
        rng.random(shape),
        label,
        np.where(label == 1, next_state, rng.integers(S, size=shape)),
    )


def oracle(rounds: list[Tuples], exact: bool) -> tuple[Array, Array]:
    """N1 and N0, tuple by tuple."""
    positive, negative = np.zeros((2, B, H, Z + 1, S))
    positive[:, :, Z] = negative[:, :, Z] = PSEUDO * NEGATIVES
    for t in rounds:
        for b, i in np.ndindex(t.pair.shape):
            at = b, t.step[i], t.pair[b, i]
            if exact:
                positive[at][t.next_state[b, i]] += 1
                negative[at] += NEGATIVES
            else:
                (positive if t.label[b, i] else negative)[at][t.contrast[b, i]] += 1
    return positive, negative


@pytest.mark.parametrize(
    ("exact", "likelihood"),
    [(False, False), (True, False), (True, True)],
    ids=["sampled", "exact", "mle"],
)
def test_the_sums_of_both_layouts_equal_the_formula(exact: bool, likelihood: bool) -> None:
    rng = np.random.default_rng(1)
    phi, psi = rng.uniform(0.1, 2, (B, H, Z + 1, 3)), rng.uniform(0.1, 2, (B, H, 3, S))
    positive, negative = oracle(rounds := [random_tuples(seed) for seed in range(6)], exact)
    ratio = np.einsum("bhzd,bhds->bhzs", phi, psi)
    pull = positive / ratio
    push = negative if likelihood else (positive + negative) / (1 + ratio)
    for layout in (DenseCounts, SparseCounts):
        counts: DenseCounts | SparseCounts = layout(SHAPE, NEGATIVES, PSEUDO, exact, likelihood)
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
