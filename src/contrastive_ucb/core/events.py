"""How fast a run is now: the speed that progress bars, lines and TensorBoard show."""

from __future__ import annotations

import json
import math
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from contrastive_ucb.core.errors import UserError

SECONDS = 60.0  # the shortest time that is looked back
SHARE = 0.25  # of the time so far; long enough for runs that play and learn by turns
MARKS = 64  # in the time that is looked back


class Rate:
    """Steps a second over the last quarter of the time so far, or the last minute if that is more.

    The start is forgotten: its steps are random and cost nothing, so a mean over all of the time
    would promise an end that never comes.

    start  the step at the time `now`, in seconds of any clock that only goes forward
    """

    def __init__(self, start: int, now: float) -> None:
        self._began = now
        self._marks = deque([(now, start)])  # times and steps, oldest first

    def at(self, step: int, now: float) -> float:
        """The speed when `step` is reached at the time `now`; to be called at every event."""
        span = max(SECONDS, SHARE * (now - self._began))
        while len(self._marks) > 1 and self._marks[1][0] <= now - span:
            self._marks.popleft()
        then, before = self._marks[0]
        if now - self._marks[-1][0] >= span / MARKS:
            self._marks.append((now, step))
        return (step - before) / max(now - then, 1e-9)


def on_grid(round_number: int, last: int, per_decade: int = 100) -> bool:
    """Whether this round is on the grid; the first and the last always are.

    A round is on the grid when the integer part of per_decade * log10(k) grows, so that a longer
    run of the same seed has the same grid.
    """
    if round_number in (1, last):
        return True
    return _mark(round_number, per_decade) > _mark(round_number - 1, per_decade)


def _mark(round_number: int, per_decade: int) -> int:
    """floor(per_decade log10 k) in integers: rounding of logarithms differs between machines."""
    return len(str(round_number**per_decade)) - 1


@dataclass(frozen=True)
class Event:
    """Numbers that were measured at one step of a run; what was not measured is left out."""

    step: int
    values: dict[str, float]

    def __post_init__(self) -> None:
        if "step" in self.values:
            raise ValueError(f"'step' at step {self.step} is no value; choose another name")
        for name, value in self.values.items():
            if not math.isfinite(value):
                raise ValueError(
                    f"{name} is {value} at step {self.step}; events hold finite numbers"
                )


class Listener(Protocol):
    """Takes the events of a run, in order; `close` may be called more than once."""

    def on_event(self, event: Event) -> None: ...

    def close(self) -> None: ...


