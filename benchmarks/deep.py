"""Costs of the deep agents: updates, acting, replay memory, and a plain implementation beside them.

The agents and the plain implementation (`yardstick.py`) take turns in one process, whose allocator
keeps freed memory. The plain implementation also runs in a second process with the default
allocator of the system.
"""

from __future__ import annotations

import multiprocessing
import re
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.timing import Clock, Figures, Targets, in_turns
from benchmarks.yardstick import PlainReplay, Yardstick
from contrastive_ucb.agents.deep.trainer import Trainer
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.core.runtime import keep_freed_memory, one_thread, threads
from contrastive_ucb.data.replay import Replay
from contrastive_ucb.envs.registry import make_deep_env
from contrastive_ucb.runs.training import Training

Functions = dict[str, Callable[[], object]]
Trainers = dict[str, Trainer]

TARGETS: Targets = {
    "yardstick_over_paper": (">=", 2.5),
    "yardstick_default_over_paper": (">=", 3.5),
    "yardstick_spr_over_spr": (">=", 1.7),
    "yardstick_over_reference": (">=", 1.4),
    "spr_over_shared_view": ("<=", 1.08),
    "paper_over_spr": ("<=", 1.1),
    "spr_over_der": (">=", 3.0),
    "spr_over_drq": (">=", 3.0),
    "acting_share_of_loop": ("<=", 0.03),
    "replay_sample_ms": ("<=", 2.0),
    "replay_gb_100k": ("<=", 0.9),
    "minatar_updates_per_second_one_core_spr": (">=", 60.0),
    "minatar_updates_per_second_one_core_spr_ucb_paper": (">=", 60.0),
}
AGENTS: dict[str, tuple[str, dict[str, Any]]] = {  # algorithm and settings
    "spr": ("spr", {}),
    "spr_shared_view": ("spr", {"double_view": "shared"}),  # without the additional pass
    "spr_ucb_paper": ("spr-ucb", {}),
    "spr_ucb_paper_bfloat16": ("spr-ucb", {"precision": "bfloat16"}),
    "spr_ucb_reference": ("spr-ucb", {"bonus.preset": "reference"}),
    "spr_ucb_algorithm_1": ("spr-ucb", {"bonus.preset": "algorithm-1"}),
    **{name: (name, {}) for name in ("curl", "der", "drq")},
}
YARDSTICKS = {"yardstick_spr": False, "yardstick_spr_ucb": True}  # whether it has the bonus
PARTS = ("replay", "augmentation", "forward", "backward", "optimizer")
MINATAR, DEEP_SEA = "MinAtar/Breakout-v1", "DeepSea-10"
EPISODE, WINDOW = 1000, 16  # steps of an episode and of a window in the full memory
N_FRAMES = 16  # random frames that fill the memory in turn


@dataclass(frozen=True)
class Options:
    """Speed and memory of SPR and SPR-UCB, relative to a plain implementation."""

    game: str = "Pong"
    """Atari game."""
    turns: int = 9
    """Number of turns; times are medians over them."""
    updates: int = 4
    """Updates per turn."""
    threads: int = 2
    """Threads of torch. MinAtar and DeepSea are always measured with one."""
    seed: int = 0
    """Seed of the environments and agents."""
    quick: bool = False
    """One turn of one update with small batches and memories, to check that everything runs."""

    def __post_init__(self) -> None:
        for name, least in (("turns", 1), ("updates", 1), ("threads", 1), ("seed", 0)):
            check_size(name, getattr(self, name), least)


@dataclass(frozen=True)
class Sizes:
    """Amount of work that is measured."""

    turns: int
    updates: int  # per turn, Atari
    small_updates: int  # per turn, MinAtar and DeepSea
    batch: int
    fill: int  # steps in the memories before timing starts; algorithm-1 reads 2048 of them
    stored: int  # steps in the memory whose size is measured
    matrix: int  # rows of the square matrices whose product gives the peak speed


