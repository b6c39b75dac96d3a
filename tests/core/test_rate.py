"""The speed that is shown: of now, not of the whole run."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from runs.training_runs import STEPS, lines, run, training
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from contrastive_ucb.core import events
from contrastive_ucb.core.events import Rate
from contrastive_ucb.runs.training import Training


def speeds(moments):
    """What a rate says at each (time, step)."""
    (began, start), *rest = moments
    rate = Rate(start, began)
    return [rate.at(step, now) for now, step in rest]


def test_fast_random_steps_before_the_first_update_are_forgotten():
    """2,000 steps in 10 seconds, then 3.5 a second: the mean said 58 a second after a minute."""
    slow = [(10.0 + t / 3.5, 2000 + t) for t in range(400)]
    found = speeds([(t / 200, t) for t in range(2000)] + slow)
    assert found[1000] == pytest.approx(200)
    late = [speed for (now, _), speed in zip(slow, found[1999:], strict=True) if now >= 71]
    assert len(late) > 100
    assert late == pytest.approx([3.5] * len(late))


def test_a_run_that_plays_and_learns_by_turns_has_the_speed_of_both():
    """As SimPLe: 60 seconds of play, then 540 of learning with events that take no step."""
    moments = [(0.0, 0)]
    for epoch in range(12):
        moments += [(600.0 * epoch + t, 6000 * epoch + 100 * t) for t in range(1, 61)]
        moments += [(600.0 * epoch + 60 + t, 6000 * epoch + 6000) for t in range(1, 541)]
    found = speeds(moments)
    assert all(5 <= speed <= 20 for speed in found[-1200:])  # the truth is 10


def test_rare_events_and_runs_that_do_not_advance():
    assert speeds([(0.0, 0), (1.0, 50), (100.0, 50), (200.0, 50)])[-1] == 0
    assert speeds([(0.0, 0), (300.0, 1), (600.0, 2)]) == pytest.approx([1 / 300, 1 / 300])
    assert speeds([(3.0, 7), (3.0, 8)])[0] > 0  # the first event at once


def test_the_speed_in_tensorboard_forgets_the_fast_steps_at_the_start(tmp_path, monkeypatch):
    trainers = []
    make = Training.trainer

    def watched(task, device):
        trainers.append(make(task, device))
        return trainers[-1]

    def clock():
        steps = trainers[-1].n_steps
        return steps / 200 if steps <= 20 else 0.1 + 100 * (steps - 20)

    assert STEPS == 30
    monkeypatch.setattr(Training, "trainer", watched)
    namespace = SimpleNamespace(monotonic=clock, time=time.time, sleep=time.sleep)
    monkeypatch.setattr(events, "time", namespace)
    summary = run(training(), tmp_path)
    board = EventAccumulator(str(Path(summary["run_dir"], "tensorboard")))
    board.Reload()
    last = board.Scalars("charts/SPS")[-1]
    assert last.step == STEPS
    assert last.value == pytest.approx(0.01)
    assert not any("charts/SPS" in line for line in lines(summary))  # a clock is not repeatable
