"""The fit on counts and the finite class."""

from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.data.sampler import Tuples, collect, n_uniforms
from contrastive_ucb.envs import LowRankMDP
from contrastive_ucb.envs.batch import EnvBatch
from contrastive_ucb.representation.contrastive import lift
from contrastive_ucb.representation.tabular_fit import (
    LEAST,
    CountsModel,
    DenseSums,
    FiniteModel,
    class_around,
)

B, H, S, A, D = 2, 2, 4, 2, 2
Z = S * A
NEGATIVES = np.array([0.4, 0.3, 0.2, 0.1])
KINDS: dict[str, dict[str, bool]] = {
    "sampled": {},
    "exact": {"exact": True},
    "likelihood": {"likelihood": True},
}


def generators(*seeds: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in seeds]


def rounds(n: int, seed: int = 0, n_seeds: int = B) -> list[Tuples]:
    """Data of n rounds with a uniform policy, one MDP per seed."""
    batch = EnvBatch.of([LowRankMDP(S, A, D, H, seed=i) for i in range(n_seeds)])
    rng = np.random.default_rng(seed)
    n_walk, n_label = n_uniforms(H)
    uniform = np.full((n_seeds, H, S, A), 1 / A)
    draws = [(rng.random((n_seeds, n_walk)), rng.random((n_seeds, n_label))) for _ in range(n)]
    return [collect(batch, uniform, NEGATIVES, *pair) for pair in draws]


def one_step(pairs: list[int], states: list[int]) -> Tuples:
    """Positive tuples of a single seed and step."""
    pair, state = np.array([pairs]), np.array([states])
    zero = np.zeros(pair.shape)
    return Tuples(
        np.zeros(len(pairs), dtype=np.int64), pair, state, zero, zero.astype(int) + 1, state
    )


def penalised(
    model: CountsModel, phi: Array, psi: Array, priors: tuple[Array, Array, Array]
) -> Array:
    """Loss plus rate x - shape log x of every entry (row Z of phi included).   (B, H)"""
    shape, rate, state_prior = priors
    loss = DenseSums(model.counts, model.likelihood).loss(phi, psi)  # type: ignore[arg-type]
    on_phi = (rate * phi - shape * np.log(phi)).sum((-2, -1))
    on_psi = (state_prior * (psi - np.log(psi))).sum((-2, -1))
    return np.asarray(loss + on_phi + on_psi)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), n_rounds=st.integers(0, 12), rank=st.integers(1, 3))
def test_no_sweep_raises_the_penalised_loss(kind: str, seed: int, n_rounds: int, rank: int) -> None:
    model = CountsModel((B, H, Z, S), rank, NEGATIVES, generators(seed, seed + 1), **KINDS[kind])
    for tuples in rounds(n_rounds, seed):
        model.add(tuples)
    start = lift(model.phi, LEAST), lift(model.psi, LEAST)
    rate = model.pseudo * (start[1] @ NEGATIVES)[:, :, None]  # of a visit that looks like P^-
    priors = (rate * start[0][:, :, -1:], rate, model.pseudo * NEGATIVES)
    before = penalised(model, *start, priors)
    for sweeps in range(1, 8):
        model.phi, model.psi, model.sweeps = *start, sweeps
        model.fit()
        after = penalised(model, model.phi, model.psi, priors)
        assert (after <= before + 1e-10 * np.abs(before)).all()
        before = after


@pytest.mark.parametrize("kind", KINDS)
def test_fit_finds_the_kernel_in_plenty_of_data(kind: str) -> None:
    truth = LowRankMDP(S, A, D, H, seed=0).kernel.table()
    model = CountsModel((1, H, Z, S), D, NEGATIVES, generators(0), **KINDS[kind])
    visits = np.zeros((H, Z))
    for tuples in rounds(1500, n_seeds=1):
        model.add(tuples)
        np.add.at(visits, (tuples.step, tuples.pair[0]), 1)
    model.sweeps = 1000
    error = np.abs(model.fit().table()[0] - truth).sum(-1)
    assert (visits > 200).sum() > 3
    assert error[visits > 200].max() < 0.25
    start = CountsModel((1, H, Z, S), D, NEGATIVES, generators(0))
    untrained = np.abs(start.fit().table()[0] - truth).sum(-1)
    assert error[visits > 200].mean() < 0.2 * untrained[visits > 200].mean()


def test_unvisited_pairs_share_their_features_and_lead_where_p_minus_leads() -> None:
    model = CountsModel((1, 1, 4, S), 4, NEGATIVES, generators(0), exact=True)
    np.testing.assert_allclose(model.fit().table()[0, 0], [NEGATIVES] * 4, atol=1e-9)
    for _ in range(60):
        model.add(one_step([0, 1], [3, 2]))
        kernel = model.fit()
    np.testing.assert_array_equal(kernel.features[0, 0, 2], kernel.features[0, 0, 3])
    table = kernel.table()[0, 0]
    np.testing.assert_allclose(table[2], NEGATIVES, atol=0.05)  # the data leave two latents free
    assert table[0, 3] > 0.9
    assert table[1, 2] > 0.9


