"""A clock that is looked at from inside what it times."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Clock:
    """Seconds by piece: all the time since the last note belongs to the piece that is noted."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self.start()

    def start(self) -> None:
        """Forget the time since the last note."""
        self.last = time.perf_counter()

    def note(self, piece: str) -> None:
        now = time.perf_counter()
        self.spent[piece] = self.spent.get(piece, 0.0) + now - self.last
        self.last = now

    @contextmanager
    def noting(self, owner: Any, name: str, before: str | None, after: str) -> Iterator[None]:
        """Meanwhile every call of `owner.name` notes one piece before and one after it."""
        inner, is_own = getattr(owner, name), name in vars(owner)

        def outer(*args: Any, **kwargs: Any) -> Any:
            if before is not None:
                self.note(before)
            result = inner(*args, **kwargs)
            self.note(after)
            return result

        setattr(owner, name, outer)
        try:
            yield
        finally:
            if is_own:
                setattr(owner, name, inner)
            else:
                delattr(owner, name)
