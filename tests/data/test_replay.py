"""The replay memory against a slow oracle of lists and loops, on random episodes."""

from typing import Any

import numpy as np
import pytest
from data.replay_oracle import EXTRAS, FRAME, Oracle, assert_same, play, stacked
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from contrastive_ucb.agents.deep.presets import BONUSES, configure
from contrastive_ucb.agents.deep.rainbow import Rainbow
from contrastive_ucb.data.replay import Replay

CHOICES = st.fixed_dictionaries(
    {
        "stack": st.integers(1, 4),
        "n_step": st.integers(1, 5),
        "jumps": st.integers(0, 5),
        "window": st.sampled_from([0, 0, 3, 7]),
        "cut": st.sampled_from(["episode", "published"]),
    }
)
RANDOM_PLAY = {
    "choices": CHOICES,
    "room": st.integers(0, 40),
    "steps": st.integers(1, 120),
    "ends": st.sampled_from([0.02, 0.2, 0.6, 1.0]),
    "seed": st.integers(0, 10_000),
}


def make(choices: dict[str, Any], room: int = 40, **more: Any) -> Replay:
    """A memory of the smallest allowed capacity plus `room`."""
    settings = choices | {"discount": 0.9, "extras": EXTRAS} | more
    try:
        return Replay(1, FRAME, **settings)
    except ValueError as error:
        least = int(str(error).split("at least ")[1].split(",")[0])
        return Replay(least + room, FRAME, **settings)


def played(
    choices: dict[str, Any], room: int, steps: int, ends: float, seed: int, **more: Any
) -> tuple[Replay, Oracle, np.random.Generator]:
    replay = make(choices, room, **more)
    oracle, rng = Oracle(replay), np.random.default_rng(seed)
    play(replay, oracle, steps, rng, ends)
    return replay, oracle, rng


@settings(max_examples=100, deadline=None)
@given(**RANDOM_PLAY)
def test_batch_equals_oracle(
    choices: dict[str, Any], room: int, steps: int, ends: float, seed: int
) -> None:
    replay, oracle, rng = played(choices, room, steps, ends, seed)
    drawable = [t for t in range(len(oracle.past)) if oracle.can_be_drawn(t)]
    assert replay.drawable().tolist() == drawable
    assert len(replay) == len(drawable)
    if not drawable:
        with pytest.raises(ValueError, match="can be sampled yet"):
            replay.sample(rng.random(2), 0.5)
        return
    batch = replay.sample(rng.random(2 * len(drawable)), 0.5)  # uniform: each at least once
    assert set(batch.index.tolist()) == set(drawable)
    for i, time in enumerate(batch.index):
        if choices["cut"] == "episode":
            compare(batch, i, oracle.expected(time), choices["stack"])
        else:
            compare(batch, i, oracle.published(time), choices["stack"])


