"""Listeners: JSON lines that resume to the same bytes, TensorBoard, progress."""

import io
import json
import time
from functools import partial
from math import floor, log10

import numpy as np
import pytest
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.events import (
    Event,
    JsonlListener,
    ProgressListener,
    TensorBoardListener,
    on_grid,
)


def events(start, stop):
    return [Event(step, {"gap": 1 / (step + 1), "n_steps": step}) for step in range(start, stop)]


def feed(listener, some):
    for event in some:
        listener.write(event.step, event.values)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float32("nan")])
def test_an_event_refuses_what_is_not_finite(value):
    with pytest.raises(ValueError, match=r"gap is (nan|inf) at step 7"):
        Event(7, {"gap": value})


def test_jsonl_lines_are_the_events(tmp_path):
    listener = JsonlListener(tmp_path / "new" / "metrics.jsonl")
    feed(listener, [*events(0, 2), Event(2, {"gap": np.float32(0.5), "n": np.int64(3)})])
    listener.close()
    lines = (tmp_path / "new" / "metrics.jsonl").read_text().splitlines()
    assert lines[1] == '{"step": 1, "gap": 0.5, "n_steps": 1}'
    assert json.loads(lines[2]) == {"step": 2, "gap": 0.5, "n": 3}
    assert len(lines) == 3


def test_jsonl_of_a_resumed_run_equals_that_of_an_undisturbed_one(tmp_path):
    undisturbed = JsonlListener(tmp_path / "a.jsonl")
    feed(undisturbed, events(0, 20))
    undisturbed.close()

    killed = JsonlListener(tmp_path / "b.jsonl")
    feed(killed, events(0, 8))
    mark = killed.sync()
    feed(killed, events(8, 13))
    killed.close()
    with (tmp_path / "b.jsonl").open("a") as file:
        file.write('{"step": 13, "lo')  # a torn line, as a kill leaves it

    resumed = JsonlListener(tmp_path / "b.jsonl", mark)
    assert resumed.sync() == mark
    assert len((tmp_path / "b.jsonl").read_text().splitlines()) == 8
    feed(resumed, events(8, 20))
    resumed.close()
    assert (tmp_path / "b.jsonl").read_bytes() == (tmp_path / "a.jsonl").read_bytes()


def test_jsonl_starts_over_when_there_was_no_checkpoint(tmp_path):
    (tmp_path / "m.jsonl").write_text('{"step": 0}\n{"st')
    listener = JsonlListener(tmp_path / "m.jsonl")
    feed(listener, events(0, 1))
    listener.close()
    assert (tmp_path / "m.jsonl").read_text() == '{"step": 0, "gap": 1.0, "n_steps": 0}\n'


def test_jsonl_that_lost_or_changed_lines_is_refused(tmp_path):
    path = tmp_path / "m.jsonl"
    listener = JsonlListener(path)
    feed(listener, events(0, 3))
    mark = listener.sync()
    listener.close()
    content = path.read_bytes()
    for damaged, message in (
        (content[:-9], f"has {len(content) - 9} bytes instead of {len(content)}; remove the run"),
        (content.replace(b"1", b"2", 1), "checksum differs"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=message):
            JsonlListener(path, mark)
        assert path.read_bytes() == damaged
    path.unlink()
    with pytest.raises(UserError, match="No such file"):
        JsonlListener(path, mark)


def read_board(folder, tag):
    board = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    board.Reload()
    return [(scalar.step, scalar.value) for scalar in board.Scalars(tag)]


def test_tensorboard_drops_what_a_killed_attempt_wrote(tmp_path):
    killed = TensorBoardListener(tmp_path)
    feed(killed, [Event(step, {"x": 1.0, "n": np.int64(3)}) for step in range(10)])
    killed.close()
    resumed = TensorBoardListener(tmp_path, purge_step=5)
    feed(resumed, [Event(6, {"x": 2.0})])
    resumed.close()
    assert read_board(tmp_path, "x") == [(0, 1.0), (1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0), (6, 2.0)]
    assert read_board(tmp_path, "n")[1] == (1, 3.0)


def test_event_files_sort_in_the_order_they_were_started(tmp_path):
    """Within a second, the tenth file of a process would come before its ninth."""
    for _ in range(3):
        TensorBoardListener(tmp_path).close()
    seconds = [path.name.split(".")[3] for path in tmp_path.iterdir()]
    assert len(set(seconds)) == 3


def progress(total, some, terminal, start=0, clock=time.monotonic):
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=120)
    listener = ProgressListener(total, "solving [lock]", start, console, clock)
    for event in some:
        listener.on_event(event)
    listener.close()
    return text.getvalue()