def sizes_of(options: Options) -> Sizes:
    if options.quick:
        return Sizes(1, 1, 1, batch=4, fill=40, stored=2000, matrix=128)
    turns, updates = options.turns, options.updates
    return Sizes(turns, updates, 50, batch=32, fill=2100, stored=100_000, matrix=2048)


def targets(options: Options) -> Targets:
    return {} if options.quick else TARGETS


def measure(options: Options) -> Figures:
    for name in (options.game, MINATAR):  # missing packages raise before the first turn
        shape = Training(name).frame_shape
        if name == options.game and shape != (1, 84, 84):
            raise ValueError(f"--game takes an Atari game such as Pong; {name} has frames {shape}")
    sizes = sizes_of(options)
    figures: Figures = {}
    with threads(options.threads):
        _log("size of a full replay memory, and sampling from it")
        figures |= full_memory(options, sizes)
        keep_freed_memory()
        _log("updates of the agents and of the plain implementation, in turns")
        trainers = {
            name: make_trainer(options.game, *agent, options.seed, sizes)
            for name, agent in AGENTS.items()
        }
        figures |= update_times(options, sizes, trainers)
        _log("parts of an update, acting and the training loop")
        figures |= parts_of_update(sizes, trainers["spr_ucb_paper"])
        figures |= training_loop(options, sizes, trainers["spr_ucb_paper"])
    _log("MinAtar and DeepSea on one core")
    return figures | small_environments(options, sizes)


# Updates


def make_trainer(
    game: str, algo: str, settings: dict[str, Any], seed: int, sizes: Sizes, **more: Any
) -> Trainer:
    """A trainer after `fill` steps, and after its first update unless `more` delays it."""
    given = settings | {"first_update": sizes.fill, "batch_size": sizes.batch}
    trainer = Training(game, algo, given | more, seed=seed).trainer()
    with one_thread():  # not timed yet, and single observations gain nothing from two threads
        _run(trainer, sizes.fill)
    return trainer


def update_times(options: Options, sizes: Sizes, trainers: Trainers) -> Figures:
    """Milliseconds per update, their ratios, and the share of the peak speed."""
    functions: Functions = {
        name: partial(_update, trainer, sizes.updates) for name, trainer in trainers.items()
    }
    optimist = trainers["spr_ucb_algorithm_1"]
    functions["rebuild"] = partial(_rebuild, optimist)
    left = torch.rand(sizes.matrix, sizes.matrix)
    right = left.clone()
    functions["sgemm"] = lambda: left @ right
    with ExitStack() as stack:
        plain = PlainRuns(
            options.game, options.seed, sizes.fill, sizes.batch, sizes.updates, options.threads
        )
        functions |= plain.functions()
        other_process = stack.enter_context(in_other_process(plain))
        functions |= {f"{name}_default_allocator": call for name, call in other_process.items()}
        times = in_turns(list(functions.values()), sizes.turns)
    seconds = dict(zip(functions, times, strict=True))
    names = (*AGENTS, *YARDSTICKS, *(f"{name}_default_allocator" for name in YARDSTICKS))
    ms = {name: 1e3 * seconds[name] / sizes.updates for name in names}
    # The timed updates contain no rebuild of Sigma; add its cost, spread over the updates.
    without = seconds["spr_ucb_algorithm_1"] / sizes.updates
    share = max(0.0, seconds["rebuild"] - without) / optimist.config.bonus.rebuild_every
    ms["spr_ucb_algorithm_1"] = 1e3 * (without + share)
    figures = {f"ms_update_{name}": value for name, value in ms.items()}
    peak = 2e-9 * sizes.matrix**3 / seconds["sgemm"]
    return figures | time_ratios(ms) | {"peak_gflops": peak} | operations(trainers, ms, peak)


