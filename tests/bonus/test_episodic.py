"""Novelty within an episode, against explicit inverses and sets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive_ucb.bonus.episodic import EpisodicEllipses, EpisodicVisits

N, D = 3, 4


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1e-3, 0.1, 10.0]), st.floats(0.01, 30))
def test_sherman_and_morrison_equal_the_explicit_inverse(
    seed: int, ridge: float, scale: float
) -> None:
    rng = np.random.default_rng(seed)
    fast, slow = EpisodicEllipses(N, D, ridge), [ridge * np.eye(D) for _ in range(N)]
    for _ in range(15):
        ids = rng.permutation(N)[: rng.integers(1, N + 1)]
        phi, dones = scale * rng.normal(size=(len(ids), D)), rng.random(len(ids)) < 0.2
        expected = [x @ np.linalg.inv(slow[env]) @ x for x, env in zip(phi, ids, strict=True)]
        np.testing.assert_allclose(fast.compute(phi, ids), expected, rtol=1e-5)
        fast.observe(phi, ids)
        fast.end(ids[dones])
        for env, x, done in zip(ids, phi, dones, strict=True):
            slow[env] = ridge * np.eye(D) if done else slow[env] + np.outer(x, x)


def test_a_long_episode_keeps_its_precision() -> None:
    """5,000 updates without a new factorization, in a few directions only."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(32, 32)))[0]
    ellipses, c = EpisodicEllipses(1, 32), 0.1 * np.eye(32)
    ids = np.zeros(1, np.int64)
    for _ in range(5000):
        phi = basis[:, :3] @ rng.normal(size=3) + 1e-3 * rng.normal(size=32)
        phi /= np.linalg.norm(phi)
        ellipses.observe(phi[None], ids)
        c += np.outer(phi, phi)
    for x in basis.T:
        expected = x @ np.linalg.inv(c) @ x
        assert ellipses.compute(x[None], ids)[0] == pytest.approx(expected, rel=1e-6)


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from("abc"), st.booleans()), max_size=30))
def test_first_visits_equal_sets(steps: list[tuple[int, str, bool]]) -> None:
    visits = EpisodicVisits(N)
    slow: list[set[bytes]] = [set() for _ in range(N)]
    for at, (env, letter, done) in enumerate(steps):
        key, ids = letter.encode(), np.array([env])
        assert visits.compute([key], ids).tolist() == [float(key not in slow[env])]
        visits.observe([key], ids)
        slow[env].add(key)
        if done:
            visits.end(ids)
            slow[env] = set()
        if at % 3 == 0:
            loaded = EpisodicVisits(N)
            loaded.load_state_dict(visits.state_dict())
            visits = loaded