def test_plain_progress_is_a_line_every_tenth():
    lines = progress(200, events(1, 201), terminal=False).splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("solving [lock]: 20/200 (10%), ")
    assert "gap=0.04762" in lines[0]
    assert lines[-1].startswith("solving [lock]: 200/200 (100%), ")


def test_plain_progress_of_a_resumed_or_coarse_run_does_not_repeat_itself():
    resumed = progress(100, events(51, 101), terminal=False, start=50).splitlines()
    assert [line.split()[2] for line in resumed] == [f"{n}/100" for n in (60, 70, 80, 90, 100)]
    coarse = progress(4, events(1, 5), terminal=False).splitlines()
    assert [line.split()[2] for line in coarse] == ["1/4", "2/4", "3/4", "4/4"]


def test_progress_past_the_last_step_is_complete_and_has_no_time_left():
    (line,) = progress(20, [*events(1, 2), *events(24, 25)], terminal=False).splitlines()
    assert line.startswith("solving [lock]: 24/20 (100%), ")
    assert "0:00 left" in line


def test_a_terminal_gets_a_bar_with_the_last_values():
    text = progress(50, events(1, 51), terminal=True)
    assert all(part in text for part in ("solving [lock]", "50/50", "gap=0.01961"))


def atari_clock():
    """The times of a run: 2,000 random steps in 10 seconds, then 3.5 steps per second."""
    yield 0.0
    for step in range(1, 100_001):
        yield step / 200 if step <= 2000 else 10 + (step - 2000) / 3.5


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_excludes_the_fast_steps_at_the_start(terminal):
    clock = partial(next, atari_clock())
    text = progress(100_000, events(1, 10_001), terminal=terminal, clock=clock)
    assert "3.5/s, 7:08:34 left  " in text


def test_a_run_that_does_not_advance_has_no_time_left():
    stands = [Event(step, {}) for step in (5, 5, 5)]
    text = progress(10, stands, terminal=True, clock=partial(next, iter([0.0, 1.0, 100.0, 200.0])))
    assert "0.0/s" in text
    assert "left" not in text.split("0.0/s")[-1]


def test_progress_leaves_stdout_alone(capsys):
    for console in (None, Console(file=io.StringIO(), force_terminal=True)):
        listener = ProgressListener(2, "run", 0, console)
        listener.on_event(Event(2, {}))
        print("result")
        listener.close()
        listener.close()
        captured = capsys.readouterr()
        assert captured.out == "result\n"
        assert console or "2/2" in captured.err


@pytest.mark.parametrize("per_decade", [10, 100])
def test_a_round_is_on_the_grid_when_its_logarithm_passes_a_mark(per_decade):
    for k in range(2, 5000):
        marks = [floor(per_decade * log10(n) + 1e-9) for n in (k - 1, k)]
        assert on_grid(k, 10_000, per_decade) == (marks[1] > marks[0])


def test_first_and_last_are_on_the_grid_and_a_longer_run_has_the_same():
    assert on_grid(1, 999, 10)
    assert on_grid(999, 999, 10)
    assert not on_grid(999, 5000, 10)
    short, long = ([k for k in range(1, 1000) if on_grid(k, last)] for last in (10_000, 10**6))
    assert short == long
