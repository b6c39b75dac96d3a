"""The figures of `cucb bench neural`: all steps together against one by one, and whole rounds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from contrastive_ucb.commands.marks import table
from contrastive_ucb.core.checks import check_size

if TYPE_CHECKING:
    from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
    from contrastive_ucb.data.observations import ObservationData

MARKED_HORIZON = 12  # the marks are for this H
MARKS = {
    "one_by_one_over_together": (">=", 2.5),
    "core_seconds_a_round": ("<=", 1.5),  # "about a second", of the one core that is used
    "core_seconds_a_later_round": ("<=", 1.5),
}


@dataclass(frozen=True)
class Neural:
    """The neural class on the rich lock: refitting all steps h at once, and seconds a round."""

    seed: int = 0
    """Of the lock and of the run."""
    horizon: int = 12
    """H of the lock."""
    rounds: int = 10
    """Rounds timed, twice: after one that warms up, whose data is refitted then, and later ones."""
    between: int = 10
    """Rounds that are played before the later ones, to see whether more data makes them slower."""
    turns: int = 5
    """Refits of each kind; the medians are compared."""
    out: Path | None = None
    """A file to write the figures to as JSON, besides printing them."""
    json: bool = False
    """Print the figures as one JSON object, the last line of stdout."""

    def __post_init__(self) -> None:
        for name, least in (
            ("seed", 0),
            ("horizon", 2),
            ("rounds", 1),
            ("between", 0),
            ("turns", 1),
        ):
            check_size(name, getattr(self, name), least)


def measure(options: Neural) -> dict[str, float]:
    """The ratio of refits, and what rounds take, by the clock and of one core."""
    from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
    from contrastive_ucb.commands.timing import in_turns
    from contrastive_ucb.core.runtime import threads
    from contrastive_ucb.envs.rich_lock import RichLock

    agent = ContrastiveUCB(RichLock(options.horizon, seed=options.seed), seed=options.seed)
    with threads(1):
        agent.round()  # the first one pays for what torch sets up
        first = _seconds_a_round(agent, options.rounds)
        works = (partial(_together, agent), partial(_one_by_one, agent))
        together, one_by_one = in_turns(works, options.turns)
        for _ in range(options.between):
            agent.round()
        later = _seconds_a_round(agent, options.rounds)
    return {
        "horizon": options.horizon,
        "seconds_a_round": first[0],
        "core_seconds_a_round": first[1],
        "seconds_a_later_round": later[0],
        "core_seconds_a_later_round": later[1],
        "seconds_of_a_refit": together,
        "one_by_one_over_together": one_by_one / together,
    }


def text_of(figures: dict[str, float]) -> str:
    """A line a figure, with the marks where they apply."""
    return table("neural", figures, MARKS if figures["horizon"] == MARKED_HORIZON else {})


def _seconds_a_round(agent: ContrastiveUCB, rounds: int) -> tuple[float, float]:
    """The mean of so many rounds, by the clock and of one core."""
    began, worked = time.perf_counter(), time.process_time()
    for _ in range(rounds):
        agent.round()
    seconds, core_seconds = time.perf_counter() - began, time.process_time() - worked
    return seconds / rounds, core_seconds / rounds


def _together(agent: ContrastiveUCB) -> None:
    _refit(agent, _data(agent))


def _one_by_one(agent: ContrastiveUCB) -> None:
    for step in range(agent.envs[0].horizon):
        _refit(agent, _data(agent).one_step(step))


def _data(agent: ContrastiveUCB) -> ObservationData:
    from contrastive_ucb.agents.finite.neural_model import NeuralModel

    assert isinstance(agent.model, NeuralModel)
    return agent.model.data


def _refit(agent: ContrastiveUCB, data: ObservationData) -> None:
    from contrastive_ucb.agents.finite.neural_model import NeuralModel
    from contrastive_ucb.core.random_streams import stream
    from contrastive_ucb.representation.neural import initial_weights
    from contrastive_ucb.representation.neural_fit import train

    model = agent.model
    assert isinstance(model, NeuralModel)
    start = initial_weights(model.neural_class, len(data.n), stream(0, "bench"))
    train(start, model.neural_class, data, model.negatives, model.recipe, stream(1, "bench"))
