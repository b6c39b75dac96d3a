"""TabularGame: arrays in, the same arrays out, two players who step, and bad arrays refused."""

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs import Kernel, LockGame, LowRankGame, TabularGame, TabularMDP

H, S, A1, A2 = 3, 4, 2, 3
RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(S), (H, S, A1, A2))
R = RNG.uniform(-1, 1, (H, S, A1, A2))
PHI = RNG.dirichlet(np.ones(2), (H, S, A1, A2))
PSI = RNG.dirichlet(np.ones(S), (H, 2))
ROCK_PAPER_SCISSORS = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])

GAMES: dict[str, Callable[[], TabularGame]] = {
    "tabular": lambda: TabularGame(P, R),
    "lowrank": LowRankGame,
    "lock": LockGame,
}


def changed(array: Array, at: Any, value: float) -> Array:
    array = array.copy()
    array[at] = value
    return array


def play(game: TabularGame, seed: int | None, n_episodes: int) -> list[tuple[int, ...]]:
    """(step, state, a, b, next state, row's reward in millionths) of uniform episodes."""
    rng = np.random.default_rng(5)
    moves = []
    for episode in range(n_episodes):
        seen, _ = game.reset(seed=seed if episode == 0 else None)
        while game.agents:
            h, s = seen["row"]
            a, b = (int(rng.integers(n)) for n in game.n_actions)
            seen, rewards, *_ = game.step({"row": a, "column": b})
            assert rewards["column"] == -rewards["row"]
            np.testing.assert_array_equal(seen["row"], seen["column"])
            moves.append((h, s, a, b, seen["row"][1], round(rewards["row"] * 1e6)))
    return moves


def test_arrays_come_back_as_given() -> None:
    game = TabularGame(P, R, rank=3)
    assert (game.horizon, game.n_states, game.n_actions, game.rank) == (H, S, (A1, A2), 3)
    np.testing.assert_allclose(game.transitions, P, rtol=1e-15)
    np.testing.assert_array_equal(game.rewards, R)
    np.testing.assert_array_equal(game.initial, [1, 0, 0, 0])
    assert game.kernel.features.shape == (H, S * A1 * A2, S)
    z = (2 * A1 + 1) * A2 + 2  # s=2, a=1, b=2
    np.testing.assert_allclose(game.kernel.features[1, z], P[1, 2, 1, 2])
    assert (game.reveals_reward, game.suggested_alpha, game.solved_gap) == (True, 0.7, None)
    assert repr(game) == "TabularGame(n_states=4, n_actions=(2, 3), horizon=3, rank=3)"


@pytest.mark.parametrize("gauge", [1.0, 0.5])
def test_factors_equal_their_table(gauge: float) -> None:
    game = TabularGame.from_factors(PHI / gauge, PSI * gauge, R)
    np.testing.assert_allclose(
        game.transitions, np.einsum("hsabj,hjt->hsabt", PHI, PSI), atol=1e-14
    )
    np.testing.assert_allclose(game.kernel.features.sum(-1), 1, atol=1e-14)
    assert game.rank == 2
    again = TabularGame(game.kernel, R)
    np.testing.assert_allclose(again.transitions, game.transitions, atol=1e-14)


def test_a_matrix_game_is_a_game_of_one_state_and_one_step() -> None:
    game = TabularGame(np.ones((1, 1, 3, 3, 1)), ROCK_PAPER_SCISSORS[None, None])
    for a, b in np.ndindex(3, 3):
        game.reset()
        _, rewards, over, *_ = game.step({"row": a, "column": b})
        assert rewards == {"row": ROCK_PAPER_SCISSORS[a, b], "column": -ROCK_PAPER_SCISSORS[a, b]}
        assert over == {"row": True, "column": True}


def test_rewards_seen_have_the_means_and_the_signs() -> None:
    means = np.array([[0.3, -0.6], [0.0, -1.0]])
    scale = np.array([[0.5, -0.8], [-1.0, -1.0]])
    game = TabularGame(np.ones((1, 1, 2, 2, 1)), means[None, None], reward_scale=scale[None, None])
    moves = np.array(play(game, seed=1, n_episodes=8000))
    for a, b in np.ndindex(2, 2):
        seen = moves[(moves[:, 2:4] == (a, b)).all(1), 5] / 1e6
        assert set(seen) <= {0.0, scale[a, b]}
        assert abs(seen.mean() - means[a, b]) < 4.5 / 2 / np.sqrt(len(seen))
    assert (moves[(moves[:, 2:4] == (1, 1)).all(1), 5] == -1e6).all()


