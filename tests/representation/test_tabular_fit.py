"""The estimators of tables: fits on counts, second starts, finite classes, LSVI-UCB and UCBVI."""

from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.data.sampler import TabularSampler, Tuples
from contrastive_ucb.envs import LowRankMDP
from contrastive_ucb.envs.batch import EnvBatch
from contrastive_ucb.representation import tabular_fit
from contrastive_ucb.representation.contrastive import lift
from contrastive_ucb.representation.tabular_fit import (
    LEAST,
    MOST_CELLS,
    CountsModel,
    FiniteModel,
    TableModel,
    TrueFeaturesModel,
    class_around,
    product_class,
    reseeded,
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


def batch(n_seeds: int = B) -> EnvBatch:
    return EnvBatch([LowRankMDP(S, A, D, H, seed=i) for i in range(n_seeds)])


def rounds(n: int, seed: int = 0, n_seeds: int = B) -> list[Tuples]:
    """Data of n rounds with a uniform policy, one MDP per seed."""
    streams = {name: [np.random.default_rng(seed)] * n_seeds for name in ("walk", "label")}
    sampler = TabularSampler(batch(n_seeds), NEGATIVES, streams)
    return [sampler.collect(np.full((n_seeds, H, S, A), 1 / A)) for _ in range(n)]


def one_step(pairs: list[int], states: list[int]) -> Tuples:
    """Positive tuples of a single seed and step."""
    pair, state = np.array([pairs]), np.array([states])
    zero = np.zeros(pair.shape)
    return Tuples(
        np.zeros(len(pairs), dtype=np.int64), pair, state, zero, zero.astype(int) + 1, state
    )


def penalized(
    model: CountsModel, phi: Array, psi: Array, priors: tuple[Array, Array, Array]
) -> Array:
    """Loss plus rate x - shape log x of every entry (row Z of phi included).   (B, H)"""
    shape, rate, state_prior = priors
    loss = model.counts.loss(phi, psi)
    on_phi = (rate * phi - shape * np.log(phi)).sum((-2, -1))
    on_psi = (state_prior * (psi - np.log(psi))).sum((-2, -1))
    return np.asarray(loss + on_phi + on_psi)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), n_rounds=st.integers(0, 12), rank=st.integers(1, 3))
def test_no_sweep_raises_the_penalized_loss(kind: str, seed: int, n_rounds: int, rank: int) -> None:
    model = CountsModel((B, H, Z, S), rank, NEGATIVES, generators(seed, seed + 1), **KINDS[kind])
    for tuples in rounds(n_rounds, seed):
        model.add(tuples)
    start = lift(model.phi, LEAST), lift(model.psi, LEAST)
    rate = model.pseudo * (start[1] @ NEGATIVES)[:, :, None]  # of a visit that looks like P^-
    priors = (rate * start[0][:, :, -1:], rate, model.pseudo * NEGATIVES)
    before = penalized(model, *start, priors)
    for sweeps in range(1, 8):
        model.phi, model.psi, model.sweeps = *start, sweeps
        model.fit()
        after = penalized(model, model.phi, model.psi, priors)
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
    """A product keeps a zero permanently, and a positive where f = 0 would be a NaN."""
    model = CountsModel((1, 1, 3, S), D, NEGATIVES, generators(0), **KINDS[kind])
    model.psi[..., 0] = model.phi[:, :, 2, 0] = 0
    model.add(one_step([2] * 50 + [0] * 50, [0] * 50 + [3] * 50))
    for _ in range(30):
        table = model.fit().table()[0, 0]
    assert table[2, 0] > 0.8
    assert table[0, 3] > 0.8
    assert min(model.phi.min(), model.psi.min()) > 0


# Second starts


def fitted(monkeypatch: pytest.MonkeyPatch, sparse: bool, **settings: object) -> CountsModel:
    if sparse:
        monkeypatch.setattr(tabular_fit, "DENSE_CELLS", 0)
    env = LowRankMDP(n_states=5, n_actions=2, rank=3, horizon=3, seed=1)
    agent = ContrastiveUCB([env, env], seed=[1, 2], reseed_every=0, **settings)
    for _ in range(25):
        agent.round()
    return agent.model.representation


@pytest.mark.parametrize(
    "settings", [{}, {"negatives": "exact"}, {"algo": "rep-ucb"}], ids=["sampled", "exact", "mle"]
)
def test_dense_and_sparse_agree(monkeypatch: pytest.MonkeyPatch, settings: dict) -> None:
    dense, sparse = (fitted(monkeypatch, flag, **settings) for flag in (False, True))
    layouts, phi, psi = (dense.counts, sparse.counts), dense.phi, dense.psi
    assert type(layouts[0]) is not type(layouts[1])
    losses = [counts.loss(phi, psi) for counts in layouts]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-10)
    (row, surplus), (other_row, other_surplus) = (c.worst_row(phi, psi) for c in layouts)
    np.testing.assert_array_equal(row, other_row)
    np.testing.assert_allclose(surplus, other_surplus, atol=1e-9)
    for one, other in zip(*(reseeded(counts, phi, psi) for counts in layouts), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-12)


