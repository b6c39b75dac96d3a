"""Widths and covariances against explicit inverses and sums over a list of visits."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.bonus.elliptical import (
    bonus,
    cholesky,
    cholesky_update,
    covariance,
    elliptical_width,
    log_det,
    theory_coefficients,
)
from contrastive_ucb.envs import LowRankMDP

B, H, Z, D = 2, 3, 6, 3


def features(seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).dirichlet(np.ones(D), (B, H, Z)))


@pytest.mark.parametrize("averaged_over", [1, 7])
def test_covariance_is_the_sum_over_the_visits(averaged_over: int) -> None:
    phi, ridge = features(), 0.3
    rng = np.random.default_rng(1)
    visited = rng.integers(Z, size=(B, H, 20))  # twenty visits per step, some of them twice
    visits = np.zeros((B, H, Z))
    for b, h, i in np.ndindex(visited.shape):
        visits[b, h, visited[b, h, i]] += 1
    got = covariance(phi, torch.from_numpy(visits), ridge, averaged_over)
    for b, h in np.ndindex(B, H):
        expected = ridge * np.eye(D)
        for z in visited[b, h]:
            row = phi[b, h, z].numpy()
            expected += np.outer(row, row) / averaged_over  # the ridge is not averaged (E1)
        np.testing.assert_allclose(got[b, h].numpy(), expected, rtol=1e-12)


def test_width_and_log_det_equal_the_explicit_inverse_and_determinant() -> None:
    phi = features()
    visits = torch.from_numpy(np.random.default_rng(2).poisson(3.0, (B, H, Z)).astype(float))
    sigma = covariance(phi, visits, 0.5)
    got = elliptical_width(phi, cholesky(sigma))
    assert got.shape == (B, H, Z)
    for b, h, z in np.ndindex(B, H, Z):
        row, inverse = phi[b, h, z].numpy(), np.linalg.inv(sigma[b, h].numpy())
        assert float(got[b, h, z]) == pytest.approx(float(np.sqrt(row @ inverse @ row)), rel=1e-12)
    found = log_det(cholesky(sigma))
    np.testing.assert_allclose(found.numpy(), np.log(np.linalg.det(sigma.numpy())), rtol=1e-12)


def test_numpy_arrays_and_tensors_agree() -> None:
    phi = features()
    visits = torch.from_numpy(np.random.default_rng(2).poisson(3.0, (B, H, Z)).astype(float))
    sigma, array = covariance(phi, visits, 0.5), covariance(phi.numpy(), visits.numpy(), 0.5)
    np.testing.assert_array_equal(array, sigma.numpy())
    factor = cholesky(array)
    np.testing.assert_allclose(factor, cholesky(sigma).numpy(), rtol=1e-13)
    width = elliptical_width(phi.numpy(), factor)
    np.testing.assert_allclose(width, elliptical_width(phi, cholesky(sigma)), rtol=1e-13)
    np.testing.assert_allclose(log_det(factor), log_det(cholesky(sigma)), rtol=1e-13)
    np.testing.assert_array_equal(bonus(width, 4.0, 2.0), np.minimum(4.0 * width, 2.0))
    rows = phi[0, 0].numpy()
    moved = cholesky_update(factor[0, 0], rows)
    np.testing.assert_allclose(moved, np.linalg.cholesky(array[0, 0] + rows.T @ rows), rtol=1e-12)
    for result in (array, factor, width, log_det(factor), bonus(width, 4.0, 2.0), moved):
        assert isinstance(result, np.ndarray)


@pytest.mark.parametrize(
    ("value", "message"),
    [(np.nan, "NaN or infinite"), (np.inf, "NaN or infinite"), (-1.0, "raise the ridge")],
)
def test_a_matrix_without_a_cholesky_factor_is_an_error(value: float, message: str) -> None:
    sigma = torch.eye(D, dtype=torch.float64).repeat(B, H, 1, 1)
    sigma[1, 2, 1, 1] = value
    for matrix in (sigma, sigma.numpy()):
        with pytest.raises(ArithmeticError, match=message):
            cholesky(matrix)
    if value > 0 or np.isnan(value):
        with pytest.raises(ArithmeticError, match=message):
            cholesky_update(torch.eye(D, dtype=torch.float64), sigma[1, 2])


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    dim=st.sampled_from([1, 2, 5, 17, 40]),
    n_rows=st.integers(1, 45),
    ridge=st.sampled_from([0.01, 1.0]),
    spread=st.sampled_from([0.01, 1.0]),
)
def test_updating_the_factor_equals_a_new_factor(
    seed: int, dim: int, n_rows: int, ridge: float, spread: float
) -> None:
    """One by one or all at once, also if the rows are nearly parallel."""
    rng = np.random.default_rng(seed)
    rows = torch.from_numpy(rng.normal(size=dim) + spread * rng.normal(size=(n_rows, dim)))
    start = np.sqrt(ridge) * torch.eye(dim, dtype=torch.float64)
    expected = cholesky(ridge * torch.eye(dim, dtype=torch.float64) + rows.mT @ rows)
    one_by_one = start
    for row in rows:
        one_by_one = cholesky_update(one_by_one, row[None])
    asked = torch.from_numpy(rng.normal(size=(10, dim)))
    for found in (one_by_one, cholesky_update(start, rows)):
        torch.testing.assert_close(found, found.tril(), rtol=0, atol=0)
        assert (found.diagonal() > 0).all()
        torch.testing.assert_close(
            elliptical_width(asked, found), elliptical_width(asked, expected), rtol=1e-9, atol=0
        )
        torch.testing.assert_close(log_det(found), log_det(expected), rtol=1e-9, atol=1e-9)


def test_printed_covariance_with_the_theorems_constants_never_leaves_the_cap() -> None:
    """Fact F6: (1/k) sum + lambda I makes the bonus constant, so it does not explore (E1)."""
    horizon = 3
    printed = ContrastiveUCB(
        LowRankMDP(5, 2, 2, horizon), seed=0, covariance="averaged", schedule="theory"
    )
    practical = ContrastiveUCB(LowRankMDP(5, 2, 2, horizon), seed=0)
    for _ in range(30):
        printed.round()
        practical.round()
        assert (printed.bonus == 2 * horizon).all()
        assert np.ptp(practical.bonus) > 0.01
    assert practical.bonus.max() < 2 * horizon


# The schedules of gamma_k and lambda_k


@pytest.mark.parametrize("k", [1, 100, 100_000])
@pytest.mark.parametrize("size", [1, 10_000])
@pytest.mark.parametrize("c0", [1.0, 4.0])
def test_coefficients_of_the_theorem(k: int, size: int, c0: float) -> None:
    """Copied again from the paper (l.219)."""
    n_steps, n_actions, d, floor, delta = 6, 5, 3, 0.04, 0.1
    log_size = float(np.log(size))
    scale, ridge = theory_coefficients(k, n_steps, n_actions, d, floor, log_size, delta, c0)
    gamma = 4 * n_steps * (12 * np.sqrt(n_actions * d) + np.sqrt(c0) * d) / floor
    gamma *= np.sqrt(np.log(2 * n_steps * k * size / delta))
    assert scale == pytest.approx(gamma, rel=1e-12)
    assert ridge == pytest.approx(c0 * d * np.log(n_steps * size * k / delta), rel=1e-12)


def test_an_agent_takes_the_coefficients_from_its_mdp_and_class() -> None:
    mdp = LowRankMDP(5, 2, 3, 4)
    practical = ContrastiveUCB(mdp, alpha=0.4, ridge=2.0).model
    assert practical.schedule(1) == practical.schedule(10_000) == (pytest.approx(1.6), 2.0)
    settings = {"function_class": "finite", "class_size": 8}
    agent = ContrastiveUCB(mdp, schedule="theory", tilt=1.0, **settings)
    floor = float(agent.negatives.min())
    assert floor < 1 / 5
    assert agent.model.schedule(7) == theory_coefficients(7, 4, 2, 3, floor, np.log(8), 0.05, 1.0)
    product = ContrastiveUCB(mdp, schedule="theory", function_class="product", class_size=9).model
    assert product.schedule(7) == theory_coefficients(7, 4, 2, 3, 0.2, np.log(9), 0.05, 1.0)
    infinite = ContrastiveUCB(mdp, schedule="theory").model
    n_parameters = 3 * (10 + 5)
    assert infinite.schedule(7) == theory_coefficients(7, 4, 2, 3, 0.2, n_parameters)