def time_ratios(ms: Figures) -> Figures:
    pairs = {
        "yardstick_over_paper": ("yardstick_spr_ucb", "spr_ucb_paper"),
        "yardstick_default_over_paper": ("yardstick_spr_ucb_default_allocator", "spr_ucb_paper"),
        "yardstick_spr_over_spr": ("yardstick_spr", "spr"),
        "yardstick_over_reference": ("yardstick_spr_ucb", "spr_ucb_reference"),
        "spr_over_shared_view": ("spr", "spr_shared_view"),
        "paper_over_spr": ("spr_ucb_paper", "spr"),
        "reference_over_spr": ("spr_ucb_reference", "spr"),
        "algorithm_1_over_spr": ("spr_ucb_algorithm_1", "spr"),
        "paper_over_bfloat16": ("spr_ucb_paper", "spr_ucb_paper_bfloat16"),
        "yardstick_over_bfloat16": ("yardstick_spr_ucb", "spr_ucb_paper_bfloat16"),
        "yardstick_default_over_bfloat16": (
            "yardstick_spr_ucb_default_allocator",
            "spr_ucb_paper_bfloat16",
        ),
        **{f"spr_over_{name}": ("spr", name) for name in ("curl", "der", "drq")},
        "yardstick_spr_ucb_over_its_spr": ("yardstick_spr_ucb", "yardstick_spr"),
    }
    return {name: ms[above] / ms[below] for name, (above, below) in pairs.items()}


def operations(trainers: Trainers, ms: Figures, peak: float) -> Figures:
    """Floating-point operations of matrix products and convolutions per update."""
    figures: Figures = {}
    for name in ("spr", "spr_ucb_paper", "der", "drq"):
        with FlopCounterMode(display=False) as counter:
            _update(trainers[name], 1)
        gflop = 1e-9 * counter.get_total_flops()
        figures[f"gflop_of_an_update_{name}"] = gflop
        figures[f"share_of_peak_{name}"] = 1e3 * gflop / ms[name] / peak
    return figures


def parts_of_update(sizes: Sizes, trainer: Trainer) -> Figures:
    """Milliseconds of the parts of an update, and their sum relative to updates without a clock.

    The time between two notes belongs to the part of the second note: clipping of gradients to the
    optimizer, the bonus to the forward pass, new priorities to the replay memory.
    """
    agent, clocks = trainer.agent, list[Clock]()
    calls = (
        (trainer.replay, "sample", None, "replay"),
        (agent.inputs, "of_batch", "replay", "augmentation"),
        (torch.autograd, "backward", "forward", "backward"),
        (agent.optimizer, "step", None, "optimizer"),
    )

    def with_clock() -> None:
        clock = Clock()
        with ExitStack() as stack:
            for call in calls:
                stack.enter_context(clock.noting(*call))
            clock.start()
            for _ in range(sizes.updates):
                _update(trainer, 1)
                clock.note("replay")
        clocks.append(clock)

    without_clock, _ = in_turns([partial(_update, trainer, sizes.updates), with_clock], sizes.turns)
    seconds = {part: statistics.median(c.spent.get(part, 0.0) for c in clocks) for part in PARTS}
    figures = {f"split_{part}_ms": 1e3 * s / sizes.updates for part, s in seconds.items()}
    return {**figures, "split_over_update": sum(seconds.values()) / without_clock}


def training_loop(options: Options, sizes: Sizes, trainer: Trainer) -> Figures:
    """Steps per second with and without updates, and the share of acting."""
    greedy: dict[str, Any] = {
        "first_update": 10**9,
        "epsilon": (0.0, 0.0),
    }  # neither updates nor random actions
    acting_only = make_trainer(
        options.game, *AGENTS["spr_ucb_paper"], options.seed, replace(sizes, fill=10), **greedy
    )
    few, many, clock = sizes.updates, 25 * sizes.updates, Clock()

    def loop() -> None:
        with clock.noting(trainer.agent, "act", "rest", "acting"):
            clock.start()
            _run(trainer, few)
            clock.note("rest")

    learning, playing = in_turns([loop, partial(_run, acting_only, many)], sizes.turns)
    acting, rest = clock.spent["acting"], clock.spent["rest"]
    return {
        "act_ms": 1e3 * acting / (few * sizes.turns),
        "acting_share_of_loop": acting / (acting + rest),
        "act_steps_per_second": many / playing,
        "loop_steps_per_second": few / learning,
    }


