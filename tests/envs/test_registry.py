"""The registry: spellings of ids, errors, evaluation environments, instances and factories."""

from pathlib import Path

import pytest

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs import registry
from contrastive_ucb.envs.lock import Lock
from contrastive_ucb.envs.registry import (
    MINATAR,
    canonical_name,
    frame_shape_of,
    make_deep_env,
    make_eval_envs,
)
from contrastive_ucb.envs.rich_lock import RichLock


@pytest.mark.parametrize(
    ("name", "known"),
    [
        *((spelling, "Pong") for spelling in ("pong", "ALE/Pong-v5", "PongNoFrameskip-v4")),
        *((spelling, "RoadRunner") for spelling in ("road_runner", "Road Runner")),
        ("Ms. Pac-Man", "MsPacman"),
        ("Q*bert", "Qbert"),
        ("minatar/space_invaders", "MinAtar/SpaceInvaders-v1"),
        ("deepsea-010", "DeepSea-10"),
        ("rich-lock-6", "RichLock-6"),
        ("CartPole-v1", "CartPole-v1"),
        ("gymnasium:CartPole-v1", "gymnasium:CartPole-v1"),
    ],
)
def test_spellings_of_an_id(name: str, known: str) -> None:
    assert canonical_name(name) == known
    assert canonical_name(known) == known


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Pnog", "no environment is called 'Pnog'; did you mean 'Pong'"),
        ("CartPole-v9", "did you mean 'CartPole-v1'"),
        ("MinAtar/Brekout-v1", "did you mean 'MinAtar/Breakout-v1'"),
        ("DeepSea", "did you mean 'DeepSea-10'"),
        ("RichLok", "did you mean 'RichLock-6'"),
        ("xyzzy", r"'xyzzy'; try 'Pong', 'MinAtar/Breakout-v1', 'DeepSea-10'"),
        ("DeepSea-0", "size of DeepSea must be at least 1, got 0"),
        ("RichLock-0", "horizon of RichLock must be at least 1, got 0"),
        ("Pendulum-v1", "Pendulum-v1 has actions Box"),
        ("Blackjack-v1", "Blackjack-v1 has observations Tuple"),
        ("no_such_module:Own-v0", "Gymnasium cannot make 'no_such_module:Own-v0'"),
    ],
)
def test_unknown_and_unsupported_ids(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_deep_env(name, seed=0, training=True)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Pong", r"Pong needs ale_py and cv2: pip install 'contrastive-ucb\[atari\]'"),
        ("MinAtar/Breakout-v1", r"needs minatar: pip install 'contrastive-ucb\[minatar\]'"),
    ],
)
def test_missing_packages(name: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda package: None)
    with pytest.raises(UserError, match=message):
        make_deep_env(name, seed=0, training=True)


def test_evaluation_environments_have_separate_streams() -> None:
    first, again = (make_eval_envs("CartPole-v1", seed=0, count=4) for _ in range(2))
    starts = [tuple(env.reset()) for env in first]
    assert starts == [tuple(env.reset()) for env in again]
    assert len({*starts, tuple(make_deep_env("CartPole-v1", seed=0, training=True).reset())}) == 5
    assert starts[0] == tuple(make_deep_env("CartPole-v1", seed=0, training=False).reset())
    with pytest.raises(ValueError, match="count must be at least 1, got 0"):
        make_eval_envs("CartPole-v1", seed=0, count=0)


@pytest.mark.parametrize(
    "name",
    ["pong", "ALE/Qbert-v5", "deepsea-7", "rich-lock-5", *MINATAR, "CartPole-v1", "FrozenLake-v1"],
)
def test_frame_shape_without_an_environment(name: str) -> None:
    assert frame_shape_of(name) == make_deep_env(name, seed=3, training=True).frame_shape


@pytest.mark.parametrize("seed", [100, 101])
def test_training_and_evaluation_share_the_rich_lock_of_a_seed(seed: int) -> None:
    lock = RichLock(4, seed=seed)
    assert isinstance(lock.base, Lock)
    for env in (
        make_deep_env("RichLock-4", seed=seed, training=True),
        *make_eval_envs("RichLock-4", seed=seed, count=2),
    ):
        env.reset()
        reward = 0.0
        for right in lock.base.combination:
            state = int((lock.rotation @ env.frame)[:2].argmax())
            reward = env.step(int(right[state])).reward
        assert reward == 1.0
        assert env.value_range == (0.0, 1.0)
        with pytest.raises(UserError, match="RichLock-4 cannot be rendered"):
            env.render()


def test_module_of_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cucb train mymodule:Env-v0` needs no PYTHONPATH."""
    (tmp_path / "corridor_module.py").write_text(
        "import gymnasium\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "gymnasium.register(id='OwnPole-v0', entry_point=CartPoleEnv, max_episode_steps=7)\n"
    )
    monkeypatch.chdir(tmp_path)
    env = make_deep_env("corridor_module:OwnPole-v0", seed=0, training=True)
    assert env.frame_shape == (4,)
    assert frame_shape_of("corridor_module:OwnPole-v0") == (4,)
