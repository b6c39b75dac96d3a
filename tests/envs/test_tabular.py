"""TabularMDP: arrays in, the same arrays out, and every bad array refused in one clear line."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs import Kernel, TabularMDP

H, S, A = 3, 4, 2


def arrays(seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(S), (H, S, A)), rng.random((H, S, A))


def factors(seed: int = 0, rank: int = 2) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    features = rng.dirichlet(np.ones(rank), (H, S, A))
    return features, rng.dirichlet(np.ones(S), (H, rank)), rng.random((H, S, A))


def changed(array: Array, at: Any, value: float) -> Array:
    array = array.copy()
    array[at] = value
    return array


P, R = arrays()
PHI, PSI, _ = factors()


def test_arrays_come_back_as_given() -> None:
    mdp = TabularMDP(P, R)
    assert (mdp.horizon, mdp.n_states, mdp.n_actions, mdp.rank) == (H, S, A, None)
    np.testing.assert_allclose(mdp.transitions, P, rtol=1e-15)
    np.testing.assert_array_equal(mdp.rewards, R)
    np.testing.assert_array_equal(mdp.initial, [1, 0, 0, 0])
    assert mdp.kernel.features.shape == (H, S * A, S)
    assert mdp.kernel.measures is None
    assert mdp.reveals_reward
    assert mdp.solved_gap is None
    assert TabularMDP(P, R, rank=3).rank == 3


def test_the_arrays_of_the_user_are_not_shared() -> None:
    transitions, rewards = arrays()
    mdp = TabularMDP(transitions, rewards)
    transitions[:], rewards[:] = 0, 0
    np.testing.assert_allclose(mdp.transitions, P, rtol=1e-15)
    np.testing.assert_array_equal(mdp.rewards, R)


@pytest.mark.parametrize(
    ("initial", "expected"),
    [(None, [1, 0, 0, 0]), (2, [0, 0, 1, 0]), (np.int64(1), [0, 1, 0, 0]), ([0.5, 0.5, 0, 0],) * 2],
)
def test_initial_state_or_distribution(initial: Any, expected: list[float]) -> None:
    np.testing.assert_array_equal(TabularMDP(P, R, initial).initial, expected)


def test_rows_within_the_tolerance_are_made_exact() -> None:
    mdp = TabularMDP(P * (1 + 5e-7), R, np.full(S, (1 + 5e-7) / S))
    np.testing.assert_allclose(mdp.transitions.sum(-1), 1, rtol=0, atol=1e-15)
    np.testing.assert_allclose(mdp.initial.sum(), 1, rtol=0, atol=1e-15)
    np.testing.assert_allclose(TabularMDP(P.astype(np.float32), R).transitions, P, atol=1e-6)


def test_integer_tables_are_fine() -> None:
    cycle = np.roll(np.eye(3, dtype=int), 1, axis=1)[None, :, None, :]
    mdp = TabularMDP(cycle, np.zeros((1, 3, 1), dtype=int))
    assert mdp.kernel.features.dtype == np.float64


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), rank=st.integers(1, 5))
def test_factors_equal_their_table(seed: int, rank: int) -> None:
    features, measures, rewards = factors(seed, rank)
    scale = np.random.default_rng(seed).uniform(0.5, 2, (H, rank))  # any gauge is the same kernel
    mdp = TabularMDP.from_factors(
        features / scale[:, None, None], measures * scale[..., None], rewards
    )
    table = np.einsum("hsaj,hjt->hsat", features, measures)
    np.testing.assert_allclose(mdp.transitions, table, atol=1e-14)
    np.testing.assert_allclose(mdp.kernel.features, features.reshape(H, S * A, rank), atol=1e-14)
    np.testing.assert_allclose(mdp.kernel.features.sum(-1), 1, atol=1e-14)
    assert mdp.rank == rank


def test_a_latent_without_mass_does_no_harm() -> None:
    features = np.concatenate([PHI, np.full((H, S, A, 1), 0.7)], axis=-1)
    measures = np.concatenate([PSI, np.zeros((H, 1, S))], axis=1)
    mdp = TabularMDP.from_factors(features, measures, R)
    np.testing.assert_allclose(mdp.transitions, PHI.reshape(H, S, A, 2) @ PSI[:, None], atol=1e-14)


def test_large_factors_never_become_a_table() -> None:
    features = np.full((10, 1000, 10, 2), 0.5)
    measures = np.full((10, 2, 1000), 1e-3)
    tracemalloc.start()
    TabularMDP.from_factors(features, measures, np.zeros((10, 1000, 10)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6  # the table would take 800 MB


NAN, INF = float("nan"), float("inf")
BAD = {
    "three axes": ((P[0], R), r"transitions has shape \(4, 2, 4\).*\(H, S, A, S\)"),
    "rewards of two axes": ((P, R[0]), r"rewards has shape \(4, 2\).*\(H, S, A\)"),
    "no steps": ((P[:0], R[:0]), "every axis .* at least 1"),
    "no actions": ((P[:, :, :0], R[:, :, :0]), "every axis .* at least 1"),
    "other horizon": ((P[:2], R), r"transitions has shape .* asks for \(3, 4, 2, 4\)"),
    "other next states": ((P[..., :3], R), r"asks for \(3, 4, 2, 4\)"),
    "nan": ((changed(P, (1, 2, 0, 3), NAN), R), r"transitions\[1,2,0,3\] is nan"),
    "inf": ((changed(P, (1, 2, 0, 3), INF), R), r"transitions\[1,2,0,3\] is inf"),
    "negative": ((changed(P, (0, 1, 1, 2), -0.2), R), r"transitions\[0,1,1,2\] is -0.2.*negative"),
    "row too small": ((P * 0.9, R), r"transitions\[0,0,0\] is 0.9.*sum to 1"),
    "one row too large": ((changed(P, (2, 1, 0), 0.5), R), r"transitions\[2,1,0\] is 2"),
    "words": ((np.full(P.shape, "x"), R), "transitions holds .* real numbers"),
    "complex": ((P + 1j, R), "transitions holds complex128"),
    "reward nan": ((P, changed(R, (0, 0, 1), NAN)), r"rewards\[0,0,1\] is nan"),
    "reward above": ((P, changed(R, (0, 0, 1), 1.5)), r"rewards\[0,0,1\] is 1.5.*\[0, 1\]"),
    "reward below": ((P, changed(R, (0, 0, 1), -0.1)), r"rewards\[0,0,1\] is -0.1"),
    "initial state": ((P, R, 4), r"initial is 4.*0\.\.3"),
    "initial fraction": ((P, R, 0.5), "initial is 0.5"),
    "initial length": ((P, R, [0.5, 0.5]), "initial has 2 entries.*4 states"),
    "initial negative": ((P, R, [1.5, -0.5, 0, 0]), r"initial\[1\] is -0.5"),
    "initial sum": ((P, R, [0.5, 0, 0, 0]), "initial sums to 0.5"),
    "initial nan": ((P, R, [NAN, 0, 0, 0]), r"initial\[0\] is nan"),
    "initial axes": ((P, R, np.eye(4)), r"initial has shape \(4, 4\).*\(S,\)"),
    "kernel": ((Kernel(np.ones((H, 3, 1))), R), r"asks for \(3, 8, d\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arrays_are_refused(case: str) -> None:
    given_arrays, message = BAD[case]
    with pytest.raises(ValueError, match=message) as caught:
        TabularMDP(*given_arrays)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank must be at least 1, got 0"),
        ({"reward_scale": np.full((H, S, A), 1.1)}, r"reward_scale\[0,0,0\] is 1.1"),
        ({"reward_scale": R / 2}, "at least the mean"),
        ({"reward_scale": R[:2]}, r"reward_scale has shape \(2, 4, 2\)"),
        ({"render_mode": "human"}, "render_mode is 'human'"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TabularMDP(P, R, **options)


@pytest.mark.parametrize(
    ("features", "measures", "message"),
    [
        (PHI[0], PSI, r"features has shape .*\(H, S, A, d\)"),
        (PHI, PSI[0], r"measures has shape .*\(H, d, S\)"),
        (PHI[:2], PSI, r"rewards \(3, 4, 2\)"),
        (PHI, PSI[:, :1], r"measures has shape .* ask for \(3, 2, 4\)"),
        (changed(PHI, (0, 0, 0), NAN), PSI, r"features\[0,0,0,0\] is nan"),
        (PHI[..., :0], PSI, "features has shape .* at least 1"),
        (PHI, changed(PSI, (1, 1, 3), -0.1), r"measures\[1,1,3\] is -0.1.*negative"),
        (changed(PHI, (0, 1, 0), [1.5, -0.5]), PSI, r"features\[0,1,0,1\] is -0.5"),
        (PHI, PSI * 0.9, r"features\[0,0,0\] is 0.9.*sum to 1"),
    ],
)
def test_bad_factors_are_refused(features: Array, measures: Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TabularMDP.from_factors(features, measures, R)


def test_load_reads_what_savez_wrote(tmp_path: Path) -> None:
    path = tmp_path / "my.npz"
    np.savez(path, transitions=P, rewards=R, initial=np.full(S, 1 / S))
    mdp = TabularMDP.load(path, rank=3)
    np.testing.assert_array_equal(mdp.transitions, TabularMDP(P, R).transitions)
    np.testing.assert_array_equal(mdp.initial, np.full(S, 1 / S))
    assert mdp.rank == 3
    np.savez(path, transitions=P, rewards=R)
    np.testing.assert_array_equal(TabularMDP.load(str(path)).initial, np.eye(S)[0])


def test_load_refuses_other_files(tmp_path: Path) -> None:
    def refused(message: str) -> None:
        with pytest.raises(ValueError, match=message) as caught:
            TabularMDP.load(path)
        assert "\n" not in str(caught.value)

    path = tmp_path / "my.npz"
    refused("no file at")
    for content in (b"", b"hello", b"PK\x03\x04 torn"):
        path.write_bytes(content)
        refused("not a readable .npz file")
    np.savez(path, transitions=P)
    refused(r"no array named rewards \(it has transitions\)")
    np.savez(path, transitions=np.array([{}], dtype=object), rewards=R)
    refused("not a readable .npz file")
    np.savez(path, transitions=P, rewards=R)
    path.write_bytes(path.read_bytes()[:-200])
    refused("not a readable .npz file")
    with path.open("wb") as file:
        np.save(file, P)
    refused("not a readable .npz file")
    path = tmp_path
    refused("no file at")


def play(mdp: TabularMDP, seed: int | None, n_episodes: int) -> list[tuple[int, ...]]:
    """(step, state, action, next state, reward in millionths) of uniform episodes."""
    rng = np.random.default_rng(5)
    moves = []
    for episode in range(n_episodes):
        (h, s), _ = mdp.reset(seed=seed if episode == 0 else None)
        terminated = False
        while not terminated:
            a = int(rng.integers(mdp.n_actions))
            (after, t), reward, terminated, truncated, _ = mdp.step(a)
            assert after == h + 1
            assert not truncated
            moves.append((h, s, a, t, round(reward * 1e6)))
            h, s = after, t
        assert h == mdp.horizon
    return moves


def test_episodes_follow_the_arrays() -> None:
    initial, scale = np.array([0.7, 0.0, 0.1, 0.2]), np.sqrt(R)
    mdp = TabularMDP(P, R, initial, reward_scale=scale)
    moves = np.array(play(mdp, seed=1, n_episodes=4000))
    starts = np.bincount(moves[moves[:, 0] == 0, 1], minlength=S)
    assert starts[1] == 0
    assert chisquare(starts[[0, 2, 3]], 4000 * initial[[0, 2, 3]]).pvalue > 1e-4
    for h, s, a in np.ndindex(H, S, A):
        here = moves[(moves[:, :3] == (h, s, a)).all(1)]
        if len(here) > 100:
            counts = np.bincount(here[:, 3], minlength=S)
            likely = P[h, s, a] > 0.02  # pool the rest, for the sake of the test's approximation
            seen = [*counts[likely], counts[~likely].sum() + 1e-9]
            mean = len(here) * np.append(P[h, s, a][likely], P[h, s, a][~likely].sum()) + 1e-9
            keep = mean > 1e-6
            assert chisquare(np.array(seen)[keep], mean[keep], sum_check=False).pvalue > 1e-4
            assert set(here[:, 4]) <= {0, round(scale[h, s, a] * 1e6)}
            error = here[:, 4].mean() / 1e6 - R[h, s, a]
            assert abs(error) < 4.5 * scale[h, s, a] / 2 / np.sqrt(len(here))


def test_the_mean_is_seen_without_a_scale() -> None:
    for h, s, a, _, reward in play(TabularMDP(P, R, np.full(S, 1 / S)), seed=0, n_episodes=50):
        assert reward == round(R[h, s, a] * 1e6)


def test_same_seed_same_episodes_other_seed_others() -> None:
    mdp = TabularMDP(P, R, np.full(S, 1 / S))
    assert play(mdp, 3, 20) == play(mdp, 3, 20)
    assert play(mdp, 3, 20) != play(mdp, 4, 20)


def test_a_saved_state_goes_on_bit_for_bit() -> None:
    mdp, twin = (TabularMDP(P, R, reward_scale=np.ones_like(R)) for _ in range(2))
    mdp.reset(seed=0)
    mdp.step(1)
    twin.load_state_dict(json.loads(json.dumps(mdp.state_dict())))
    assert [list(mdp.step(0)[0]), mdp.step(1)[1]] == [list(twin.step(0)[0]), twin.step(1)[1]]
    assert play(mdp, None, 20) == play(twin, None, 20)


def test_step_needs_an_episode_and_an_action() -> None:
    mdp = TabularMDP(P, R, render_mode="ansi")
    with pytest.raises(gymnasium.error.ResetNeeded):
        mdp.step(0)
    mdp.reset(seed=0)
    assert mdp.render() == "step 0 of 3, state 0"
    with pytest.raises(ValueError, match=r"action is 2; it must be one of 0\.\.1"):
        mdp.step(2)
    for _ in range(H):
        mdp.step(0)
    with pytest.raises(gymnasium.error.ResetNeeded):
        mdp.step(0)
