"""LSVI-UCB's and UCBVI's models against the regression and the frequencies they stand for."""

import numpy as np
import pytest

from contrastive_ucb.data.sampler import Tuples, collect, n_uniforms
from contrastive_ucb.envs import LowRankMDP
from contrastive_ucb.envs.batch import EnvBatch
from contrastive_ucb.representation.tabular_fit import MOST_CELLS, TableModel, TrueFeaturesModel

B, H, S, A, D = 2, 3, 5, 2, 3
NEGATIVES = np.array([0.3, 0.3, 0.2, 0.1, 0.1])


def data(n_rounds: int) -> tuple[EnvBatch, list[Tuples]]:
    batch = EnvBatch.of([LowRankMDP(S, A, D, H, seed=seed) for seed in range(B)])
    rng = np.random.default_rng(0)
    n_walk, n_label = n_uniforms(H)
    uniform = np.full((B, H, S, A), 1 / A)
    draws = [(rng.random((B, n_walk)), rng.random((B, n_label))) for _ in range(n_rounds)]
    return batch, [collect(batch, uniform, NEGATIVES, *pair) for pair in draws]


def test_true_features_model_is_ridge_regression_of_any_value() -> None:
    batch, rounds = data(20)
    ridge = 0.7
    model = TrueFeaturesModel(batch.kernel.features, S, ridge)
    for tuples in rounds:
        model.add(tuples)
    kernel = model.fit()
    values = np.random.default_rng(1).normal(size=(B, S))
    for b, h in np.ndindex(B, H):
        rows = [
            (t.pair[b, i], t.next_state[b, i]) for t in rounds for i in np.flatnonzero(t.step == h)
        ]
        x = np.array([batch.kernel.features[b, h, z] for z, _ in rows])
        y = np.array([values[b, s] for _, s in rows])
        weights = np.linalg.inv(x.T @ x + ridge * np.eye(D)) @ x.T @ y
        expected = batch.kernel.features[b, h] @ weights
        np.testing.assert_allclose(kernel.expect(h, values)[b], expected, atol=1e-12)


def test_table_model_is_the_empirical_kernel_and_p_minus_elsewhere() -> None:
    _, rounds = data(8)
    model = TableModel((B, H, S * A, S), NEGATIVES)
    for tuples in rounds:
        model.add(tuples)
    table = model.fit().table()
    counts = np.zeros((B, H, S * A, S))
    for t in rounds:
        for b, i in np.ndindex(t.pair.shape):
            counts[b, t.step[i], t.pair[b, i], t.next_state[b, i]] += 1
    visits = counts.sum(-1)
    assert 0 < (visits == 0).mean() < 1
    for at in np.ndindex(visits.shape):
        expected = counts[at] / visits[at] if visits[at] else NEGATIVES
        np.testing.assert_allclose(table[at], expected, atol=1e-8)


def test_too_large_a_table_is_refused_before_it_is_made() -> None:
    with pytest.raises(ValueError, match="100,000,000 transitions, more than 50,000,000"):
        TableModel((1, 1, MOST_CELLS, 2), np.array([0.5, 0.5]))
