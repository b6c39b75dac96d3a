"""Timing by turns, time per part of a call, and the table of figures and targets."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

Figures = dict[str, float]
Targets = Mapping[str, tuple[str, float]]  # by figure: ">=" or "<=", and the number


def in_turns(functions: Sequence[Callable[[], object]], turns: int) -> list[float]:
    """Median seconds of each function. They alternate, so a busy machine slows all of them."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(turns):
        for function, seconds in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            seconds.append(time.perf_counter() - start)
    return [statistics.median(seconds) for seconds in times]


class Clock:
    """Seconds per part: `note(part)` adds the time since the previous note to `part`."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self.start()

    def start(self) -> None:
        """Discard the time since the previous note."""
        self.last = time.perf_counter()

    def note(self, part: str) -> None:
        now = time.perf_counter()
        self.spent[part] = self.spent.get(part, 0.0) + now - self.last
        self.last = now

    @contextmanager
    def noting(self, owner: Any, name: str, before: str | None, after: str) -> Iterator[None]:
        """Within the context, each call of `owner.name` notes `before` first and `after` last."""
        inner, is_attribute = getattr(owner, name), name in vars(owner)

        def timed(*args: Any, **kwargs: Any) -> Any:
            if before is not None:
                self.note(before)
            result = inner(*args, **kwargs)
            self.note(after)
            return result

        setattr(owner, name, timed)
        try:
            yield
        finally:
            if is_attribute:
                setattr(owner, name, inner)
            else:
                delattr(owner, name)


def table(name: str, figures: Mapping[str, Any], targets: Targets) -> str:
    """One line per figure, with its target and whether it is reached."""
    width = max(map(len, figures))
    lines = [f"bench {name}", f"  {'':{width}}  measured  target"]
    for figure, value in figures.items():
        line = f"  {figure:{width}} {value:>9.4g}"
        if figure in targets:
            sign, target = targets[figure]
            reached = value >= target if sign == ">=" else value <= target
            line += f"  {sign} {target:<5g} {'reached' if reached else 'not reached'}"
        lines.append(line)
    return "\n".join(lines)