def small_environments(options: Options, sizes: Sizes) -> Figures:
    """Updates per second in small environments, with one thread."""
    cases = {
        **{
            f"minatar_updates_per_second_one_core_{name}": (MINATAR, *AGENTS[name])
            for name in ("spr", "spr_ucb_paper", "spr_ucb_paper_bfloat16")
        },
        "deepsea_updates_per_second": (DEEP_SEA, *AGENTS["spr_ucb_algorithm_1"]),
    }
    with threads(1):
        trainers = [make_trainer(*case, options.seed, sizes) for case in cases.values()]
        functions = [partial(_update, trainer, sizes.small_updates) for trainer in trainers]
        seconds = in_turns(functions, sizes.turns)
    return {name: sizes.small_updates / taken for name, taken in zip(cases, seconds, strict=True)}


def _update(trainer: Trainer, count: int) -> None:
    for _ in range(count):
        trainer._update()


def _rebuild(trainer: Trainer) -> None:
    """An update that rebuilds Sigma; the following updates do not."""
    trainer.agent.n_updates = trainer.config.bonus.rebuild_every - 1
    _update(trainer, 1)


def _run(trainer: Trainer, steps: int) -> None:
    for _ in trainer.run(trainer.n_steps + steps):
        pass


def _log(text: str) -> None:
    print(f"measuring: {text}", file=sys.stderr)


# The plain implementation


