"""Names of environments: every usual spelling, and what is said about the others."""

import pytest

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs import registry
from contrastive_ucb.envs.atari_names import letters
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
        *((spelling, "Pong") for spelling in ("Pong", "pong", "ALE/Pong-v5", "Pong-v4")),
        *((spelling, "Pong") for spelling in ("PongNoFrameskip-v4", "PongDeterministic-v0")),
        *((spelling, "RoadRunner") for spelling in ("RoadRunner", "road_runner", "Road Runner")),
        ("Ms. Pac-Man", "MsPacman"),
        ("up_n_down", "UpNDown"),
        ("Q*bert", "Qbert"),
        ("JamesBond", "Jamesbond"),
        ("MinAtar/Breakout-v1", "MinAtar/Breakout-v1"),
        ("minatar/space_invaders", "MinAtar/SpaceInvaders-v1"),
        ("DeepSea-10", "DeepSea-10"),
        ("deepsea-010", "DeepSea-10"),
        ("RichLock-12", "RichLock-12"),
        ("rich-lock-6", "RichLock-6"),
        ("CartPole-v1", "CartPole-v1"),
        ("Blackjack-v1", "Blackjack-v1"),
        ("gymnasium:CartPole-v1", "gymnasium:CartPole-v1"),
    ],
)
def test_all_spellings_are_one_name(name: str, known: str) -> None:
    assert canonical_name(name) == known
    assert canonical_name(known) == known


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("Pnog", "Pong"),
        ("ALE/Brekout-v5", "Breakout"),
        ("RoadRuner", "RoadRunner"),
        ("Cartpole-v1", "CartPole-v1"),
        ("CartPole-v9", "CartPole-v1"),
        ("MinAtar/Brekout-v1", "MinAtar/Breakout-v1"),
        ("MinAtar/Breakout-v0", "MinAtar/Breakout-v1"),
        ("DeepSea", "DeepSea-10"),
        ("RichLok", "RichLock-6"),
    ],
)
def test_unknown_names_get_a_suggestion(name: str, nearest: str) -> None:
    with pytest.raises(
        UserError, match=f"no environment is called '{name}'; did you mean"
    ) as error:
        make_deep_env(name, seed=0, training=True)
    assert str(error.value).endswith(f"did you mean {nearest!r}?")


def test_a_name_like_no_other_gets_examples() -> None:
    with pytest.raises(
        UserError, match=r"'xyzzy'; try 'Pong', 'MinAtar/Breakout-v1', 'DeepSea-10'"
    ):
        canonical_name("xyzzy")
    with pytest.raises(ValueError, match="size of DeepSea must be at least 1, got 0"):
        canonical_name("DeepSea-0")
    with pytest.raises(ValueError, match="horizon of RichLock must be at least 1, got 0"):
        canonical_name("RichLock-0")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Pendulum-v1", "Pendulum-v1 has actions Box"),
        ("Blackjack-v1", "Blackjack-v1 has observations Tuple"),
        ("no_such_module:Own-v0", "Gymnasium cannot make 'no_such_module:Own-v0'"),
    ],
)
def test_ids_that_cannot_be_used(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_deep_env(name, seed=0, training=True)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Pong", r"Pong needs ale_py and cv2: pip install 'contrastive-ucb\[atari\]'"),
        ("MinAtar/Breakout-v1", r"needs minatar: pip install 'contrastive-ucb\[minatar\]'"),
    ],
)
def test_missing_packages_are_named(
    name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda package: None)
    with pytest.raises(UserError, match=message):
        make_deep_env(name, seed=0, training=True)


def test_evaluation_has_many_streams_that_repeat() -> None:
    first, again = (make_eval_envs("CartPole-v1", seed=0, count=4) for _ in range(2))
    starts = [tuple(env.reset()) for env in first]
    assert starts == [tuple(env.reset()) for env in again]
    assert len({*starts, tuple(make_deep_env("CartPole-v1", seed=0, training=True).reset())}) == 5
    assert starts[0] == tuple(make_deep_env("CartPole-v1", seed=0, training=False).reset())
    with pytest.raises(ValueError, match="count must be at least 1, got 0"):
        make_eval_envs("CartPole-v1", seed=0, count=0)


def test_letters_of_a_versioned_name() -> None:
    assert letters("ALE/RoadRunner-v5") == letters("road_runner") == "roadrunner"


@pytest.mark.parametrize(
    "name",
    ["pong", "ALE/Qbert-v5", "deepsea-7", "rich-lock-5", *MINATAR, "CartPole-v1", "FrozenLake-v1"],
)
def test_the_shape_of_frames_is_known_before_there_is_an_environment(name: str) -> None:
    assert frame_shape_of(name) == make_deep_env(name, seed=3, training=True).frame_shape


@pytest.mark.parametrize("seed", [100, 101])
def test_the_rich_lock_of_a_seed_has_one_combination_for_all_who_play_it(seed: int) -> None:
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
        with pytest.raises(UserError, match="RichLock-4 draws no picture"):
            env.render()
