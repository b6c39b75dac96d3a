"""The second start: both layouts agree, it frees a stuck fit, and it never makes the loss worse."""

import numpy as np
import pytest

from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.data import counts as counts_module
from contrastive_ucb.envs import DeepSea, LowRankMDP
from contrastive_ucb.representation.tabular_fit import (
    CountsModel,
    make_sums,
    reseeded,
)


def fitted(monkeypatch: pytest.MonkeyPatch, sparse: bool, **settings: object) -> CountsModel:
    if sparse:
        monkeypatch.setattr(counts_module, "DENSE_CELLS", 0)
    env = LowRankMDP(n_states=5, n_actions=2, rank=3, horizon=3, seed=1)
    agent = ContrastiveUCB([env, env], seed=[1, 2], reseed_every=0, **settings)
    for _ in range(25):
        agent.round()
    return agent.tables.representation


@pytest.mark.parametrize(
    "settings", [{}, {"negatives": "exact"}, {"algo": "rep-ucb"}], ids=["sampled", "exact", "mle"]
)
def test_dense_and_sparse_agree(monkeypatch: pytest.MonkeyPatch, settings: dict) -> None:
    dense, sparse = (fitted(monkeypatch, flag, **settings) for flag in (False, True))
    sums = [make_sums(m.counts, m.negatives, m.likelihood) for m in (dense, sparse)]
    phi, psi = dense.phi, dense.psi
    losses = [s.loss(phi, psi) for s in sums]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-10)
    (row, surplus), (other_row, other_surplus) = (s.worst_row(phi, psi) for s in sums)
    np.testing.assert_array_equal(row, other_row)
    np.testing.assert_allclose(surplus, other_surplus, atol=1e-9)
    for one, other in zip(*(reseeded(s, phi, psi, dense.negatives) for s in sums), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-12)


def test_worst_row_is_the_pair_with_the_largest_misfit() -> None:
    negatives = np.full(3, 1 / 3)
    model = CountsModel((1, 1, 2, 3), 2, negatives, [np.random.default_rng(0)], exact=True)
    model.counts.positive[0, 0, 0] = [5, 5, 5]
    model.counts.positive[0, 0, 1] = [0, 0, 15]
    model.counts.negative[0, 0, :2] = 5
    sums = make_sums(model.counts, negatives, False)
    ones = np.ones((1, 1, 3, 2)) / 2, np.ones((1, 1, 2, 3))  # f = 1: what it expects is N / 2
    row, surplus = sums.worst_row(*ones)
    assert row.item() == 1
    np.testing.assert_allclose(surplus[0, 0], [0, 0, 15 - 20 / 2])


def test_a_stuck_fit_is_freed() -> None:
    """Two latents on one next state and one latent on two others: sweeps alone never leave it."""
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


def test_a_second_start_is_kept_only_where_the_loss_is_smaller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = fitted(monkeypatch, False)
    sums = make_sums(model.counts, model.negatives, model.likelihood)
    plain = model._sweep(sums, *model._sweep(sums, model.phi, model.psi))
    model.reseed_every, model.n_fits = 1, 0
    model.fit()
    assert (sums.loss(model.phi, model.psi) <= sums.loss(*plain) + 1e-9).all()


@pytest.mark.slow
def test_deepsea_is_solved_by_nearly_every_seed() -> None:
    """Without second starts about one seed in eight was stuck for ever."""
    seeds = list(range(100, 130))
    session = ContrastiveUCB([DeepSea(10, seed=s) for s in seeds], seed=seeds).session
    for _ in session.rounds(2000):
        pass
    assert (session.tracker.solved_at > 0).mean() >= 0.9
