"""The bonus with incremental updates, against explicit sums and inverses."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive_ucb.bonus.elliptical import cholesky, elliptical_width
from contrastive_ucb.bonus.online import UPDATE_DIM, EllipticalBonus

D = 4


def some(n: int, seed: int = 0, dim: int = D) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32))


def slow(seen: torch.Tensor, asked: torch.Tensor, scale: float, ridge: float) -> np.ndarray:
    sigma = ridge * np.eye(D)
    for row in seen.double().numpy():
        sigma += np.outer(row, row)
    inverse = np.linalg.inv(sigma)
    return np.array([scale * np.sqrt(row @ inverse @ row) for row in asked.double().numpy()])


def test_bonus_equals_the_explicit_inverse_and_shrinks() -> None:
    bonus = EllipticalBonus(D, scale=0.5, ridge=0.1)
    np.testing.assert_allclose(bonus(some(3)), slow(some(0), some(3), 0.5, 0.1), rtol=1e-6)
    bonus.observe(some(10, 1))
    bonus.observe(some(5, 2).reshape(1, 5, D))
    seen = torch.cat([some(10, 1), some(5, 2)])
    got = bonus(some(6, 3).reshape(2, 3, D))
    assert got.shape == (2, 3)
    assert got.dtype == torch.float32
    np.testing.assert_allclose(got.flatten(), slow(seen, some(6, 3), 0.5, 0.1), rtol=1e-5)
    assert bonus.n_seen == 15


def test_blocks_are_separate_bonuses() -> None:
    bonus, each = EllipticalBonus(D, blocks=3), [EllipticalBonus(D) for _ in range(3)]
    actions = torch.tensor([0, 2, 2, 0, 2])
    bonus.observe(some(5), actions)
    for phi, action in zip(some(5), actions.tolist(), strict=True):
        each[action].observe(phi)
    asked = some(7, 1)
    expected = torch.stack([one(asked) for one in each], dim=-1)
    torch.testing.assert_close(bonus.of_all(asked), expected)
    chosen = torch.tensor([0, 1, 2, 0, 1, 2, 0])
    torch.testing.assert_close(bonus(asked, chosen), expected[torch.arange(7), chosen])
    assert bonus.log_det == pytest.approx(sum(one.log_det for one in each))


def test_rebuild_replaces_sigma() -> None:
    bonus, plain = EllipticalBonus(D), EllipticalBonus(D)
    bonus.observe(some(9))
    bonus.rebuild(some(4, 1), weight=2.0)
    for _ in range(2):
        plain.observe(some(4, 1))
    torch.testing.assert_close(bonus(some(5, 2)), plain(some(5, 2)))
    assert bonus.n_seen == plain.n_seen == 8


def test_the_cap_holds() -> None:
    bonus = EllipticalBonus(D, scale=100.0, cap=2.0)
    assert (bonus(some(5)) == 2.0).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 30))
def test_more_visits_never_increase_a_bonus_and_increase_log_det(seed: int, n: int) -> None:
    bonus = EllipticalBonus(D, ridge=0.3)
    asked = some(8, seed + 1)
    before, volume = bonus(asked), bonus.log_det
    assert volume == pytest.approx(0)
    bonus.observe(some(n, seed))
    assert (bonus(asked) <= before + 1e-6).all()
    assert bonus.log_det > volume


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    dim=st.sampled_from([D, UPDATE_DIM]),
    sizes=st.lists(st.sampled_from([1, 2, 7, UPDATE_DIM + 1]), min_size=1, max_size=6),
    weight=st.sampled_from([1.0, 3.0]),
)
def test_the_factor_is_that_of_the_sum(
    seed: int, dim: int, sizes: list[int], weight: float
) -> None:
    bonus = EllipticalBonus(dim, ridge=0.01, blocks=2)
    rng = np.random.default_rng(seed)
    for turn, size in enumerate(sizes):
        block = torch.from_numpy(rng.integers(2, size=size))
        bonus.observe(some(size, seed + turn, dim), block, weight)
    asked = some(5, seed - 1 if seed else 1, dim).double().expand(2, -1, -1)
    fresh = cholesky(bonus.sigma)
    torch.testing.assert_close(
        elliptical_width(asked, bonus.chol), elliptical_width(asked, fresh), rtol=1e-9, atol=0
    )
    volume = np.linalg.slogdet(bonus.sigma.numpy())[1].sum() - 2 * dim * np.log(0.01)
    assert bonus.log_det == pytest.approx(volume, rel=1e-9)


def test_an_updated_factor_is_saved_bit_for_bit() -> None:
    """Its last bits depend on the order of the visits, so it cannot be computed from the sum."""
    undisturbed, saved, loaded = (
        EllipticalBonus(UPDATE_DIM, ridge=0.01, blocks=2) for _ in range(3)
    )
    for turn in range(40):
        for one in (undisturbed, saved):
            one.observe(some(1, turn, UPDATE_DIM), torch.tensor([turn % 2]))
    loaded.load_state_dict(saved.state_dict())
    assert not torch.equal(loaded.chol, cholesky(loaded.sigma))
    for turn in range(5):
        for one in (undisturbed, saved, loaded):
            one.observe(some(1, turn, UPDATE_DIM), torch.tensor([turn % 2]))
    asked = some(9, 99, UPDATE_DIM).double()
    assert torch.equal(undisturbed.of_all(asked), loaded.of_all(asked))
    assert torch.equal(undisturbed.of_all(asked), saved.of_all(asked))
    assert undisturbed.log_det == saved.log_det == loaded.log_det


def test_state_is_a_copy_for_a_bonus_of_the_same_size() -> None:
    bonus = EllipticalBonus(D, blocks=2)
    state = bonus.state_dict()
    kept = state["sigma"].clone()
    bonus.observe(some(3, 2), torch.zeros(3, dtype=torch.int64))
    assert torch.equal(state["sigma"], kept)
    with pytest.raises(ValueError, match="same dim and blocks"):
        EllipticalBonus(D).load_state_dict(state)
    with pytest.raises(ValueError, match="the same ridge"):
        EllipticalBonus(D, blocks=2, ridge=2.0).load_state_dict(state)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EllipticalBonus(0), "dim must be at least 1"),
        (lambda: EllipticalBonus(2, ridge=0.0), "ridge must be positive"),
        (lambda: EllipticalBonus(2, scale=-1.0), "scale must be at least 0"),
        (lambda: EllipticalBonus(2)(some(3)), "last axis must be dim=2"),
        (lambda: EllipticalBonus(D, blocks=2)(some(3)), "pass the action of each feature"),
        (lambda: EllipticalBonus(D, blocks=2)(some(3), torch.zeros(2)), "block has shape"),
        (lambda: EllipticalBonus(D, blocks=2)(some(1), torch.tensor([-1])), "must be in 0..1"),
        (lambda: EllipticalBonus(D, blocks=2)(some(1), torch.tensor([2])), "must be in 0..1"),
        (lambda: EllipticalBonus(4).observe(np.ones(4)), "must be a torch.Tensor .* got ndarray"),
        (lambda: EllipticalBonus(D).observe(some(1), weight=float("nan")), "weight must be"),
    ],
)
def test_invalid_input_is_an_error_with_a_remedy(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


def test_a_nan_is_an_error_not_a_bonus() -> None:
    bad = some(2)
    bad[1, 0] = float("nan")
    for use in (EllipticalBonus(D).observe, EllipticalBonus(D)):
        with pytest.raises(ArithmeticError, match="features have a NaN"):
            use(bad)
