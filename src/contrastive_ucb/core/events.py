"""Events of a run and their listeners: JSON lines, TensorBoard and a progress bar."""

from __future__ import annotations

import json
import math
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any

from contrastive_ucb.core.files import check_mark, mark_of, write_errors

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

SECONDS = 60.0  # the shortest window of `Rate`
SHARE = 0.25  # of the elapsed time; long enough for runs that alternate playing and learning
MARKS = 64  # per window


class Rate:
    """Steps per second over the last quarter of the elapsed time, at least over the last minute.

    The start is excluded: its random steps are fast, so the mean over the whole time would predict
    an end that is too early.

    start  the step at the time `now`, in seconds of a monotonic clock
    """

    def __init__(self, start: int, now: float) -> None:
        self._began = now
        self._marks = deque([(now, start)])  # times and steps, oldest first

    def at(self, step: int, now: float) -> float:
        """The speed when `step` is reached at the time `now`. Call it at every event."""
        span = max(SECONDS, SHARE * (now - self._began))
        while len(self._marks) > 1 and self._marks[1][0] <= now - span:
            self._marks.popleft()
        then, before = self._marks[0]
        if now - self._marks[-1][0] >= span / MARKS:
            self._marks.append((now, step))
        return (step - before) / max(now - then, 1e-9)


def on_grid(round_number: int, last: int, per_decade: int = 100) -> bool:
    """Whether this round is logged; the first and the last always are.

    A round k is logged if floor(per_decade log10 k) increases, so that a longer run of the same
    seed has the same grid. The floor is computed in integers, since rounding of logarithms differs
    between machines: it is the number of digits of k^per_decade, minus 1.
    """
    if round_number in (1, last):
        return True
    before = round_number - 1
    return len(str(round_number**per_decade)) > len(str(before**per_decade))


@dataclass(frozen=True)
class Event:
    """Finite values that were measured at one step of a run."""

    step: int
    values: dict[str, float]

    def __post_init__(self) -> None:
        for name, value in self.values.items():
            if not math.isfinite(value):
                raise ValueError(
                    f"{name} is {value} at step {self.step}; events contain finite numbers only"
                )

    @property
    def logged(self) -> list[Event]:
        """What is written to the log of each seed; nothing if nothing was measured."""
        return [self] if self.values else []


class JsonlListener:
    """Appends {"step": ..., name: value, ...} to a file, one line per event.

    The file contains no times, so a killed and resumed run writes the same bytes as an undisturbed
    one.

    mark  the result of `sync` when the checkpoint was saved; the rest of the file is dropped
    """

    FLUSH_SECONDS = 1.0  # longest time until a line is visible to readers

    def __init__(self, path: Path, mark: Mapping[str, Any] | None = None) -> None:
        mark = mark or {"offset": 0}
        self._hash = check_mark(path, mark)  # of what the file contains
        self._path, self._next_flush = path, 0.0
        with write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab")
            self._file.truncate(mark["offset"])
            self._file.seek(mark["offset"])

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Append one line."""
        text = json.dumps({"step": step, **values}, default=float)  # converts NumPy numbers
        line = text.encode() + b"\n"
        self._hash.update(line)
        with write_errors(self._path):
            self._file.write(line)
            if (now := time.monotonic()) >= self._next_flush:
                self._file.flush()
                self._next_flush = now + self.FLUSH_SECONDS

    def sync(self) -> dict[str, Any]:
        """Write everything to disk; returns the mark of the whole file."""
        with write_errors(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
        return mark_of(self._hash, self._file.tell())

    def close(self) -> None:
        with write_errors(self._path):
            self._file.close()


class TensorBoardListener:
    """Writes each value as a TensorBoard scalar under its own name, and steps per second.

    purge_step   the first step that a resumed run writes; TensorBoard discards what a killed
                 attempt wrote from there on
    """

    FLUSH_SECONDS = 10.0

    def __init__(self, folder: Path, purge_step: int = 0) -> None:
        # Not torch's writer, which loads slowly, nor TensorBoard's, whose thread prints a traceback
        # when the disk is full.
        from tensorboard.compat.proto.event_pb2 import Event as Record
        from tensorboard.compat.proto.event_pb2 import SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._record, self._summary, self._folder = Record, Summary, folder
        self._rate = Rate(purge_step - 1, time.monotonic())
        self._next_flush = 0.0
        with write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            # TensorBoard reads event files by name, which starts with the second of their
            # creation. Two attempts within one second could be read in the wrong order.
            while any(folder.glob(name := f"events.out.tfevents.{int(time.time()):010d}.*")):
                time.sleep(0.02)
            self._file = (folder / name.replace("*", f"{gethostname()}.{os.getpid()}")).open("wb")
            self._writer = RecordWriter(self._file)
        self._add(file_version="brain.Event:2")
        self._add(step=purge_step, session_log=SessionLog(status=SessionLog.START))

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Append one record."""
        values = {**values, "charts/SPS": self._rate.at(step, time.monotonic())}
        scalars = [self._summary.Value(tag=tag, simple_value=x) for tag, x in values.items()]
        self._add(step=step, summary=self._summary(value=scalars))

    def close(self) -> None:
        with write_errors(self._folder):
            self._file.close()

    def _add(self, **content: Any) -> None:
        record = self._record(wall_time=time.time(), **content).SerializeToString()
        with write_errors(self._folder):
            self._writer.write(record)
            if (now := time.monotonic()) >= self._next_flush:
                self._file.flush()
                self._next_flush = now + self.FLUSH_SECONDS