def test_next_states_follow_the_arrays() -> None:
    game = TabularGame(P, R, np.full(S, 1 / S))
    moves = np.array(play(game, seed=2, n_episodes=3000))
    for h, s, a, b in np.ndindex(H, S, A1, A2):
        here = moves[(moves[:, :4] == (h, s, a, b)).all(1)]
        share = np.bincount(here[:, 4], minlength=S) / len(here)
        assert abs(share - P[h, s, a, b]).max() < 4.5 / 2 / np.sqrt(len(here))
        assert (here[:, 5] == round(R[h, s, a, b] * 1e6)).all()


@pytest.mark.parametrize("make", GAMES.values(), ids=GAMES)
def test_passes_the_tests_of_pettingzoo_without_a_warning(make: Callable[[], TabularGame]) -> None:
    pettingzoo = pytest.importorskip("pettingzoo")
    tests = pytest.importorskip("pettingzoo.test")
    assert isinstance(make(), pettingzoo.ParallelEnv)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tests.parallel_api_test(make())
        tests.parallel_seed_test(make)


@pytest.mark.parametrize("make", GAMES.values(), ids=GAMES)
def test_says_what_pettingzoo_wants_to_know(make: Callable[[], TabularGame]) -> None:
    game = make()
    assert game.possible_agents == ["row", "column"]
    assert game.metadata["name"] == game.name
    assert game.agents == []
    seen, infos = game.reset(seed=0)
    assert game.agents == ["row", "column"]
    assert infos == {"row": {}, "column": {}}
    for player, n_actions in zip(game.agents, game.n_actions, strict=True):
        assert game.observation_space(player).contains(seen[player])
        assert game.action_space(player).n == n_actions
        np.testing.assert_array_equal(game.state(), seen[player])
    game.close()


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    sizes=st.tuples(*[st.integers(1, 4)] * 4),
    with_scale=st.booleans(),
)
def test_stepping_stays_in_range(
    seed: int, sizes: tuple[int, int, int, int], with_scale: bool
) -> None:
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.full(sizes[1], 0.1), sizes)
    rewards = rng.uniform(-1, 1, sizes)
    scale = np.sign(rewards) * rng.uniform(abs(rewards), 1) if with_scale else None
    game = TabularGame(transitions, rewards, rng.integers(sizes[1]), reward_scale=scale)
    for h, s, a, b, after, reward in play(game, seed, n_episodes=3):
        assert transitions[h, s, a, b, after] > 0
        possible = [rewards[h, s, a, b]] if scale is None else [0, scale[h, s, a, b]]
        assert reward in [round(r * 1e6) for r in possible]


def test_same_seed_same_episodes_other_seed_others() -> None:
    game = TabularGame(P, R, np.full(S, 1 / S))
    assert play(game, 3, 20) == play(game, 3, 20)
    assert play(game, 3, 20) != play(game, 4, 20)


def test_a_saved_state_goes_on_bit_for_bit() -> None:
    game, twin = (TabularGame(P, R, reward_scale=np.sign(R)) for _ in range(2))
    game.reset(seed=0)
    game.step({"row": 1, "column": 2})
    twin.load_state_dict(json.loads(json.dumps(game.state_dict())))
    assert twin.agents == game.agents
    for _ in range(H - 1):
        one, same = (g.step({"row": 0, "column": 1}) for g in (game, twin))
        np.testing.assert_array_equal(one[0]["row"], same[0]["row"])
        assert one[1:] == same[1:]
    assert play(game, None, 20) == play(twin, None, 20)


def test_step_needs_an_episode_and_an_action_of_each() -> None:
    game = TabularGame(P, R, render_mode="ansi")
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        game.step({"row": 0, "column": 0})
    game.reset(seed=0)
    assert game.render() == "step 0 of 3, state 0"
    bad: dict[str, dict[str, Any]] = {
        r"actions are of row; step takes one of each player": {"row": 0},
        r"actions are of nobody; step takes": {},
        r"actions are of row, column, dealer; step": {"row": 0, "column": 0, "dealer": 0},
        r"action of row is 2; it must be one of 0\.\.1": {"row": 2, "column": 0},
        r"action of column is -1; it must be one of 0\.\.2": {"row": 0, "column": -1},
        r"action of column is 0\.5; it must": {"row": 0, "column": 0.5},
        r"action of column is None; it must": {"row": 0, "column": None},
        r"action of row is \[0, 1\]; it must": {"row": [0, 1], "column": 0},
    }
    for message, actions in bad.items():
        with pytest.raises(ValueError, match=message):
            game.step(actions)
    for _ in range(H):
        game.step({"row": np.int64(1), "column": np.array(2)})
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        game.step({})


