"""The rules of Atari 100K against single frames of Gymnasium, lost lives, and limits."""

import gymnasium
import numpy as np
import pytest
from envs.frame_play import play

pytest.importorskip("ale_py", reason="needs ale-py")
pytest.importorskip("cv2", reason="needs opencv-python-headless")

import cv2

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.envs import atari
from contrastive_ucb.envs.atari import ATARI_100K, Atari, game_name, name_key, roms

FIRE = 1


def bilinear(screen: np.ndarray, size: int = 84) -> np.ndarray:
    """The screen at the centers of size x size cells, in floating point."""
    at = [np.clip((np.arange(size) + 0.5) * n / size - 0.5, 0, n - 1) for n in screen.shape]
    low = [np.minimum(a.astype(int), n - 2) for a, n in zip(at, screen.shape, strict=True)]
    down, right = at[0][:, None] - low[0][:, None], at[1] - low[1]
    s, (y, x) = screen.astype(float), np.ix_(*low)
    above = (1 - right) * s[y, x] + right * s[y, x + 1]
    below = (1 - right) * s[y + 1, x] + right * s[y + 1, x + 1]
    return (1 - down) * above + down * below


@pytest.mark.parametrize("game", ["Pong", "Seaquest"])
def test_frames_and_rewards_from_single_frames(game: str) -> None:
    env = Atari(game, seed=5, training=False)
    twin = gymnasium.make(f"{game}NoFrameskip-v4", obs_type="grayscale")
    screen, _ = twin.reset(seed=0)
    for _ in range(stream(5, "env/train/0").integers(1, 31)):
        screen, *_ = twin.step(0)
    assert abs(env.reset()[0] - bilinear(screen)).max() <= 1
    for action in stream(0, "actions").integers(env.n_actions, size=60):
        frames = [twin.step(action) for _ in range(4)]
        step = env.step(int(action))
        highest = np.maximum(frames[2][0], frames[3][0])
        assert abs(step.frame[0] - bilinear(highest)).max() <= 1
        assert step.raw_reward == step.reward == sum(float(f[1]) for f in frames)
        assert step.frame.dtype == np.uint8
    assert env.n_actions == twin.action_space.n


def test_resizing_and_no_ops_of_the_rules() -> None:
    def screens(count: int) -> np.ndarray:
        """The screen after `count` no-ops."""
        twin = gymnasium.make("PongNoFrameskip-v4", obs_type="grayscale")
        screen, _ = twin.reset(seed=0)
        for _ in range(count):
            screen, *_ = twin.step(0)
        return np.asarray(screen)

    draws = {
        "standard": stream(5, "env/train/0").integers(1, 31),
        "spr-release": 1 + stream(5, "env/train/0").integers(1, 31),
        "dopamine": stream(5, "env/train/0").integers(0, 30),
        "curl-release": stream(5, "env/train/0").integers(0, 30),
    }
    for rules, noops in draws.items():
        env = Atari("Pong", seed=5, rules=rules)
        first, screen = env.reset()[0], screens(int(noops))
        assert env._ale.getEpisodeFrameNumber() == noops, rules
        if rules == "dopamine":
            expected = cv2.resize(screen, (84, 84), interpolation=cv2.INTER_AREA)
            assert np.array_equal(first, expected)
            assert abs(first - bilinear(screen)).max() > 1
        else:
            assert abs(first - bilinear(screen)).max() <= 1
    with pytest.raises(UserError, match=r"'spr'; .* spr-release"):
        Atari("Pong", seed=0, rules="spr")


@pytest.mark.parametrize(
    ("rules", "training", "noops"),
    [
        ("standard", True, 0),
        ("spr-release", True, 1),
        ("spr-release", False, 1),
        ("curl-release", True, 1),
        ("curl-release", False, 0),
        ("dopamine", True, 0),
    ],
)
def test_no_op_after_a_lost_life(rules: str, training: bool, noops: int) -> None:
    """Breakout: 4 frames per step, and one more after each of the four lives before the last."""
    env = Atari("Breakout", seed=0, training=training, rules=rules)
    env.reset()
    started, frames = env._ale.getEpisodeFrameNumber(), 0
    lost = 0
    while True:
        lives = env._ale.lives()
        step = env.step(FIRE)
        frames += 4
        if step.episode_over:
            break
        if env._ale.lives() < lives:
            lost += 1
            frames += noops
            if noops and training:  # the frame is that of the no-op alone
                screen = np.empty((210, 160), dtype=np.uint8)
                env._ale.getScreenGrayscale(screen)
                assert np.array_equal(step.frame, env._resize(screen)[None])
        assert env._ale.getEpisodeFrameNumber() - started == frames
        if step.terminated:
            env.reset()
    assert lost == 4


def test_lost_life_terminates_and_the_game_continues() -> None:
    env, whole = Atari("Breakout", seed=0), Atari("Breakout", seed=0, training=False)
    np.testing.assert_array_equal(env.reset(), whole.reset())
    ends = 0
    while True:
        step, same = env.step(FIRE), whole.step(FIRE)
        np.testing.assert_array_equal(step.frame, same.frame)
        assert step.reward == np.sign(step.raw_reward)
        assert step.raw_reward == same.raw_reward == same.reward
        assert step.episode_over == same.episode_over == same.terminated
        assert not step.truncated
        assert not same.truncated
        ends += step.terminated
        if step.episode_over:
            break
        if step.terminated:
            n_steps = env.n_steps
            np.testing.assert_array_equal(env.reset(), step.frame)
            assert (env.episode, env.n_steps) == (0, n_steps)
    assert ends == 5
    assert env.raw_return == whole.raw_return
    env.reset()
    assert (env.episode, env.n_steps, env.raw_return) == (1, 0, 0)


def test_qbert_without_lives_ends_once() -> None:
    env, ends = Atari("Qbert", seed=1), 0
    env.reset()
    for action in stream(0, "actions").integers(env.n_actions, size=2000):
        step = env.step(int(action))
        ends += step.terminated
        assert step.reward == np.sign(step.raw_reward)
        if step.episode_over:
            break
        if step.terminated:
            env.reset()
    assert step.episode_over
    assert ends == 4


def test_time_limit_truncates(monkeypatch: pytest.MonkeyPatch) -> None:
    assert atari.MAX_STEPS == 27_000
    monkeypatch.setattr(atari, "MAX_STEPS", 3)
    env = Atari("Pong", seed=0)
    env.reset()
    steps = [env.step(0) for _ in range(3)]
    assert [step.truncated for step in steps] == [False, False, True]
    assert [step.episode_over for step in steps] == [False, False, True]
    assert not any(step.terminated for step in steps)


def test_assault_does_not_depend_on_earlier_episodes() -> None:
    short, long = Atari("Assault", seed=0), Atari("Assault", seed=0)
    for env, n_steps in ((short, 1), (long, 150)):
        env.reset()
        play(env, n_steps)
        while env.episode != 1:
            env.reset()
    assert play(short, 100) == play(long, 100)


def test_all_games_by_name() -> None:
    assert len(set(ATARI_100K)) == 26
    assert {game_name(roms()[name_key(game)]) for game in ATARI_100K} == set(ATARI_100K)
    assert len(roms()) == 104
