"""Costs of the tabular agents: late rounds, batched seeds, one large setting; and of checksums."""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.timing import Clock, Figures, Targets, in_turns
from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.core import checkpoint, events
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.data import replay
from contrastive_ucb.envs import LowRankMDP
from contrastive_ucb.runs import store
from contrastive_ucb.runs.loop import solve, train
from contrastive_ucb.runs.problem import Problem
from contrastive_ucb.runs.session import Session
from contrastive_ucb.runs.training import Training

CHECKSUMS = [  # functions that compute checksums, where they are called
    *((checkpoint, name) for name in ("checksum", "sealed", "unsealed")),
    *((store, name) for name in ("checksum", "sealed", "unsealed", "check_mark")),
    (replay, "checksum"),
]


@dataclass(frozen=True)
class Options:
    """Costs of the tabular agents for S=10, A=3, d=3, H=4 (and one large setting)."""

    seed: int = 0
    """First seed."""
    late: int = 100_000
    """Round whose cost is compared with the cost of round 100. All rounds before it are run."""
    rounds: int = 10_000
    """Rounds of the timed run with ten seeds."""
    large_rounds: int = 20
    """Rounds of the large setting S=2000, A=10, H=10, d=10."""
    steps: int = 3000
    """Length of the runs of `solve` and `train` in which the checksums are timed."""

    def __post_init__(self) -> None:
        for name, least in (
            ("late", 200),
            ("rounds", 100),
            ("large_rounds", 1),
            ("steps", 50),
            ("seed", 0),
        ):
            check_size(name, getattr(self, name), least)


def measure(options: Options) -> Figures:
    figures: Figures = {}
    for part in (checksums, late_rounds, batched_seeds, large_setting):
        print(f"measuring: {(part.__doc__ or '').splitlines()[0]}", file=sys.stderr)
        figures |= part(options)
    return figures


def targets(options: Options) -> Targets:
    return {f"checksum_share_{kind}": ("<=", 0.01) for kind in ("solve", "train")}


def checksums(options: Options) -> Figures:
    """Share of checksums in the time of a run that saves a checkpoint every second."""
    problem = Problem("lowrank", settings={"rank": 3}, rounds=options.steps)
    training = Training("DeepSea-10", "spr-ucb", steps=options.steps, seed=options.seed)
    quiet: dict[str, Any] = {"progress": False, "checkpoint_seconds": 1.0}
    return {
        "checksum_share_solve": checksum_share(lambda out: solve(problem, [0], out, **quiet)),
        "checksum_share_train": checksum_share(lambda out: train(training, out, **quiet)),
    }


def checksum_share(run: Callable[[Path], object]) -> float:
    """The fraction of the time of a run, and of its repetition, that checksums take."""
    clock = Clock()

    class TimedHash:
        """The running checksum of a file."""

        def __init__(self, running: Any) -> None:
            self.running, self.hexdigest = running, running.hexdigest

        def update(self, line: bytes) -> None:
            clock.note("other")
            self.running.update(line)
            clock.note("checksums")

    check_mark = events.check_mark
    with TemporaryDirectory() as out, ExitStack() as patched:
        for owner, name in CHECKSUMS:
            patched.enter_context(clock.noting(owner, name, "other", "checksums"))
        events.check_mark = lambda *arguments: TimedHash(check_mark(*arguments))  # type: ignore
        patched.callback(setattr, events, "check_mark", check_mark)
        for _ in range(2):
            run(Path(out))
        clock.note("other")
    return clock.spent["checksums"] / sum(clock.spent.values())


def late_rounds(options: Options) -> Figures:
    """Time of a late round and memory of the process, relative to round 100."""
    early, late = f1_session([options.seed]), f1_session([options.seed])
    play(early, 100)
    play(late, 100)
    before = resident_bytes()
    play(late, options.late)
    after = resident_bytes()
    state = [early.state_of(0)]

    def early_rounds() -> None:
        early.load_states(state)  # restart at round 100 in each turn
        play(early, 150)

    first, second = in_turns((early_rounds, partial(play_more, late, 50)), turns=9)
    return {
        "late_round_over_round_100": second / first,
        "late_memory_over_round_100": after / before,
    }


def batched_seeds(options: Options) -> Figures:
    """Time of ten seeds in one batch relative to one seed, and a whole run of ten seeds."""
    seeds = list(range(options.seed, options.seed + 10))
    single, batch, whole = f1_session(seeds[:1]), f1_session(seeds), f1_session(seeds)
    play(single, 100)
    play(batch, 100)
    alone, together = in_turns([partial(play_more, s, 50) for s in (single, batch)], turns=9)
    start = time.perf_counter()
    play(whole, options.rounds)
    return {
        "ten_seeds_over_one": together / alone,
        f"seconds_10_seeds_{options.rounds}_rounds": time.perf_counter() - start,
    }


def large_setting(options: Options) -> Figures:
    """S=2000, A=10, H=10, d=10: peak memory and time per round, each in its own process."""
    figures = {}
    for negatives in ("sampled", "exact"):
        receive, send = multiprocessing.Pipe(duplex=False)
        arguments = (send, negatives, options.seed, options.large_rounds)
        process = multiprocessing.get_context("spawn").Process(target=large_run, args=arguments)
        process.start()
        process.join()
        if process.exitcode or not receive.poll():
            raise OSError(f"the process of the large setting exited with {process.exitcode}")
        peak, seconds = receive.recv()
        figures[f"large_{negatives}_peak_gb"] = peak
        figures[f"large_{negatives}_seconds_a_round"] = seconds
    return figures


def large_run(send: Connection, negatives: str, seed: int, rounds: int) -> None:
    env = LowRankMDP(n_states=2000, n_actions=10, rank=10, horizon=10, seed=seed)
    agent = ContrastiveUCB(env, seed=seed, negatives=negatives)
    start = time.perf_counter()
    for _ in range(rounds):
        agent.round()
    seconds = (time.perf_counter() - start) / rounds
    agent.session.tracker.follow(agent.roll_in)
    agent.session.tracker.measure(agent, error=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # kB to GB
    send.send((peak, seconds))


def f1_session(seeds: list[int]) -> Session:
    """The setting of fact F1."""
    envs = [LowRankMDP(n_states=10, n_actions=3, rank=3, horizon=4, seed=s) for s in seeds]
    return Session(ContrastiveUCB(envs, seed=seeds))


def play(session: Session, until: int) -> None:
    for _ in session.rounds(until):
        pass


def play_more(session: Session, rounds: int) -> None:
    play(session, session.agent.n_rounds + rounds)


def resident_bytes() -> float:
    """Resident memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