NAN = float("nan")
BAD = {
    "an mdp": ((P[:, :, :, 0], R), r"transitions has shape .*\(H, S, A1, A2, S\).* TabularMDP"),
    "an mdp whole": ((P[:, :, :, 0], R[..., 0]), "TabularMDP"),
    "rewards of an mdp": ((P, R[..., 0]), r"rewards has shape .* TabularMDP"),
    "three players": ((P[:, :, :, :, None], R[..., None]), "of 3 players.*two players.*zero-sum"),
    "rewards of each": ((P, np.stack([R, -R], -1)), "each player.*zero-sum.*the row player"),
    "no steps": ((P[:0], R[:0]), "every axis .* at least 1"),
    "other actions": ((P[:, :, :1], R), r"asks for \(3, 4, 2, 3, 4\)"),
    "nan": ((changed(P, (1, 2, 0, 1, 3), NAN), R), r"transitions\[1,2,0,1,3\] is nan"),
    "row too large": ((changed(P, (2, 1, 0, 2), 0.5), R), r"\[2,1,0,2\] is 2; P\(.\|s,a,b\) must"),
    "reward above": ((P, changed(R, (0, 0, 1, 2), 1.5)), r"rewards\[0,0,1,2\] is 1.5.*\[-1, 1\]"),
    "reward below": ((P, changed(R, (0, 0, 1, 2), -1.1)), r"rewards\[0,0,1,2\] is -1.1"),
    "kernel": ((Kernel(np.ones((H, 3, 1))), R), r"asks for \(3, 24, d\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arrays_are_refused(case: str) -> None:
    given_arrays, message = BAD[case]
    with pytest.raises(ValueError, match=message) as caught:
        TabularGame(*given_arrays)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("axis", ["transitions", "rewards", "features"])
def test_an_mdp_sends_the_arrays_of_a_game_to_its_class(axis: str) -> None:
    calls: dict[str, Callable[[], object]] = {
        "transitions": lambda: TabularMDP(P, R),
        "rewards": lambda: TabularMDP(P[:, :, :, 0], R),
        "features": lambda: TabularMDP.from_factors(PHI, PSI, R),
    }
    with pytest.raises(ValueError, match=f"{axis} has shape .*two players goes to TabularGame"):
        calls[axis]()


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (-np.sign(R), r"reward_scale\[0,0,0,0\] is .*with its sign"),
        (R / 2, "at least the mean in rewards, in size"),
        (2 * np.sign(R), r"reward_scale\[0,0,0,0\] is -?2; it must lie in \[-1, 1\]"),
        (R[:2], r"reward_scale has shape \(2, 4, 2, 3\)"),
    ],
)
def test_a_scale_on_the_wrong_side_is_refused(scale: Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TabularGame(P, R, reward_scale=scale)


@pytest.mark.parametrize("game_class", [LowRankGame, LockGame])
def test_numbers_of_actions_that_are_no_game_are_refused(game_class: type[TabularGame]) -> None:
    for n_actions, message in {
        (3, 3, 3): r"n_actions is \(3, 3, 3\), that of 3 players.*two players.*zero-sum",
        (3,): "of 1 players",
        (3, 0): "n_actions must be at least",
        (3, 2.5): "n_actions must be a whole number, got 2.5",
    }.items():
        with pytest.raises(ValueError, match=message):
            game_class(n_actions=n_actions)  # type: ignore[call-arg]
    for counts in ([2, 4], np.array([2, 4])):
        assert game_class(n_actions=counts).n_actions == (2, 4)  # type: ignore[call-arg]


def test_works_without_pettingzoo() -> None:
    program = """
import sys
sys.modules["pettingzoo"] = None  # an import of it now fails
from contrastive_ucb.envs import LockGame, LowRankGame
for game in (LowRankGame(), LockGame()):
    seen, _ = game.reset(seed=0)
    while game.agents:
        seen, *_ = game.step({"row": 0, "column": 1})
    print(seen["row"][0], game.transitions.shape, game)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "3 (3, 6, 3, 3, 6) LowRankGame(n_states=6, n_actions=(3, 3), horizon=3, rank=3)",
        "5 (5, 12, 3, 3, 12) LockGame(n_states=12, n_actions=(3, 3), horizon=5, rank=2)",
    ]