@dataclass(frozen=True)
class PlainRuns:
    """Arguments of the plain implementation, for this process and for another.

    fill     random steps in its memory
    batch    windows per update
    updates  per turn
    """

    game: str
    seed: int
    fill: int
    batch: int
    updates: int
    threads: int

    def functions(self) -> Functions:
        """One turn of SPR and one of SPR-UCB. Their first updates happen here, untimed."""
        env = make_deep_env(self.game, seed=self.seed, training=True)
        steps = self.random_steps()
        functions: Functions = {}
        for name, bonus in YARDSTICKS.items():
            replay = PlainReplay(*steps, seed=self.seed)
            yardstick = Yardstick(env.n_actions, bonus, seed=self.seed)
            yardstick.step(replay, self.batch)
            functions[name] = partial(self.turn, yardstick, replay)
        return functions

    def turn(self, yardstick: Yardstick, replay: PlainReplay) -> None:
        for _ in range(self.updates):
            yardstick.step(replay, self.batch)

    def random_steps(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Frames (n, 84, 84), actions, rewards and ends (n,)."""
        env = make_deep_env(self.game, seed=self.seed, training=True)
        rng = stream(self.seed, "policy")
        frames, actions, rewards, ends = [], [], [], []
        frame = env.reset()
        for _ in range(self.fill):
            action = int(rng.integers(env.n_actions))
            step = env.step(action)
            end = step.terminated or step.truncated
            frames.append(frame[0])
            actions.append(action)
            rewards.append(step.reward)
            ends.append(end)
            frame = env.reset() if end else step.frame
        return np.array(frames), np.array(actions), np.array(rewards), np.array(ends)


@contextmanager
def in_other_process(plain: PlainRuns) -> Iterator[Functions]:
    """The same functions, executed in a process with the default allocator."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs, plain))
    process.start()
    theirs.close()

    def call(name: str) -> None:
        try:
            ours.send(name)
            ours.recv()
        except (EOFError, BrokenPipeError):
            process.join()
            raise OSError(
                f"the process of the plain implementation exited with {process.exitcode}"
            ) from None

    try:
        call("")  # returns when the process is ready
        yield {name: partial(call, name) for name in YARDSTICKS}
    finally:
        ours.close()
        process.join()


def _serve(connection: Connection, plain: PlainRuns) -> None:
    """Call functions by name until the connection is closed."""
    torch.set_num_threads(plain.threads)
    functions = plain.functions()
    try:
        while True:
            name = connection.recv()
            if name:
                functions[name]()
            connection.send(None)
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        pass


# Replay memory


def full_memory(options: Options, sizes: Sizes) -> Figures:
    """Size of a full memory, time per sample, and peak memory of the process after updates."""
    receive, send = multiprocessing.Pipe(duplex=False)
    arguments = (send, options, sizes)
    process = multiprocessing.get_context("spawn").Process(target=_fill_and_learn, args=arguments)
    process.start()
    send.close()
    try:
        figures: Figures = receive.recv()
    except EOFError:
        process.join()
        raise OSError(f"the process of the replay memory exited with {process.exitcode}") from None
    process.join()
    return figures


def _fill_and_learn(send: Connection, options: Options, sizes: Sizes) -> None:
    """GB are 10**9 bytes. The size is the growth of the process, scaled to 100,000 steps."""
    keep_freed_memory()
    torch.set_num_threads(options.threads)
    settings = {"bonus.preset": "paper", "batch_size": sizes.batch}
    trainer = Training(options.game, "spr-ucb", settings, seed=options.seed).trainer()
    before = _resident_gb("VmRSS")
    trainer.replay = replay = filled_memory(trainer.replay, sizes.stored, options.seed)
    growth = _resident_gb("VmRSS") - before
    rng = stream(options.seed, "replay")

    def sample() -> Any:
        return replay.sample(rng.random(sizes.batch), importance_exponent=0.4)

    def sample_windows() -> None:
        times = replay.history.following(sample().index, WINDOW)
        replay.history.observations(times.reshape(-1))

    sample_windows()
    with_windows, alone = in_turns([sample_windows, sample], turns=101)
    _update(trainer, 3)
    send.send(
        {
            "replay_sample_ms": 1e3 * with_windows,
            "replay_sample_without_windows_ms": 1e3 * alone,
            "replay_gb_100k": growth * 100_000 / sizes.stored,
            "peak_memory_gb": _resident_gb("VmHWM"),
        }
    )


def filled_memory(like: Replay, steps: int, seed: int) -> Replay:
    """A memory with the settings of `like` and windows, filled with random steps."""
    frame = like.history.frame
    extras = {name: (x.shape[1:], x.dtype) for name, x in like.extras.items()}
    replay = Replay(
        like.history.capacity,
        frame.shape[1:],
        frame.dtype,
        stack=like.history.stack,
        n_step=like.n_step,
        discount=like.discount,
        jumps=like.jumps,
        window=WINDOW,
        priority_exponent=like.priority_exponent,
        extras=extras,
    )
    rng = stream(seed, "memory")
    frames = rng.integers(0, 256, (N_FRAMES, *frame.shape[1:]), dtype=np.uint8)
    values = {name: rng.random(shape).astype(dtype) for name, (shape, dtype) in extras.items()}
    for step in range(steps):
        if step % EPISODE == 0:
            replay.begin(frames[-1])
        end = step % EPISODE == EPISODE - 1
        replay.add(step % 3, 0.0, frames[step % N_FRAMES], end, False, **values)
    return replay


def _resident_gb(field: str) -> float:
    """Resident memory of this process: VmRSS is the current value, VmHWM the peak.

    ru_maxrss cannot be used: a new process starts with the value of its parent.
    """
    match = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if match is None:
        raise OSError(f"/proc/self/status has no {field}; this benchmark needs Linux")
    return int(match[1]) * 1024 / 1e9