class PositionedListener(Listener, Protocol):
    """A listener that can go back to where it stood when a checkpoint was made."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


class JsonlListener:
    """Appends {"step": ..., name: value, ...} to a file, one line per event.

    The file contains no times: a run that was killed and resumed leaves the same bytes as one that
    was not, provided that it begins with `load_state_dict` of its checkpoint, or of
    `JsonlListener.START` if it was killed before the first checkpoint.
    """

    START: Mapping[str, Any] = {"offset": 0}
    FLUSH_SECONDS = 1.0  # how old the last lines may get before somebody who watches sees them

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file = path.open("ab")
        self._next_flush = 0.0

    def on_event(self, event: Event) -> None:
        self.write({"step": event.step, **event.values})

    def write(self, content: Mapping[str, Any]) -> None:
        """Append one line."""
        line = json.dumps(content, default=float)  # `default` converts NumPy's number types
        self._file.write(line.encode() + b"\n")
        if (now := time.monotonic()) >= self._next_flush:
            self._file.flush()
            self._next_flush = now + self.FLUSH_SECONDS

    def state_dict(self) -> dict[str, Any]:
        """Length of the file in bytes, after everything has been written to disk."""
        self.sync()
        return {"offset": self._file.tell()}

    def sync(self) -> None:
        """Write everything to disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Drop the lines that were written after the state was saved."""
        self._file.flush()
        offset, size = state["offset"], os.fstat(self._file.fileno()).st_size
        if offset > size:
            raise UserError(
                f"{self.path} has {size} bytes but the checkpoint was made at byte {offset};"
                " lines are missing: remove the run folder to start again"
            )
        self._file.truncate(offset)
        self._file.seek(offset)

    def close(self) -> None:
        self._file.close()


class TensorBoardListener:
    """Writes each value as a TensorBoard scalar under its own name.

    purge_step   the first step a resumed run writes anew; TensorBoard forgets what an earlier,
                 killed attempt had written from there on
    """

    def __init__(self, folder: Path, purge_step: int | None = None) -> None:
        # The writer of TensorBoard itself: it loads ten times faster than the one of torch.
        from tensorboard.compat.proto.event_pb2 import Event as Record
        from tensorboard.compat.proto.event_pb2 import SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        folder.mkdir(parents=True, exist_ok=True)
        _wait_for_a_new_second(folder)
        self._record, self._summary = Record, Summary
        # A longer queue than the default of 10 keeps the loop from waiting for the disk.
        self._writer: Any = EventFileWriter(str(folder), max_queue_size=1000, flush_secs=10)
        if purge_step is not None:
            start = SessionLog(status=SessionLog.START)
            self._write(Record(step=purge_step, session_log=start))

    def on_event(self, event: Event) -> None:
        scalars = [
            self._summary.Value(tag=name, simple_value=value)
            for name, value in event.values.items()
        ]
        self._write(self._record(step=event.step, summary=self._summary(value=scalars)))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write(self, record: Any) -> None:
        record.wall_time = time.time()
        self._writer.add_event(record)


def _wait_for_a_new_second(folder: Path) -> None:
    """Sleeps, a second at most, until the name of a new event file sorts after those in `folder`.

    TensorBoard reads files by name: the second of their start, then host, process and a counter
    without leading zeros. Two attempts within one second could be read in the wrong order.
    """
    while any(folder.glob(f"events.out.tfevents.{int(time.time()):010d}.*")):
        time.sleep(0.02)


class ProgressListener:
    """A progress bar on a terminal, otherwise a plain line about every tenth of the way.

    total     steps of the whole run
    start     the step a resumed run continues after
    console   where to draw; stderr unless given, because stdout belongs to results
    clock     seconds that only go forward
    """

    DRAW_SECONDS = 0.1  # more often than this nobody can read it
    SHOWN_VALUES = 3

    def __init__(
        self,
        total: int,
        description: str,
        console: Console | None = None,
        start: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if total < 1:
            raise ValueError(f"total must be at least 1 step, got {total}")
        self.total, self.description, self.start = total, description, start
        self._console = console or Console(stderr=True)
        self._clock = clock
        self._rate = Rate(start, clock())
        self._speed = 0.0  # steps a second at the last event
        self._next_draw = 0.0
        self._next_line = self._tenths(start) + 1  # tenth of the way at which a line is due
        self._last: Event | None = None
        self._bar = self._start_bar() if self._console.is_terminal else None

    def on_event(self, event: Event) -> None:
        now = self._clock()
        self._last, self._speed = event, self._rate.at(event.step, now)
        if self._bar is None:
            if self._tenths(event.step) >= self._next_line:
                self._next_line = self._tenths(event.step) + 1
                self._print_line(event)
        elif now >= self._next_draw:
            self._next_draw = now + self.DRAW_SECONDS
            self._draw(self._bar, event)

    def close(self) -> None:
        if self._bar is not None:
            if self._last is not None:
                self._draw(self._bar, self._last)
            self._bar.stop()
        self._bar = self._last = None

    def _start_bar(self) -> Progress:
        bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}", markup=False),
            TextColumn("{task.fields[left]}", markup=False),
            TextColumn("{task.fields[shown]}", markup=False),
            console=self._console,
            redirect_stdout=False,  # rich would move what others print to stdout to our console
        )
        empty: dict[str, Any] = {"rate": "", "left": "", "shown": ""}
        bar.add_task(self.description, total=self.total, completed=self.start, **empty)
        bar.start()
        return bar

    def _draw(self, bar: Progress, event: Event) -> None:
        bar.update(
            bar.task_ids[0],
            completed=event.step,
            rate=self._speed_text(),
            left=_hours(self._seconds_left(event.step)),
            shown=self._shown(event),
        )

    def _print_line(self, event: Event) -> None:
        seconds = self._seconds_left(event.step)
        left = "" if seconds is None else f", {seconds:,.0f} s left"
        line = (
            f"{self.description}: {event.step}/{self.total} ({event.step / self.total:.0%}),"
            f" {self._speed_text()}{left}  {self._shown(event)}"
        )
        self._console.print(line.rstrip(), markup=False, highlight=False, soft_wrap=True)

    def _speed_text(self) -> str:
        return f"{self._speed:,.{0 if self._speed >= 10 else 1}f}/s"

    def _seconds_left(self, step: int) -> float | None:
        """At the speed of now; None where nothing moves."""
        return (self.total - step) / self._speed if self._speed > 0 else None

    def _tenths(self, step: int) -> int:
        return 10 * step // self.total

    def _shown(self, event: Event) -> str:
        """The last few values, as many as fit beside the bar."""
        values = list(event.values.items())[-self.SHOWN_VALUES :]
        return "  ".join(f"{name}={value:.4g}" for name, value in values)


def _hours(seconds: float | None) -> str:
    if seconds is None:
        return "-:--:--"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