class ProgressListener:
    """A progress bar on a terminal, otherwise a line about every tenth of the run.

    total     steps of the whole run
    start     the step from which a resumed run continues
    console   default: stderr, because stdout is for results
    clock     monotonic seconds
    """

    DRAW_SECONDS = 0.1
    SHOWN: Mapping[str, str] = {  # label: metric, of which the newest value is shown
        "gap": "gap",
        "zeta": "zeta",
        "return": "charts/episodic_return",
        "bonus": "bonus/mean",
        "epoch": "charts/epoch",
    }

    def __init__(
        self,
        total: int,
        description: str,
        start: int = 0,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self.total, self.description = total, description
        self._console = console or Console(stderr=True)
        self._clock, self._rate = clock, Rate(start, clock())
        self._values: dict[str, float] = {}
        self._next_draw = 0.0
        self._tenth = 10 * start // total  # of the last line
        self._bar: Progress | None = None
        if self._console.is_terminal:
            before, after = (
                TextColumn(f"{{task.{name}}}", markup=False)
                for name in ("description", "fields[text]")
            )
            columns = (before, BarColumn(), MofNCompleteColumn(), after)
            # rich would redirect stdout to our console.
            self._bar = Progress(*columns, console=self._console, redirect_stdout=False)
            self._task = self._bar.add_task(description, total=total, completed=start, text="")
            self._bar.start()

    def on_event(self, event: Any) -> None:
        """Show an event with `step` and `values`."""
        now, step, values = self._clock(), event.step, event.values
        self._values |= {key: values[tag] for key, tag in self.SHOWN.items() if tag in values}
        speed, tenth = self._rate.at(step, now), 10 * step // self.total
        is_due = now >= self._next_draw or step >= self.total
        if not (is_due if self._bar else tenth > self._tenth):
            return
        self._next_draw, self._tenth = now + self.DRAW_SECONDS, tenth
        left = ""
        if speed > 0:  # otherwise the end is not known
            remaining = max(0, self.total - step)  # PPO finishes its last rollout
            minutes, seconds = divmod(round(remaining / speed), 60)
            left = f", {minutes // 60}:{minutes % 60:02d}:{seconds:02d} left"
        metrics = "".join(f"  {name}={value:.4g}" for name, value in self._values.items())
        text = f"{speed:,.{0 if speed >= 10 else 1}f}/s{left}{metrics}"
        if self._bar:
            self._bar.update(self._task, completed=step, text=text)
        else:
            share = min(1, step / self.total)
            line = f"{self.description}: {step}/{self.total} ({share:.0%}), {text}"
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
