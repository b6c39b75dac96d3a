"""TabularMDP and TabularGame: arrays, files, episodes, and errors for invalid arrays."""

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs import (
    DeepSea,
    Kernel,
    Lock,
    LockGame,
    LowRankGame,
    LowRankMDP,
    RiverSwim,
    TabularGame,
    TabularMDP,
    load_env,
)
from contrastive_ucb.envs.tabular import kind_of

Env = TabularMDP | TabularGame
H, S, A, A1, A2 = 3, 4, 2, 2, 3
RNG = np.random.default_rng(0)
P, R = RNG.dirichlet(np.ones(S), (H, S, A)), RNG.random((H, S, A))
PHI, PSI = RNG.dirichlet(np.ones(2), (H, S, A)), RNG.dirichlet(np.ones(S), (H, 2))
GAME_P = RNG.dirichlet(np.ones(S), (H, S, A1, A2))
GAME_R = RNG.uniform(-1, 1, (H, S, A1, A2))
BOTH = pytest.mark.parametrize(
    ("kind", "transitions", "rewards"),
    [(TabularMDP, P, R), (TabularGame, GAME_P, GAME_R)],
    ids=["mdp", "game"],
)
NAN, INF = float("nan"), float("inf")


def changed(array: Array, at: Any, value: Any) -> Array:
    array = array.copy()
    array[at] = value
    return array


def play(env: Env, seed: int | None, n_episodes: int) -> list[tuple[int, ...]]:
    """(step, state, *actions, next state, reward in millionths) of episodes of random actions."""
    rng = np.random.default_rng(5)
    moves = []
    for episode in range(n_episodes):
        observation: Any = env.reset(seed=seed if episode == 0 else None)[0]
        is_over = False
        while not is_over:
            actions = [int(rng.integers(n)) for n in env.rewards.shape[2:]]
            if isinstance(env, TabularGame):
                h, s = observation["row"]
                observation, rewards, *_ = env.step({"row": actions[0], "column": actions[1]})
                np.testing.assert_array_equal(observation["row"], observation["column"])
                after, t = observation["row"]
                reward, is_over = rewards["row"], not env.agents
                assert rewards["column"] == -reward
            else:
                h, s = observation
                observation, reward, is_over, truncated, _ = env.step(actions[0])
                after, t = observation
                assert not truncated
            assert after == h + 1
            moves.append((h, s, *actions, t, round(reward * 1e6)))
        assert after == env.horizon
    return moves


# Arrays


@pytest.mark.parametrize(
    ("initial", "expected"),
    [(None, [1, 0, 0, 0]), (2, [0, 0, 1, 0]), (np.int64(1), [0, 1, 0, 0]), ([0.5, 0.5, 0, 0],) * 2],
)
def test_initial_state_or_distribution(initial: Any, expected: list[float]) -> None:
    np.testing.assert_array_equal(TabularMDP(P, R, initial).initial, expected)


def test_rows_within_the_tolerance_are_normalized() -> None:
    mdp = TabularMDP(P * (1 + 5e-7), R, np.full(S, (1 + 5e-7) / S))
    np.testing.assert_allclose(mdp.transitions.sum(-1), 1, rtol=0, atol=1e-15)
    np.testing.assert_allclose(mdp.initial.sum(), 1, rtol=0, atol=1e-15)
    np.testing.assert_allclose(TabularMDP(P.astype(np.float32), R).transitions, P, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), rank=st.integers(1, 5), is_game=st.booleans())
def test_factors_equal_their_table_in_any_gauge(seed: int, rank: int, is_game: bool) -> None:
    rng = np.random.default_rng(seed)
    kind, rewards = (TabularGame, GAME_R) if is_game else (TabularMDP, R)
    features = rng.dirichlet(np.ones(rank), rewards.shape)
    measures = rng.dirichlet(np.ones(S), (H, rank))
    gauge = rng.uniform(0.5, 2, (H, rank))
    scaled = features / gauge.reshape(H, *(1,) * (rewards.ndim - 1), rank)
    env = kind.from_factors(scaled, measures * gauge[..., None], rewards)
    table = np.einsum("h...j,hjt->h...t", features, measures)
    np.testing.assert_allclose(env.transitions, table, atol=1e-14)
    np.testing.assert_allclose(env.kernel.features, features.reshape(H, -1, rank), atol=1e-14)
    np.testing.assert_allclose(kind(env.kernel, rewards).transitions, table, atol=1e-14)
    assert type(env) is kind
    assert env.rank == rank


