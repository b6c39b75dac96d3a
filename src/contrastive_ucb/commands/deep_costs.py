"""The figures of `cucb bench deep`: what updates, a step and the memory of SPR-UCB cost.

Learners and yardstick take turns in one process whose allocator keeps freed memory; besides, the
yardstick runs in a process of its own with the allocator as the system has it.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from contrastive_ucb.agents.deep.trainer import Trainer
from contrastive_ucb.commands.bench_deep import Deep, Figures, Sizes
from contrastive_ucb.commands.bench_memory import full_memory
from contrastive_ucb.commands.bench_yardstick import KINDS, Rig, elsewhere, find
from contrastive_ucb.commands.clock import Clock
from contrastive_ucb.commands.timing import in_turns
from contrastive_ucb.core.runtime import keep_freed_memory, one_thread, threads
from contrastive_ucb.experiments.train import Training

Learners = dict[str, Trainer]

LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {  # agent and settings
    "spr": ("spr", {}),
    "spr_shared_view": ("spr", {"double_view": "shared"}),  # without the additional pass
    "spr_ucb_paper": ("spr-ucb", {}),
    "spr_ucb_paper_bfloat16": ("spr-ucb", {"precision": "bfloat16"}),
    "spr_ucb_reference": ("spr-ucb", {"bonus.preset": "reference"}),
    "spr_ucb_algorithm_1": ("spr-ucb", {"bonus.preset": "algorithm-1"}),
    **{name: (name, {}) for name in ("curl", "der", "drq")},
}
PIECES = ("replay", "augmentation", "forward", "backward", "optimiser")
MINATAR, DEEP_SEA = "MinAtar/Breakout-v1", "DeepSea-10"


def costs(options: Deep, sizes: Sizes) -> Figures:
    """All figures, flat, by name; None where there is no yardstick."""
    for name in (options.game, MINATAR):  # what is not installed is an error before the first turn
        shape = Training(name).frame_shape
        if name == options.game and shape != (1, 84, 84):
            raise ValueError(f"--game takes an Atari game such as Pong; {name} has frames {shape}")
    if options.quick:
        _say("quickly: far too little for the marks to mean anything")
    figures: Figures = {}
    with threads(options.threads):
        _say("the size of a full memory, and draws from it")
        figures |= full_memory(
            options.game, options.seed, sizes.stored, options.threads, sizes.batch
        )
        keep_freed_memory()
        _say("updates of the learners and of the yardstick, in turns")
        learners = {
            name: _learner(options.game, *which, options.seed, sizes)
            for name, which in LEARNERS.items()
        }
        figures |= _updates(options, sizes, learners)
        _say("the pieces of an update, acting and the loop")
        figures |= _pieces(sizes, learners["spr_ucb_paper"])
        figures |= _loop(options, sizes, learners["spr_ucb_paper"])
    _say("MinAtar and DeepSea on one core")
    return figures | _small(options, sizes)


def _learner(
    game: str, algo: str, settings: dict[str, Any], seed: int, sizes: Sizes, **more: Any
) -> Trainer:
    """A learner after `fill` steps, with its first updates unless the settings say otherwise."""
    given = settings | {"first_update": sizes.fill, "batch_size": sizes.batch}
    trainer = Training(game, algo, given | more, seed=seed).rainbow_trainer()
    with one_thread():  # nothing is timed yet, and single observations gain nothing from two
        _run(trainer, sizes.fill)
    return trainer


def _updates(options: Deep, sizes: Sizes, learners: Learners) -> Figures:
    """Milliseconds an update of all of them, their ratios, and their share of the peak."""
    works: dict[str, Callable[[], object]] = {
        name: partial(_update, one, sizes.updates) for name, one in learners.items()
    }
    optimist = learners["spr_ucb_algorithm_1"]
    works["rebuild"] = partial(_rebuild, optimist)
    left = torch.rand(sizes.matrix, sizes.matrix)
    right = left.clone()
    works["sgemm"] = lambda: left @ right
    path = find()
    with ExitStack() as closing:
        if path is not None:
            numbers = options.seed, sizes.fill, sizes.batch, sizes.updates, options.threads
            rig = Rig(path, options.game, *numbers)
            works |= rig.works()
            away = closing.enter_context(elsewhere(rig))
            works |= {f"{name}_default_allocator": work for name, work in away.items()}
        seconds = dict(zip(works, in_turns(list(works.values()), sizes.turns), strict=True))
    ms: Figures = {}
    for name in (*LEARNERS, *KINDS, *(f"{name}_default_allocator" for name in KINDS)):
        ms[name] = 1e3 * seconds[name] / sizes.updates if name in seconds else None
    # The updates of its turns had no rebuild; each of them bears its share of one.
    plain = seconds["spr_ucb_algorithm_1"] / sizes.updates
    share = max(0.0, seconds["rebuild"] - plain) / optimist.config.bonus.rebuild_every
    ms["spr_ucb_algorithm_1"] = 1e3 * (plain + share)
    figures = {f"ms_update_{name}": value for name, value in ms.items()}
    peak = 2e-9 * sizes.matrix**3 / seconds["sgemm"]
    return figures | _ratios(ms) | {"peak_gflops": peak} | _work(learners, ms, peak)


def _ratios(ms: Figures) -> Figures:
    """Which is how many times slower than which."""

    def over(above: str, below: str) -> float | None:
        top, bottom = ms[above], ms[below]
        return None if top is None or bottom is None else top / bottom

    default = "yardstick_spr_ucb_default_allocator"
    return {
        "yardstick_over_paper": over("yardstick_spr_ucb", "spr_ucb_paper"),
        "yardstick_default_over_paper": over(default, "spr_ucb_paper"),
        "yardstick_spr_over_spr": over("yardstick_spr", "spr"),
        "yardstick_over_reference": over("yardstick_spr_ucb", "spr_ucb_reference"),
        "spr_over_shared_view": over("spr", "spr_shared_view"),
        "paper_over_spr": over("spr_ucb_paper", "spr"),
        "reference_over_spr": over("spr_ucb_reference", "spr"),
        "algorithm_1_over_spr": over("spr_ucb_algorithm_1", "spr"),
        "paper_over_bfloat16": over("spr_ucb_paper", "spr_ucb_paper_bfloat16"),
        "yardstick_over_bfloat16": over("yardstick_spr_ucb", "spr_ucb_paper_bfloat16"),
        "yardstick_default_over_bfloat16": over(default, "spr_ucb_paper_bfloat16"),
        **{f"spr_over_{name}": over("spr", name) for name in ("curl", "der", "drq")},
        "yardstick_spr_ucb_over_its_spr": over("yardstick_spr_ucb", "yardstick_spr"),
    }


def _work(learners: Learners, ms: Figures, peak: float) -> Figures:
    """Products and convolutions of an update, counted, and their speed as a share of the peak."""
    figures: Figures = {}
    for name in ("spr", "spr_ucb_paper", "der", "drq"):
        with FlopCounterMode(display=False) as counter:
            _update(learners[name], 1)
        work, taken = 1e-9 * counter.get_total_flops(), ms[name]
        assert taken is not None
        figures[f"gflop_of_an_update_{name}"] = work
        figures[f"share_of_peak_{name}"] = 1e3 * work / taken / peak
    return figures


def _pieces(sizes: Sizes, learner: Trainer) -> Figures:
    """Milliseconds of the pieces of an update, whose sum is held against updates without a clock.

    What comes between two notes belongs to the piece that the second one ends: the optimiser has
    the clipping of gradients, the forward pass the bonus, the replay its new priorities.
    """
    agent, clocks = learner.agent, list[Clock]()
    calls = (
        (learner.replay, "sample", None, "replay"),
        (agent.inputs, "of_batch", "replay", "augmentation"),
        (torch.autograd, "backward", "forward", "backward"),
        (agent.optimiser, "step", None, "optimiser"),
    )

    def noted() -> None:
        clock = Clock()
        with ExitStack() as closing:
            for call in calls:
                closing.enter_context(clock.noting(*call))
            clock.start()
            for _ in range(sizes.updates):
                _update(learner, 1)
                clock.note("replay")
        clocks.append(clock)

    plain, _ = in_turns([partial(_update, learner, sizes.updates), noted], sizes.turns)
    split: Figures = {}
    total = 0.0
    for piece in PIECES:
        taken = statistics.median(clock.spent.get(piece, 0.0) for clock in clocks)
        split[f"split_{piece}_ms"] = 1e3 * taken / sizes.updates
        total += taken
    return {**split, "split_over_update": total / plain}


def _loop(options: Deep, sizes: Sizes, learner: Trainer) -> Figures:
    """Steps a second with and without updates, and how much of the loop is acting."""
    never: dict[str, Any] = {"first_update": 10**9, "epsilon": (0.0, 0.0)}  # nor random actions
    idle = _learner(
        options.game,
        *LEARNERS["spr_ucb_paper"],
        options.seed,
        replace(sizes, fill=10),
        **never,
    )
    few, many, clock = sizes.updates, 25 * sizes.updates, Clock()

    def loop() -> None:
        with clock.noting(learner.agent, "act", "rest", "acting"):
            clock.start()
            _run(learner, few)
            clock.note("rest")

    busy, playing = in_turns([loop, partial(_run, idle, many)], sizes.turns)
    acting, rest = clock.spent["acting"], clock.spent["rest"]
    return {
        "act_ms": 1e3 * acting / (few * sizes.turns),
        "acting_share_of_loop": acting / (acting + rest),
        "act_steps_per_second": many / playing,
        "loop_steps_per_second": few / busy,
    }


def _small(options: Deep, sizes: Sizes) -> Figures:
    """Updates a second in small environments, with one thread."""
    cases = {
        **{
            f"minatar_updates_per_second_one_core_{name}": (MINATAR, *LEARNERS[name])
            for name in ("spr", "spr_ucb_paper", "spr_ucb_paper_bfloat16")
        },
        "deepsea_updates_per_second": (DEEP_SEA, *LEARNERS["spr_ucb_algorithm_1"]),
    }
    with threads(1):
        learners = [_learner(*case, options.seed, sizes) for case in cases.values()]
        works = [partial(_update, one, sizes.small_updates) for one in learners]
        seconds = in_turns(works, sizes.turns)
    return {name: sizes.small_updates / taken for name, taken in zip(cases, seconds, strict=True)}


def _update(trainer: Trainer, count: int) -> None:
    for _ in range(count):
        trainer._update()


def _rebuild(trainer: Trainer) -> None:
    """An update after which Sigma is rebuilt; as many as can be without one follow."""
    trainer.agent.n_updates = trainer.config.bonus.rebuild_every - 1
    _update(trainer, 1)


def _run(trainer: Trainer, steps: int) -> None:
    for _ in trainer.run(trainer.n_steps + steps):
        pass


def _say(what: str) -> None:
    print(f"measuring: {what}", file=sys.stderr)
