"""Costs of the tabular agents: late rounds, batched seeds, and one large setting."""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection

from benchmarks.timing import Figures, Targets, in_turns
from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.envs import LowRankMDP
from contrastive_ucb.runs.session import Session


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

    def __post_init__(self) -> None:
        for name, least in (("late", 200), ("rounds", 100), ("large_rounds", 1), ("seed", 0)):
            check_size(name, getattr(self, name), least)


def measure(options: Options) -> Figures:
    figures: Figures = {}
    for part in (late_rounds, batched_seeds, large_setting):
        print(f"measuring: {(part.__doc__ or '').splitlines()[0]}", file=sys.stderr)
        figures |= part(options)
    return figures


def targets(options: Options) -> Targets:
    return {}


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