# Invalid arrays: every error is one line that names the entry or the shape

INVALID = {
    "no steps": ((P[:0], R[:0]), "transitions has shape .* may be empty"),
    "other horizon": ((P[:2], R), r"transitions has shape .* requires \(3, 4, 2, 4\)"),
    "nan": ((changed(P, (1, 2, 0, 3), NAN), R), r"transitions\[1,2,0,3\] is nan"),
    "negative": ((changed(P, (0, 1, 1, 2), -0.2), R), r"transitions\[0,1,1,2\] is -0.2.*negative"),
    "row too small": ((P * 0.9, R), r"transitions\[0,0,0\] is 0.9.*sum to 1"),
    "text": ((np.full(P.shape, "x"), R), "transitions holds .* real numbers"),
    "reward above": ((P, changed(R, (0, 0, 1), 1.5)), r"rewards\[0,0,1\] is 1.5.*\[0, 1\]"),
    "initial state": ((P, R, 4), r"initial is 4.*0\.\.3"),
    "initial length": ((P, R, [0.5, 0.5]), "initial has 2 entries.*4 states"),
    "initial negative": ((P, R, [1.5, -0.5, 0, 0]), r"initial\[1\] is -0.5"),
    "initial sum": ((P, R, [0.5, 0, 0, 0]), "initial sums to 0.5"),
    "kernel": ((Kernel(np.ones((H, 3, 1))), R), r"requires \(3, 8, d\)"),
    "a game": ((GAME_P, GAME_R), "transitions has shape .*TabularGame"),
}
INVALID_GAME = {
    "an mdp": ((P, R), r"transitions has shape .*\(H, S, A1, A2, S\).* TabularMDP"),
    "three players": ((GAME_P[:, :, :, :, None], GAME_R[..., None]), "3 players.*two players"),
    "rewards of each": ((GAME_P, np.stack([GAME_R, -GAME_R], -1)), "per player.*zero-sum"),
    "row": ((changed(GAME_P, (2, 1, 0, 2), 0.5), GAME_R), r"\[2,1,0,2\] is 2; P\(.\|s,a,b\) must"),
    "above": ((GAME_P, changed(GAME_R, (0, 0, 1, 2), 1.5)), r"\[0,0,1,2\] is 1.5.*\[-1, 1\]"),
}