def compare(batch: Any, i: int, expected: dict[str, Any], stack: int) -> None:
    """Compare row i of the batch; None in the oracle means undefined."""
    for name in ("returns", "discounts", "step_weights", "mask"):
        np.testing.assert_allclose(getattr(batch, name)[i], expected[name], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(batch.bootstrap[i], expected["bootstrap"])
    assert batch.steps[i, : len(expected["steps"])].tolist() == expected["steps"]
    observations = stacked(batch.frames[i : i + 1], stack)[0]
    for k, observation in enumerate(expected["observations"]):
        if observation is not None:
            np.testing.assert_array_equal(observations[k], observation)
    for k, action in enumerate(expected["actions"]):
        if action is not None:
            assert batch.actions[i, k] == action


@settings(max_examples=60, deadline=None)
@given(**RANDOM_PLAY)
def test_windows_and_observations_equal_oracle(
    choices: dict[str, Any], room: int, steps: int, ends: float, seed: int
) -> None:
    length = 5
    replay, oracle, _ = played(choices | {"window": length}, room, steps, ends, seed)
    if oracle.running:
        now = len(oracle.past) - 1
        np.testing.assert_array_equal(replay.observation(), oracle.observation(now))
    index = replay.drawable()
    if not len(index):
        return
    alone = replay.history.observations(index)
    history = replay.history
    window = history.following(index, length)
    observations = history.observations(window.reshape(-1)).reshape(*window.shape, -1, *FRAME[1:])
    actions, previous = history.at("action", window), history.previous_actions(window)
    for i, time in enumerate(index):
        np.testing.assert_array_equal(alone[i], oracle.observation(time))
        times = oracle.transitions_from(time)[:length]
        assert window[i].tolist() == times
        for k, t in enumerate(times):
            entry = oracle.past[t]
            np.testing.assert_array_equal(observations[i, k], oracle.observation(t))
            assert actions[i, k] == entry.action
            assert history.at("terminated", window)[i, k] == entry.terminated
            assert history.at("truncated", window)[i, k] == entry.truncated
            earlier = [u for u in range(t) if oracle.past[u].action is not None]
            known = earlier and earlier[-1] >= oracle.kept_from
            assert previous[i, k] == (oracle.past[earlier[-1]].action if known else 0)


@settings(max_examples=40, deadline=None)
@given(**RANDOM_PLAY)
def test_loaded_memory_continues_bit_for_bit(
    choices: dict[str, Any], room: int, steps: int, ends: float, seed: int
) -> None:
    replay, oracle, rng = played(choices, room, steps, ends, seed, priority_exponent=0.5)
    other = make(choices, room, priority_exponent=0.5)
    play(other, Oracle(other), 7, np.random.default_rng(1), 0.3)  # loading must overwrite this
    other.load_state_dict(replay.state_dict())
    assert_same(other.state_dict(), replay.state_dict())
    twins = np.random.default_rng(seed), np.random.default_rng(seed)
    for memory, twin in zip((replay, other), twins, strict=True):
        branch = Oracle(memory)
        branch.past, branch.running = list(oracle.past), oracle.running
        for _ in range(3):
            play(memory, branch, 5, twin, ends)
            if len(memory):
                batch = memory.sample(twin.random(4), 0.7)
                memory.update_priorities(batch.index, twin.random(4))
                memory.set_extra("feature", batch.steps, twin.random((*batch.steps.shape, 3)))
    assert_same(other.state_dict(), replay.state_dict())
    if len(replay):
        uniforms = rng.random(8)
        assert_same(vars(replay.sample(uniforms, 0.7)), vars(other.sample(uniforms, 0.7)))


def test_sampling_follows_priorities_and_weights_correct_it() -> None:
    replay, _, rng = played({"n_step": 2}, 40, 40, 0.1, 0, priority_exponent=0.5)
    index = replay.drawable()
    priority = rng.integers(1, 10, len(index)).astype(float) ** 2
    replay.update_priorities(index, priority)
    drawn = np.concatenate([replay.sample(rng.random(1), 0.4).index for _ in range(3_000)])
    share = np.sqrt(priority) / np.sqrt(priority).sum()
    counts = (drawn[:, None] == index).sum(axis=0)
    assert chisquare(counts, share * len(drawn)).pvalue > 0.01
    batch = replay.sample(rng.random(16), 0.4)
    chance = share[np.searchsorted(index, batch.index)]
    weight = (len(index) * chance) ** -0.4
    np.testing.assert_allclose(batch.weights, weight / weight.max(), rtol=1e-6)


@pytest.mark.parametrize(("rule", "expected"), [("largest", 7.0), ("one", 1.0)])
def test_priority_of_new_transitions(rule: str, expected: float) -> None:
    replay, oracle, rng = played({}, 200, 20, 0.1, 0, priority_exponent=1.0, new_priority=rule)
    np.testing.assert_array_equal(replay.live_state()["leaves"][replay.drawable()], 1.0)
    replay.update_priorities(np.array([0, 1]), np.array([7.0, 0.5]))
    replay.update_priorities(np.array([0]), np.array([2.0]))
    before = replay.ready
    play(replay, oracle, 20, rng, 0.1)
    fresh = replay.drawable()[replay.drawable() >= before]
    assert len(fresh)
    np.testing.assert_array_equal(replay.tree.get(fresh), expected)


def test_priority_zero_keeps_the_transition() -> None:
    replay, _, _ = played({}, 40, 20, 0.1, 0, priority_exponent=0.5)
    index = replay.drawable()
    replay.update_priorities(index, np.zeros(len(index)))
    assert replay.drawable().tolist() == index.tolist()
    with pytest.raises(ValueError, match="nan"):
        replay.update_priorities(index[:1], np.array([np.nan]))


def test_updates_of_overwritten_transitions_are_ignored() -> None:
    """Their slots belong to other transitions by then."""
    replay, oracle, rng = played({"n_step": 2}, 5, 4, 0.0, 0, priority_exponent=1.0)
    old = replay.drawable()
    play(replay, oracle, replay.history.capacity, rng, 0.0)
    before = replay.state_dict()
    replay.update_priorities(old, np.full(len(old), 0.5))
    replay.set_extra("feature", old, np.full((len(old), 3), -1.0))
    assert_same(replay.state_dict(), before)


def test_errors_name_value_and_remedy() -> None:
    replay = Replay(50, FRAME, stack=2, extras=EXTRAS)
    frame, feature = np.zeros(FRAME, np.uint8), np.zeros(3, np.float32)
    with pytest.raises(ValueError, match="call begin"):
        replay.add(0, 0.0, frame, False, False, feature=feature)
    replay.begin(frame)
    with pytest.raises(ValueError, match="an episode is running"):
        replay.begin(frame)
    with pytest.raises(ValueError, match="not the stack"):
        replay.add(0, 0.0, np.zeros((4, 1, 2), np.uint8), False, False, feature=feature)
    with pytest.raises(ValueError, match="float64"):
        replay.add(0, 0.0, frame.astype(float), False, False, feature=feature)
    with pytest.raises(ValueError, match="reward at time 0 is nan"):
        replay.add(0, np.nan, frame, False, False, feature=feature)
    with pytest.raises(ValueError, match=r"extras must be \['feature'\]"):
        replay.add(0, 0.0, frame, False, False)
    assert replay.history.now == 0
    replay.add(0, 0.0, frame, False, False, feature=feature)
    with pytest.raises(ValueError, match=r"replay_capacity .* at least \d+, got 10"):
        Replay(10, FRAME, n_step=10)


@pytest.mark.parametrize("preset", BONUSES)
def test_memory_of_100k_atari_steps_is_below_900_mb(preset: str) -> None:
    config = configure("spr-ucb", {"bonus.preset": preset}, (1, 84, 84))
    replay = Rainbow(config, (1, 84, 84), 4, 6, (-10.0, 10.0), seed=0).new_replay()
    history = replay.history
    arrays = [history.frame, history.time_of, *history.field.values(), *replay.extras.values()]
    size = sum(array.nbytes for array in arrays) + replay.tree.node.nbytes
    assert history.capacity == 100_000
    assert 84 * 84 * 100_000 < size < 900e6