def test_a_stuck_fit_is_freed() -> None:
    """Two latents fit one next state and one latent fits two: a minimum of the sweeps."""
    n, negatives = 3, np.full(3, 1 / 3)

    def stuck(reseed_every: int) -> np.ndarray:
        model = CountsModel(
            (1, 1, n, n), n, negatives, [np.random.default_rng(0)], exact=True,
            reseed_every=reseed_every,
        )  # fmt: skip
        model.counts.positive[0, 0, :n] = 300 * np.eye(n)  # z leads to s' = z
        model.counts.negative[0, 0, :n] = 300 * negatives
        psi = 0.03 + 2.9 * np.array([[1, 0, 0], [1, 0, 0], [0, 0.5, 0.5]])
        phi = 0.03 + np.array([[0.5, 0.5, 0], [0, 0, 1], [0, 0, 1], [1 / 3, 1 / 3, 1 / 3]])
        model.psi, model.phi = psi[None, None], phi[None, None]
        for _ in range(12):
            table = model.fit().table()[0, 0]
        return table

    alone, freed = stuck(0), stuck(10)
    assert np.abs(alone - np.eye(n)).sum(-1).max() > 0.5
    assert np.abs(freed - np.eye(n)).sum(-1).max() < 0.2


# Finite classes


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
    truth = batch().kernel.table()
    tables = np.matmul(phi, psi * NEGATIVES)  # exactly one member is the truth
    far = np.abs(tables - truth[:, None]).max((2, 3, 4))
    assert ((far < 1e-12).sum(1) == 1).all()
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


def test_a_product_class_has_all_pairs_the_truth_and_the_norms_of_the_definition() -> None:
    env = LowRankMDP(S, A, D, H, seed=3)
    phi, psi = product_class(env.kernel, NEGATIVES, 9, generators(0)[0])
    assert phi.shape[0] == psi.shape[0] == 9
    features = {array.tobytes() for array in phi}
    measures = {array.tobytes() for array in psi}
    pairs = {(a.tobytes(), b.tobytes()) for a, b in zip(phi, psi, strict=True)}
    assert len(features) == len(measures) == 3
    assert len(pairs) == 9
    truth = np.matmul(env.kernel.features, env.kernel.measures) / NEGATIVES
    errors = np.abs(np.matmul(phi, psi) - truth).max((1, 2, 3))
    assert (errors < 1e-12).sum() == 1
    assert np.linalg.norm(phi, axis=-1).max() <= 1 + 1e-12
    assert np.linalg.norm(psi, axis=-2).max() <= np.sqrt(D) / NEGATIVES.min() + 1e-12


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
    model.add(one_step([0] * 500, [3] * 500))  # permanently
    np.testing.assert_allclose(model.fit().table()[0, 0, 0], [0.7, 0.1, 0.1, 0.1])
    model.ratio[:, 1] = 0  # now no candidate allows this tuple
    model.add(one_step([0], [0]))
    with pytest.raises(ArithmeticError, match="rule out every member"):
        model.fit()


# Models without learned features


def test_true_features_model_is_ridge_regression_of_any_value() -> None:
    features, data, ridge = batch().kernel.features, rounds(20), 0.7
    model = TrueFeaturesModel(features, S, ridge)
    for tuples in data:
        model.add(tuples)
    kernel = model.fit()
    values = np.random.default_rng(1).normal(size=(B, S))
    for b, h in np.ndindex(B, H):
        rows = [
            (t.pair[b, i], t.next_state[b, i]) for t in data for i in np.flatnonzero(t.step == h)
        ]
        x = np.array([features[b, h, z] for z, _ in rows])
        y = np.array([values[b, s] for _, s in rows])
        weights = np.linalg.inv(x.T @ x + ridge * np.eye(D)) @ x.T @ y
        expected = features[b, h] @ weights
        np.testing.assert_allclose(kernel.expect(h, values)[b], expected, atol=1e-12)


def test_table_model_is_the_empirical_kernel() -> None:
    data = rounds(8)
    model = TableModel((B, H, S * A, S), NEGATIVES)
    for tuples in data:
        model.add(tuples)
    table = model.fit().table()
    with pytest.raises(ValueError, match="100,000,000 transitions, more than 50,000,000"):
        TableModel((1, 1, MOST_CELLS, 2), np.array([0.5, 0.5]))
    counts = np.zeros((B, H, S * A, S))
    for t in data:
        for b, i in np.ndindex(t.pair.shape):
            counts[b, t.step[i], t.pair[b, i], t.next_state[b, i]] += 1
    visits = counts.sum(-1)
    assert 0 < (visits == 0).mean() < 1
    for at in np.ndindex(visits.shape):
        expected = counts[at] / visits[at] if visits[at] else NEGATIVES
        np.testing.assert_allclose(table[at], expected, atol=1e-8)
