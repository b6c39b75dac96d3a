"""`agent.learn(rounds=...)`: the loop with a progress bar, and the result a person looks at."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.events import Event, ProgressListener
from contrastive_ucb.core.runtime import interrupts, threads
from contrastive_ucb.training.loop import Session

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class Result:
    """The figures of a run on a grid of rounds: nearly all at first, then 100 a decade.

    rounds   (n,)
    figures  name -> (n,) for one seed, (n, B) for several; sums and averages are over all rounds.
             In large MDPs the model error is measured less often; NaN stands for "not measured"
    summary  one dictionary a seed
    """

    rounds: IntArray
    figures: dict[str, Array]
    summary: list[dict[str, Any]]

    @property
    def gap(self) -> Array:
        """V* - V^pi of the greedy policy at these rounds; in a game, the duality gap."""
        return self._figure("gap")

    @property
    def regret(self) -> Array:
        """The sum of the gaps up to these rounds (MDP)."""
        return self._figure("regret")

    @property
    def average_regret(self) -> Array:
        """The mean gap of all rounds up to these (MDP)."""
        return self._figure("average_regret")

    @property
    def average_gap(self) -> Array:
        """The mean duality gap of all rounds up to these (game)."""
        return self._figure("average_gap")

    @property
    def certificate(self) -> Array:
        """V-upper - V-lower at these rounds (game)."""
        return self._figure("certificate")

    @property
    def zeta(self) -> Array:
        """The model error at these rounds: the largest over h, under the true rho~."""
        return self._figure("zeta")

    def _figure(self, name: str) -> Array:
        if name not in self.figures:
            raise AttributeError(f"this run has no {name!r}; it has {', '.join(self.figures)}")
        return self.figures[name]

    def __repr__(self) -> str:
        shown = [name for name in ("gap", "zeta") if name in self.figures]
        last = ", ".join(f"{name} {self.figures[name][-1].mean():.4g}" for name in shown)
        count = len(self.summary)
        return f"Result({self.rounds[-1]} rounds, {count} seed{'s' * (count > 1)}: {last})"

    def plot(self) -> Figure:
        """Average gap, certificate (in a game) and model error over rounds, with matplotlib."""
        from matplotlib.figure import Figure

        known = ("average_regret", "average_gap", "certificate", "zeta")
        names = [name for name in known if name in self.figures]
        figure = Figure(figsize=(4.5 * len(names), 3.5), layout="constrained")
        panels = figure.subplots(1, len(names), squeeze=False)[0]  # one panel is a row of one
        for axes, name in zip(panels, names, strict=True):
            table = self.figures[name].reshape(len(self.rounds), -1)
            measured = np.isfinite(table).all(-1)
            axes.loglog(self.rounds[measured], np.maximum(table[measured], 1e-12))
            axes.set(xlabel="round", title=name.replace("_", " "))
        return figure


def learn(session: Session, rounds: int, progress: bool = True) -> Result:
    """Play `rounds` more rounds and keep the figures of those on the grid."""
    check_size("rounds", rounds)
    agent = session.agent
    if session.is_over:
        raise ValueError(f"{agent.envs[0].name} is solved, so there is nothing left to learn")
    until = agent.n_rounds + rounds
    bar = ProgressListener(until, agent.algo, start=agent.n_rounds) if progress else None
    numbers, kept = [], []
    with ExitStack() as closing:
        if bar is not None:
            closing.callback(bar.close)
        closing.enter_context(threads(1))
        interrupted = closing.enter_context(interrupts())
        for played in session.rounds(until):
            if played.on_grid:
                numbers.append(played.number)
                kept.append(played.figures)
            if bar is not None:
                bar.on_event(progress_event(played.number, played.figures))
            if interrupted.is_set():  # the round is whole, and a next call goes on from here
                raise KeyboardInterrupt
    alone = len(agent.seeds) == 1
    names = {name: None for row in kept for name in row}  # in order, each once
    unmeasured = np.full(len(agent.seeds), np.nan)
    stacked = {name: np.stack([row.get(name, unmeasured) for row in kept]) for name in names}
    figures = {name: table[:, 0] if alone else table for name, table in stacked.items()}
    summary = [session.summary(seed) for seed in range(len(agent.seeds))]
    return Result(np.array(numbers), figures, summary)


def progress_event(number: int, figures: dict[str, Array]) -> Event:
    """What a progress bar shows of a round: means over seeds."""
    shown = ("gap", "zeta")
    return Event(number, {name: float(figures[name].mean()) for name in shown if name in figures})