@pytest.mark.parametrize("kind", ["exact", "likelihood"])
def test_factors_locked_at_zero_come_back(kind: str) -> None:
    """A product keeps a zero for ever, and a positive where f = 0 would be a NaN."""
    model = CountsModel((1, 1, 3, S), D, NEGATIVES, generators(0), **KINDS[kind])
    model.psi[..., 0] = model.phi[:, :, 2, 0] = 0
    model.add(one_step([2] * 50 + [0] * 50, [0] * 50 + [3] * 50))
    for _ in range(30):
        table = model.fit().table()[0, 0]
    assert table[2, 0] > 0.8
    assert table[0, 3] > 0.8
    assert min(model.phi.min(), model.psi.min()) > 0


def finite_class(size: int = 6) -> tuple[Array, Array]:
    """Classes around the truth of both seeds.   (B, M, H, Z, d), (B, M, H, d, S)"""
    classes = [
        class_around(LowRankMDP(S, A, D, H, seed=i).kernel, NEGATIVES, size, g)
        for i, g in enumerate(generators(0, 1))
    ]
    phi, psi = (np.stack(part) for part in zip(*classes, strict=True))
    return phi, psi


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("n_rounds", [1, 3, 40])
def test_finite_class_picks_the_argmin_of_an_enumeration(exact: bool, n_rounds: int) -> None:
    phi, psi = finite_class()
    model = FiniteModel(phi, psi, NEGATIVES, exact)
    losses = np.zeros((B, model.size, H))
    data = rounds(n_rounds, seed=3)
    for t in data:
        model.add(t)
        for b, i in np.ndindex(t.pair.shape):
            h, z = int(t.step[i]), int(t.pair[b, i])
            for m in range(model.size):
                f = psi[b, m, h].T @ phi[b, m, h, z]
                if exact:
                    losses[b, m, h] += np.log1p(1 / f[t.next_state[b, i]])
                    losses[b, m, h] += (NEGATIVES * np.log1p(f)).sum()
                elif t.label[b, i]:
                    losses[b, m, h] += log(1 + 1 / f[t.contrast[b, i]])
                else:
                    losses[b, m, h] += log(1 + f[t.contrast[b, i]])
    np.testing.assert_allclose(model.losses, losses, rtol=1e-12, atol=1e-12)
    table = model.fit().table()
    for b, h in np.ndindex(B, H):
        best = int(np.argmin(losses[b, :, h]))
        rows = phi[b, best, h] @ psi[b, best, h] * NEGATIVES
        np.testing.assert_allclose(table[b, h], rows / rows.sum(-1, keepdims=True), atol=1e-12)


def two_candidates() -> tuple[Array, Array]:
    """Pair 0 leads to state 3 for sure (f = 0 elsewhere), or mostly to state 0."""
    phi = np.ones((1, 2, 1, 1, 1))
    sure, loose = np.array([0.0, 0, 0, 1]), np.array([0.7, 0.1, 0.1, 0.1])
    return phi, np.stack([sure, loose]).reshape(1, 2, 1, 1, 4) / NEGATIVES


@pytest.mark.parametrize("exact", [False, True])
def test_a_candidate_with_f_zero_at_a_positive_is_ruled_out(exact: bool) -> None:
    model = FiniteModel(*two_candidates(), NEGATIVES, exact)
    model.add(one_step([0] * 50, [3] * 50))
    np.testing.assert_allclose(model.fit().table()[0, 0, 0], [0, 0, 0, 1])
    model.add(one_step([0], [0]))
    np.testing.assert_allclose(model.fit().table()[0, 0, 0], [0.7, 0.1, 0.1, 0.1])
    model.add(one_step([0] * 500, [3] * 500))  # for ever
    np.testing.assert_allclose(model.fit().table()[0, 0, 0], [0.7, 0.1, 0.1, 0.1])


def test_a_class_that_is_ruled_out_as_a_whole_is_an_error() -> None:
    phi, psi = two_candidates()
    psi[:, 1, :, :, 1] = 0
    model = FiniteModel(phi, psi, NEGATIVES)
    model.add(one_step([0], [1]))
    with pytest.raises(ArithmeticError, match="rule out every member"):
        model.fit()


@pytest.mark.parametrize("size", [1, 2, 9])
def test_class_around_holds_the_truth_exactly_once(size: int) -> None:
    kernel = LowRankMDP(S, A, D, H, seed=0).kernel
    phi, psi = class_around(kernel, NEGATIVES, size, *generators(0))
    tables = np.matmul(phi, psi * NEGATIVES)
    assert tables.shape == (size, H, Z, S)
    np.testing.assert_allclose(tables.sum(-1), 1, atol=1e-12)
    far = np.abs(tables - kernel.table()).max((1, 2, 3))
    assert (far < 1e-12).sum() == 1
    assert (far > 1e-3).sum() == size - 1
