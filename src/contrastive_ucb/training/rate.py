"""How fast a run is now: the speed that progress bars, lines and TensorBoard show."""

from collections import deque

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