@pytest.mark.parametrize(
    ("kind", "arrays", "message"),
    [(TabularMDP, *case) for case in INVALID.values()]
    + [(TabularGame, *case) for case in INVALID_GAME.values()],
    ids=[*INVALID, *(f"game: {name}" for name in INVALID_GAME)],
)
def test_invalid_arrays(kind: type[Env], arrays: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        kind(*arrays)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("features", "measures", "message"),
    [
        (PHI, PSI[0], r"measures has shape .*\(H, d, S\)"),
        (PHI[:2], PSI, r"features has shape .* requires \(3, 4, 2, 2\)"),
        (PHI, PSI[:, :1], r"measures has shape .* requires \(3, 2, 4\)"),
        (PHI, changed(PSI, (1, 1, 3), -0.1), r"measures\[1,1,3\] is -0.1.*negative"),
        (changed(PHI, (0, 1, 0), [1.5, -0.5]), PSI, r"features\[0,1,0,1\] is -0.5"),
        (PHI, PSI * 0.9, r"features\[0,0,0\] is 0.9.*sum to 1"),
    ],
)
def test_invalid_factors(features: Array, measures: Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TabularMDP.from_factors(features, measures, R)


# Files


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "my.npz"


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("env", [LowRankMDP(n_states=3), LockGame(n_dead=2, n_actions=(2, 3))])
def test_load_env_reads_an_mdp_or_a_game(env: Env, save: Any, path: Path) -> None:
    arrays = {"transitions": env.transitions, "rewards": env.rewards, "initial": env.initial}
    if env.reward_scale is not None:
        arrays["reward_scale"] = env.reward_scale
    save(path, **arrays)
    kind, other = (TabularMDP, TabularGame)[:: 1 if isinstance(env, TabularMDP) else -1]
    assert kind_of(path) == kind_of(str(path)) == ("mdp" if kind is TabularMDP else "game")
    for loaded in (load_env(path, rank=2), kind.load(str(path), rank=2)):
        assert type(loaded) is kind
        assert (loaded.rank, loaded.name) == (2, "file")
        np.testing.assert_allclose(loaded.transitions, env.transitions, rtol=1e-14)
        np.testing.assert_array_equal(loaded.rewards, env.rewards)
        np.testing.assert_array_equal(loaded.initial, env.initial)
        assert (loaded.reward_scale is None) == (env.reward_scale is None)
    with pytest.raises(ValueError, match=f"use {kind.__name__}"):
        other.load(path)
    save(path, transitions=env.transitions, rewards=env.rewards)
    np.testing.assert_array_equal(load_env(path).initial, np.eye(env.n_states)[0])


@pytest.mark.parametrize("read", [kind_of, load_env, TabularMDP.load])
def test_unreadable_files(read: Callable[[Path], Any], path: Path) -> None:
    def check(message: str) -> None:
        with pytest.raises(ValueError, match=message) as caught:
            read(path)
        assert "\n" not in str(caught.value)

    check("no file at .*np.savez")
    for content in (b"", b"hello", b"PK\x03\x04 torn"):
        path.write_bytes(content)
        check("not a readable .npz file.*it is not a zip archive")
    with path.open("wb") as file:
        np.save(file, P)
    check("not a readable .npz file.*it is not a zip archive")
    np.savez(path, rewards=R)
    check(r"no array named transitions \(it has rewards\)")
    np.savez(path, transitions=np.ones((1, 1, 2, 2, 2, 1)), rewards=np.zeros((1, 1, 2, 2, 2)))
    check(r"has shape \(1, 1, 2, 2, 2, 1\).* two players and is zero-sum")
    if read is not kind_of:
        np.savez(path, transitions=np.array([{}] * 4, dtype=object).reshape(1, 2, 1, 2), rewards=R)
        check("not a readable .npz file")
        np.savez(path, transitions=P, rewards=R, reward=R)
        check("array 'reward', not one of transitions")
    np.savez(path, transitions=P, rewards=R)
    path.write_bytes(path.read_bytes()[:-200])
    check("not a readable .npz file")


# Episodes


@BOTH
def test_episodes_follow_the_arrays(kind: type[Env], transitions: Array, rewards: Array) -> None:
    initial = np.array([0.7, 0.0, 0.1, 0.2])
    scale = np.sign(rewards) * np.sqrt(np.abs(rewards))
    env, n_axes = kind(transitions, rewards, initial, reward_scale=scale), rewards.ndim
    moves = np.array(play(env, seed=1, n_episodes=4000))
    starts = np.bincount(moves[moves[:, 0] == 0, 1], minlength=S) / 4000
    assert starts[1] == 0
    assert abs(starts - initial).max() < 4.5 / 2 / np.sqrt(4000)
    for at in np.ndindex(rewards.shape):
        here = moves[(moves[:, :n_axes] == at).all(1)]
        if len(here) > 100:
            bound = 4.5 / 2 / np.sqrt(len(here))  # of a share, by its largest variance
            share = np.bincount(here[:, n_axes], minlength=S) / len(here)
            assert abs(share - transitions[at]).max() < bound
            assert set(here[:, -1]) <= {0, round(scale[at] * 1e6)}
            assert abs(here[:, -1].mean() / 1e6 - rewards[at]) < abs(scale[at]) * bound


@BOTH
def test_seeds_and_saved_states(kind: type[Env], transitions: Array, rewards: Array) -> None:
    env, twin = (kind(transitions, rewards, np.full(S, 1 / S)) for _ in range(2))
    assert play(env, 3, 20) == play(twin, 3, 20)
    assert play(env, 3, 20) != play(env, 4, 20)
    env.reset(seed=0)
    twin.load_state_dict(json.loads(json.dumps(env.state_dict())))
    assert play(env, None, 20) == play(twin, None, 20)


def test_step_needs_an_episode_and_a_valid_action() -> None:
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


def test_step_of_a_game_needs_one_valid_action_per_player() -> None:
    game = TabularGame(GAME_P, GAME_R)
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        game.step({"row": 0, "column": 0})
    game.reset(seed=0)
    invalid: dict[str, dict[str, Any]] = {
        r"of row; step takes one action per player": {"row": 0},
        r"of row, column, dealer; step": {"row": 0, "column": 0, "dealer": 0},
        r"action of row is 2; it must be one of 0\.\.1": {"row": 2, "column": 0},
        r"action of column is -1; it must be one of 0\.\.2": {"row": 0, "column": -1},
    }
    for message, actions in invalid.items():
        with pytest.raises(ValueError, match=message):
            game.step(actions)
    for _ in range(H):
        game.step({"row": np.int64(1), "column": np.array(2)})
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        game.step({})


# Interfaces of Gymnasium and PettingZoo

MDPS: dict[type[TabularMDP], dict[str, Any]] = {
    DeepSea: {"size": 5},
    Lock: {"n_dead": 3},
    LowRankMDP: {"reward": "linear"},
    RiverSwim: {"n_states": 4},
    TabularMDP: {"transitions": np.full((2, 3, 2, 3), 1 / 3), "rewards": np.zeros((2, 3, 2))},
}
GAMES: dict[str, Callable[[], TabularGame]] = {
    "tabular": lambda: TabularGame(GAME_P, GAME_R),
    "lowrank": LowRankGame,
    "lock": LockGame,
}


@pytest.mark.parametrize("env_class", MDPS, ids=lambda c: c.__name__)
def test_mdps_pass_the_checker_of_gymnasium(env_class: type[TabularMDP]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(f"contrastive_ucb/{env_class.__name__}-v0", **MDPS[env_class])
        assert type(env.unwrapped) is env_class
        check_env(env.unwrapped)
    single: dict[str, Any] = {"size": 1} if env_class is DeepSea else {"horizon": 1}
    if env_class is TabularMDP:
        single = {name: array[:1] for name, array in MDPS[TabularMDP].items()}
    check_env(env_class(**single), skip_render_check=True)


@pytest.mark.parametrize("make", GAMES.values(), ids=GAMES)
def test_games_pass_the_tests_of_pettingzoo(make: Callable[[], TabularGame]) -> None:
    pettingzoo = pytest.importorskip("pettingzoo")
    tests = pytest.importorskip("pettingzoo.test")
    game = make()
    assert isinstance(game, pettingzoo.ParallelEnv)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tests.parallel_api_test(make())
        tests.parallel_seed_test(make)
    assert game.metadata["name"] == game.name
    assert game.agents == []
    observations, _ = game.reset(seed=0)
    assert game.agents == game.possible_agents == ["row", "column"]
    np.testing.assert_array_equal(game.state(), observations["row"])
    game.close()


def test_games_work_without_pettingzoo() -> None:
    program = """
import sys
sys.modules["pettingzoo"] = None  # importing it now fails
from contrastive_ucb.envs import LockGame, LowRankGame
for game in (LowRankGame(), LockGame()):
    observations, _ = game.reset(seed=0)
    while game.agents:
        observations, *_ = game.step({"row": 0, "column": 1})
    print(observations["row"][0], game.transitions.shape, game)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "3 (3, 6, 3, 3, 6) LowRankGame(n_states=6, n_actions=(3, 3), horizon=3, rank=3)",
        "5 (5, 12, 3, 3, 12) LockGame(n_states=12, n_actions=(3, 3), horizon=5, rank=2)",
    ]
