"""MDPs and games in files: told apart by their headers, and loaded into the right class."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from contrastive_ucb.envs import LockGame, LowRankMDP, TabularGame, TabularMDP, load_env
from contrastive_ucb.envs.finite import kind_of

MDP, GAME = LowRankMDP(n_states=3), LockGame(n_dead=2, n_actions=(2, 3))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "my.npz"


def test_an_mdp_and_a_game_come_back(path: Path) -> None:
    for env, kind, expected in ((MDP, "mdp", TabularMDP), (GAME, "game", TabularGame)):
        arrays = {"transitions": env.transitions, "rewards": env.rewards, "initial": env.initial}
        if env.reward_scale is not None:
            arrays["reward_scale"] = env.reward_scale
        for save in (np.savez, np.savez_compressed):
            save(path, **arrays)
            assert kind_of(path) == kind_of(str(path)) == kind
            loaded = load_env(path, rank=2)
            assert type(loaded) is expected
            assert loaded.rank == 2
            assert loaded.name == "file"
            np.testing.assert_allclose(loaded.transitions, env.transitions, rtol=1e-14)
            np.testing.assert_array_equal(loaded.rewards, env.rewards)
            np.testing.assert_array_equal(loaded.initial, env.initial)
            assert (loaded.reward_scale is None) == (env.reward_scale is None)


def test_the_kind_is_told_without_loading_the_numbers(path: Path) -> None:
    np.savez(path, transitions=np.zeros((5, 100, 4, 4, 100)), rewards=np.zeros((5, 100, 4, 4)))
    tracemalloc.start()
    assert kind_of(path) == "game"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e6  # the numbers take 6.4 MB


def test_the_wrong_class_names_the_right_one(path: Path) -> None:
    np.savez(path, transitions=GAME.transitions, rewards=GAME.rewards)
    with pytest.raises(ValueError, match="goes to TabularGame"):
        TabularMDP.load(path)
    np.savez(path, transitions=MDP.transitions, rewards=MDP.rewards)
    with pytest.raises(ValueError, match="goes to TabularMDP"):
        TabularGame.load(path)


@pytest.mark.parametrize("read", [kind_of, load_env])
def test_other_files_are_refused(read, path: Path) -> None:
    def refused(message: str) -> None:
        with pytest.raises(ValueError, match=message) as caught:
            read(path)
        assert "\n" not in str(caught.value)

    refused("no file at .*np.savez")
    for content in (b"", b"hello", b"PK\x03\x04 torn"):
        path.write_bytes(content)
        refused("not a readable .npz file")
    np.savez(path, rewards=GAME.rewards)
    refused(r"no array named transitions \(it has rewards\)")
    np.savez(path, transitions=np.ones((1, 1, 2, 2, 2, 1)), rewards=np.zeros((1, 1, 2, 2, 2)))
    refused(r"has shape \(1, 1, 2, 2, 2, 1\).* two players and is zero-sum")
    np.savez(path, transitions=np.ones((1, 1, 1)), rewards=np.zeros((1, 1)))
    refused(r"that of an MDP is \(H, S, A, S\), that of a game \(H, S, A1, A2, S\)")
    with path.open("wb") as file:
        np.save(file, GAME.rewards)
    refused("not a readable .npz file")


def test_a_stray_array_is_named(path: Path) -> None:
    np.savez(path, transitions=GAME.transitions, rewards=GAME.rewards, reward=GAME.rewards)
    with pytest.raises(ValueError, match="it has an array 'reward', not one of transitions"):
        load_env(path)
