"""Windows of consecutive steps against a loop over the episodes."""

import numpy as np
import pytest

from contrastive_ucb.data.history import read_windows
from contrastive_ucb.data.replay import Replay

ENDS = {3: "terminated", 4: "truncated", 9: "terminated"}  # steps that end an episode


def filled(stack: int, length: int, steps: int = 14) -> Replay:
    """Frames count up; action and reward of step k are k and 10 k."""
    replay = Replay(50, (1,), np.float32, stack=stack, jumps=length)
    number = 1
    replay.begin(np.array([1.0], np.float32))
    for step in range(steps):
        number += 1
        over = ENDS.get(step)
        frame = np.array([number], np.float32)
        replay.add(step, 10.0 * step, frame, over == "terminated", over == "truncated")
        if over:
            number += 1
            replay.begin(np.array([number], np.float32))
    return replay


def expected_window(stack: int, length: int, first: int, steps: int = 14) -> dict[str, list[float]]:
    """The expected window from the frames before and after each step."""
    before, after, episode = [], [], []
    shown = number = 0
    for step in range(steps):
        shown += 1
        before.append(shown)
        after.append(shown + 1)
        episode.append(number)
        if step in ENDS:
            shown += 1
            number += 1
    same = [step for step in range(first, first + length) if step < steps]
    alive = [episode[step] == episode[first] for step in same]
    back = range(first - stack + 1, first + 1)
    return {
        "seen": [before[s] if s >= 0 and episode[s] == episode[first] else 0.0 for s in back],
        "alive": alive,
        "after": [after[s] for s, lives in zip(same, alive, strict=True) if lives],
        "actions": [s for s, lives in zip(same, alive, strict=True) if lives],
    }


@pytest.mark.parametrize("stack", [1, 3])
@pytest.mark.parametrize("length", [1, 2, 4])
def test_windows_equal_loop(stack: int, length: int) -> None:
    replay = filled(stack, length)
    times = replay.drawable()
    windows = read_windows(replay.history, times, length)
    numbers = replay.history.at("transition", times)
    assert len(numbers) > 8
    for row, first in enumerate(numbers.tolist()):
        expected = expected_window(stack, length, first)
        lives = len(expected["after"])
        assert windows.frames[row, :stack, 0].tolist() == expected["seen"]
        assert windows.frames[row, stack : stack + lives, 0].tolist() == expected["after"]
        assert (windows.frames[row, stack + lives :] == expected["after"][-1]).all()
        assert windows.alive[row].tolist() == [step < lives for step in range(length)]
        assert windows.actions[row, :lives].tolist() == expected["actions"]
        assert windows.rewards[row, :lives].tolist() == [10.0 * a for a in expected["actions"]]
        ends = [ENDS.get(int(a)) for a in expected["actions"]]
        assert windows.terminated[row, :lives].tolist() == [e == "terminated" for e in ends]
        shown = [e != "terminated" for e in ends] + [False] * (length - lives)
        assert windows.shown[row].tolist() == shown
