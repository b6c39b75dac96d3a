"""Costs of the neural class on RichLock: fits of all steps h in one batch, seconds per round."""

from __future__ import annotations

import time
from copy import copy
from dataclasses import dataclass

from benchmarks.timing import Figures, Targets, in_turns
from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.agents.finite.neural_model import NeuralModel
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.core.runtime import threads
from contrastive_ucb.data.observations import ObservationData
from contrastive_ucb.envs.rich_lock import RichLock
from contrastive_ucb.representation.neural import initial_weights, train

TARGET_HORIZON = 12  # the targets apply to this H
TARGETS = {
    "one_by_one_over_together": (">=", 2.5),
    "core_seconds_a_round": ("<=", 1.5),
    "core_seconds_a_later_round": ("<=", 1.5),
}


@dataclass(frozen=True)
class Options:
    """The neural class on RichLock: fitting all steps h in one batch, and seconds per round."""

    seed: int = 0
    """Seed of the lock and of the run."""
    horizon: int = 12
    """H of the lock."""
    rounds: int = 10
    """Number of timed rounds, once after one warm-up round and once later."""
    between: int = 10
    """Rounds before the later timed rounds, to see whether more data makes a round slower."""
    turns: int = 5
    """Fits of each kind; their medians are compared."""

    def __post_init__(self) -> None:
        least = {"seed": 0, "horizon": 2, "rounds": 1, "between": 0, "turns": 1}
        for name, limit in least.items():
            check_size(name, getattr(self, name), limit)


def measure(options: Options) -> Figures:
    """The ratio of the times of the fits, and wall-clock and processor seconds per round."""
    agent = ContrastiveUCB(RichLock(options.horizon, seed=options.seed), seed=options.seed)
    with threads(1):
        agent.round()  # the first round includes the initialization of torch
        first = seconds_per_round(agent, options.rounds)
        functions = (lambda: fit_together(agent), lambda: fit_one_by_one(agent))
        together, one_by_one = in_turns(functions, options.turns)
        for _ in range(options.between):
            agent.round()
        later = seconds_per_round(agent, options.rounds)
    return {
        "horizon": options.horizon,
        "seconds_a_round": first[0],
        "core_seconds_a_round": first[1],
        "seconds_a_later_round": later[0],
        "core_seconds_a_later_round": later[1],
        "seconds_of_a_refit": together,
        "one_by_one_over_together": one_by_one / together,
    }


def targets(options: Options) -> Targets:
    return TARGETS if options.horizon == TARGET_HORIZON else {}


def seconds_per_round(agent: ContrastiveUCB, rounds: int) -> tuple[float, float]:
    """Mean wall-clock and processor seconds."""
    start, start_core = time.perf_counter(), time.process_time()
    for _ in range(rounds):
        agent.round()
    seconds, core_seconds = time.perf_counter() - start, time.process_time() - start_core
    return seconds / rounds, core_seconds / rounds


def fit_together(agent: ContrastiveUCB) -> None:
    model = agent.model
    assert isinstance(model, NeuralModel)
    fit(model, model.data)


def fit_one_by_one(agent: ContrastiveUCB) -> None:
    model = agent.model
    assert isinstance(model, NeuralModel)
    for step in range(agent.envs[0].horizon):
        data = copy(model.data)
        for name, table in model.data.state_dict().items():
            setattr(data, name, table[step : step + 1])
        fit(model, data)


def fit(model: NeuralModel, data: ObservationData) -> None:
    start = initial_weights(model.neural_class, len(data.n), stream(0, "bench"))
    train(start, model.neural_class, data, model.negatives, model.recipe, stream(1, "bench"))
