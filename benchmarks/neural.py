"""Costs of the neural class on RichLock: fits of all steps h in one batch, seconds per round."""

from __future__ import annotations

import time
from copy import copy
from dataclasses import dataclass
from functools import partial
from unittest.mock import patch

import torch

from benchmarks.timing import Figures, Targets, in_turns
from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.agents.finite.neural_model import NeuralModel
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.core.runtime import threads
from contrastive_ucb.data.observations import ObservationData
from contrastive_ucb.envs.rich_lock import RichLock
from contrastive_ucb.representation import neural
from contrastive_ucb.representation.neural import Batch, NeuralClass, Weights

TARGET_HORIZON = 12  # the targets apply to this H
TARGETS = {
    "one_by_one_over_together": (">=", 2.5),
    "core_seconds_a_round": ("<=", 1.5),
    "core_seconds_a_later_round": ("<=", 1.5),
    "autograd_over_closed_form": (">=", 2.0),
}


@dataclass(frozen=True)
class Options:
    """The neural class on RichLock: fits in one batch and with autograd, and seconds per round."""

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
        fits = (fit_together, fit_one_by_one, fit_with_autograd)
        functions = [partial(fit_all, agent) for fit_all in fits]
        together, one_by_one, with_autograd = in_turns(functions, options.turns)
        double = ContrastiveUCB(RichLock(2 * options.horizon, seed=options.seed), seed=options.seed)
        double.round()
        (fit_of_double,) = in_turns([partial(fit_together, double)], options.turns)
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
        "autograd_over_closed_form": with_autograd / together,
        "double_horizon_over_horizon": fit_of_double / together,
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


def fit_with_autograd(agent: ContrastiveUCB) -> None:
    with patch.object(neural, "loss_slopes", autograd_slopes):
        fit_together(agent)


@torch.enable_grad()
def autograd_slopes(shape: NeuralClass, weights: Weights, batch: Batch) -> Weights:
    """`loss_slopes` by autograd."""
    leaves = {name: part.clone().requires_grad_() for name, part in weights.items()}
    loss = neural.batch_loss(shape, leaves, batch).sum()
    return dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))


def fit_one_by_one(agent: ContrastiveUCB) -> None:
    model = agent.model
    assert isinstance(model, NeuralModel)
    for step in range(agent.envs[0].horizon):
        data = copy(model.data)
        for name, table in model.data.state_dict().items():
            setattr(data, name, table[step : step + 1])
        fit(model, data)


def fit(model: NeuralModel, data: ObservationData) -> None:
    start = neural.initial_weights(model.neural_class, len(data.n), stream(0, "bench"))
    neural.train(start, model.neural_class, data, model.negatives, model.recipe, stream(1, "bench"))
