"""Listeners: JSON lines that resume to the same bytes, TensorBoard, progress."""

import io
import json
import time
from functools import partial

import numpy as np
import pytest
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.events import (
    Event,
    JsonlListener,
    Listener,
    ProgressListener,
    TensorBoardListener,
)


def events(start, stop):
    return [Event(step, {"loss": 1 / (step + 1), "n_steps": step}) for step in range(start, stop)]


def feed(listener, some):
    for event in some:
        listener.on_event(event)


def test_the_listeners_fit_the_protocols(tmp_path):
    positioned: Listener = JsonlListener(tmp_path / "m.jsonl")
    board: Listener = TensorBoardListener(tmp_path / "tb")
    bar: Listener = ProgressListener(1, "x", Console(file=io.StringIO()))
    for listener in (positioned, board, bar):
        listener.close()
        listener.close()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float32("nan")])
def test_an_event_refuses_what_is_not_finite(value):
    with pytest.raises(ValueError, match=r"loss is (nan|inf) at step 7"):
        Event(7, {"loss": value})


def test_an_event_refuses_a_value_that_would_hide_the_step():
    with pytest.raises(ValueError, match="step 3 is named 'step'"):
        Event(3, {"step": 1.0})


def test_jsonl_lines_are_the_events(tmp_path):
    listener = JsonlListener(tmp_path / "new" / "metrics.jsonl")
    feed(listener, [*events(0, 2), Event(2, {"loss": np.float32(0.5), "n": np.int64(3)})])
    listener.close()
    lines = (tmp_path / "new" / "metrics.jsonl").read_text().splitlines()
    assert lines[1] == '{"step": 1, "loss": 0.5, "n_steps": 1}'
    assert json.loads(lines[2]) == {"step": 2, "loss": 0.5, "n": 3}
    assert len(lines) == 3


def test_jsonl_of_a_resumed_run_equals_that_of_an_undisturbed_one(tmp_path):
    undisturbed = JsonlListener(tmp_path / "a.jsonl")
    feed(undisturbed, events(0, 20))
    undisturbed.close()

    killed = JsonlListener(tmp_path / "b.jsonl")
    feed(killed, events(0, 8))
    state = json.loads(json.dumps(killed.state_dict()))
    feed(killed, events(8, 13))
    killed.close()
    with (tmp_path / "b.jsonl").open("a") as file:
        file.write('{"step": 13, "lo')  # a torn line, as a kill leaves it

    resumed = JsonlListener(tmp_path / "b.jsonl")
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    feed(resumed, events(8, 20))
    resumed.close()
    assert (tmp_path / "b.jsonl").read_bytes() == (tmp_path / "a.jsonl").read_bytes()


def test_jsonl_starts_over_when_there_was_no_checkpoint(tmp_path):
    (tmp_path / "m.jsonl").write_text('{"step": 0}\n{"st')
    listener = JsonlListener(tmp_path / "m.jsonl")
    listener.load_state_dict(JsonlListener.START)
    feed(listener, events(0, 1))
    listener.close()
    assert (tmp_path / "m.jsonl").read_text() == '{"step": 0, "loss": 1.0, "n_steps": 0}\n'


def test_jsonl_state_is_on_disk_when_it_is_taken(tmp_path):
    listener = JsonlListener(tmp_path / "m.jsonl")
    feed(listener, events(0, 5))
    offset = listener.state_dict()["offset"]
    assert (tmp_path / "m.jsonl").stat().st_size == offset > 0
    assert len((tmp_path / "m.jsonl").read_text().splitlines()) == 5
    listener.close()


def test_jsonl_that_lost_lines_is_refused(tmp_path):
    listener = JsonlListener(tmp_path / "m.jsonl")
    with pytest.raises(UserError, match="has 0 bytes, but the checkpoint was saved at byte 10"):
        listener.load_state_dict({"offset": 10})
    listener.close()


def read_board(folder, tag):
    board = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    board.Reload()
    return [(scalar.step, scalar.value) for scalar in board.Scalars(tag)]


def test_tensorboard_reads_back_what_was_written(tmp_path):
    listener = TensorBoardListener(tmp_path)
    feed(
        listener, [Event(2, {"bonus/mean": 0.5, "n": np.int64(3)}), Event(4, {"bonus/mean": 0.25})]
    )
    listener.close()
    assert read_board(tmp_path, "bonus/mean") == [(2, 0.5), (4, 0.25)]
    assert read_board(tmp_path, "n") == [(2, 3.0)]


def test_tensorboard_forgets_the_killed_attempt(tmp_path):
    killed = TensorBoardListener(tmp_path)
    feed(killed, [Event(step, {"x": 1.0}) for step in range(10)])
    killed.close()
    resumed = TensorBoardListener(tmp_path, purge_step=5)
    feed(resumed, [Event(6, {"x": 2.0})])
    resumed.close()
    assert read_board(tmp_path, "x") == [(0, 1.0), (1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0), (6, 2.0)]


def test_event_files_sort_in_the_order_they_were_started(tmp_path):
    """Within a second, the tenth file of a process would come before its ninth."""
    names = []
    for _ in range(3):
        TensorBoardListener(tmp_path).close()
        names.append(max((path for path in tmp_path.iterdir()), key=lambda path: path.name).name)
    seconds = [name.split(".")[3] for name in names]
    assert len(set(names)) == 3
    assert seconds == sorted(set(seconds))


def progress(total, some, terminal, start=0, clock=time.monotonic):
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=120)
    listener = ProgressListener(total, "solving [lock]", console, start, clock)
    feed(listener, some)
    listener.close()
    return text.getvalue()


def test_plain_progress_is_a_line_every_tenth():
    lines = progress(200, events(1, 201), terminal=False).splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("solving [lock]: 20/200 (10%), ")
    assert "loss=0.04762" in lines[0]
    assert lines[-1].startswith("solving [lock]: 200/200 (100%), ")


def test_plain_progress_of_a_resumed_or_coarse_run_does_not_repeat_itself():
    resumed = progress(100, events(51, 101), terminal=False, start=50).splitlines()
    assert [line.split()[2] for line in resumed] == [f"{n}/100" for n in (60, 70, 80, 90, 100)]
    coarse = progress(4, events(1, 5), terminal=False).splitlines()
    assert [line.split()[2] for line in coarse] == ["1/4", "2/4", "3/4", "4/4"]


def test_a_terminal_gets_a_bar_with_the_last_values():
    text = progress(50, events(1, 51), terminal=True)
    assert "solving [lock]" in text
    assert "50/50" in text
    assert "n_steps=50" in text


def atari_clock():
    """The times of a run: 2,000 random steps in 10 seconds, then 3.5 steps a second."""
    yield 0.0
    for step in range(1, 100_001):
        yield step / 200 if step <= 2000 else 10 + (step - 2000) / 3.5


def test_plain_progress_forgets_the_fast_steps_at_the_start():
    text = progress(100_000, events(1, 10_001), terminal=False, clock=partial(next, atari_clock()))
    assert text.startswith("solving [lock]: 10000/100000 (10%), 3.5/s, 7:08:34 left  ")


def test_a_bar_forgets_the_fast_steps_at_the_start():
    text = progress(100_000, events(1, 2401), terminal=True, clock=partial(next, atari_clock()))
    assert "3.5/s 7:44:46" in text


def test_a_bar_that_stands_still_does_not_say_when_it_ends():
    times = iter([0.0, 1.0, 100.0, 200.0])
    stands = [Event(step, {}) for step in (5, 5, 5)]
    text = progress(10, stands, terminal=True, clock=partial(next, times))
    assert "0.0/s -:--:--" in text


def test_rates_below_ten_have_a_decimal():
    for seconds, shown in ((1.0, "20/s"), (2.5, "8.0/s"), (40.0, "0.5/s")):
        times = iter([0.0, seconds])
        (line,) = progress(
            20, [Event(20, {})], terminal=False, clock=partial(next, times)
        ).splitlines()
        assert f" {shown}, 0:00:00 left" in line


def test_progress_goes_to_stderr_and_leaves_stdout_alone(capsys):
    listener = ProgressListener(2, "run")
    feed(listener, events(1, 3))
    listener.close()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "2/2" in captured.err


def test_progress_refuses_an_empty_run():
    with pytest.raises(ValueError, match="total must be at least 1 step, got 0"):
        ProgressListener(0, "run")


def test_a_bar_does_not_swallow_what_is_printed_to_stdout(capsys):
    listener = ProgressListener(2, "run", Console(file=io.StringIO(), force_terminal=True))
    print("result")
    listener.close()
    assert capsys.readouterr().out == "result\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_costs_less_than_a_fiftieth_at_a_thousand_events_a_second(terminal):
    some = events(1, 10_001)
    console = Console(file=io.StringIO(), force_terminal=terminal)
    listener = ProgressListener(1_000_000, "run", console)
    began = time.process_time()
    feed(listener, some)
    seconds = time.process_time() - began
    listener.close()
    assert seconds / 10 < 0.02
