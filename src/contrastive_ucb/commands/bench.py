"""`cucb bench NAME`: the costs that the documentation states, as ratios within one run."""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from json import dumps
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrastive_ucb.commands.options import emit, parse
from contrastive_ucb.commands.timing import in_turns
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.files import write_atomically

if TYPE_CHECKING:
    from contrastive_ucb.commands.bench_games import Games
    from contrastive_ucb.runs.session import Session


@dataclass(frozen=True)
class Theory:
    """Costs of the provable tier in the setting S=10, A=3, d=3, H=4 (and one large setting)."""

    seed: int = 0
    """The first seed."""
    late: int = 100_000
    """The round whose cost is compared with that of round 100; all rounds to it are played."""
    rounds: int = 10_000
    """Rounds of the timed run with ten seeds."""
    large_rounds: int = 20
    """Rounds of the large setting S=2000, A=10, H=10, d=10."""
    out: Path | None = None
    """A file to write the figures to as JSON, besides printing them."""
    json: bool = False
    """Print the figures as one JSON object, the last line of stdout."""

    def __post_init__(self) -> None:
        for name, least in (("late", 200), ("rounds", 100), ("large_rounds", 1), ("seed", 0)):
            check_size(name, getattr(self, name), least)


def run(arguments: Sequence[str]) -> None:
    from contrastive_ucb.commands import bench_deep, bench_neural
    from contrastive_ucb.commands.bench_games import Games

    benches: dict[str, tuple[Any, Callable[[Any], dict[str, Any]], Callable[[Any], str]]] = {
        "theory": (Theory, _theory, partial(_text_of, "theory")),
        "games": (Games, _games, partial(_text_of, "games")),
        "deep": (bench_deep.Deep, bench_deep.measure, bench_deep.text_of),
        "neural": (bench_neural.Neural, bench_neural.measure, bench_neural.text_of),
    }
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: cucb bench NAME [options]   ('cucb bench NAME --help' lists them)\n")
        for name, (kind, _, _) in benches.items():
            print(f"  {name:8} {kind.__doc__}")
        return
    name, *rest = arguments
    if name not in benches:
        raise ValueError(f"no bench is called {name!r}; there are {', '.join(benches)}")
    kind, measure, text_of = benches[name]
    options = parse(kind, rest, f"cucb bench {name}", kind())
    if options.out is not None and not options.out.parent.is_dir():
        raise ValueError(f"there is no folder {options.out.parent} for --out; make it first")
    figures = measure(options)
    if options.out is not None:
        write_atomically(options.out, dumps(figures, indent=1) + "\n")
    emit(figures, options.json, text_of(figures))


def _text_of(name: str, figures: dict[str, float]) -> str:
    lines = [f"  {label:42} {value:.4g}" for label, value in figures.items()]
    return "\n".join([f"bench {name}", *lines])


def _theory(options: Theory) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for part in (_late_rounds, _batched_seeds, _large):
        print(f"measuring: {(part.__doc__ or '').splitlines()[0]}", file=sys.stderr)
        figures |= part(options)
    return figures


def _games(options: Games) -> dict[str, Any]:
    from contrastive_ucb.commands.bench_games import measure

    print("measuring: matrix games, all at once and one linear program a game", file=sys.stderr)
    return measure(options)


def _late_rounds(options: Theory) -> dict[str, float]:
    """A late round against round 100, in turns, and the memory of the process."""
    early, late = _session([options.seed]), _session([options.seed])
    _play(early, 100)
    _play(late, 100)
    before = _memory()
    _play(late, options.late)
    after = _memory()
    at_100 = [early.state_of(0)]

    def early_rounds() -> None:
        early.load_states(at_100)  # always from round 100 again
        _play(early, 150)

    works = (early_rounds, partial(_play_on, late, 50))
    first, second = in_turns(works, turns=9)
    return {
        "late_round_over_round_100": second / first,
        "late_memory_over_round_100": after / before,
    }


def _batched_seeds(options: Theory) -> dict[str, float]:
    """Ten seeds at once against one seed, in turns, and a whole run of ten seeds."""
    one = _session([options.seed])
    ten = _session(list(range(options.seed, options.seed + 10)))
    _play(one, 100)
    _play(ten, 100)
    works = [partial(_play_on, session, 50) for session in (one, ten)]
    alone, together = in_turns(works, turns=9)
    whole = _session(list(range(options.seed, options.seed + 10)))
    began = time.perf_counter()
    _play(whole, options.rounds)
    seconds = time.perf_counter() - began
    return {
        "ten_seeds_over_one": together / alone,
        f"seconds_10_seeds_{options.rounds}_rounds": seconds,
    }


def _large(options: Theory) -> dict[str, float]:
    """S=2000, A=10, H=10, d=10: peak memory and time a round, in processes of their own."""
    figures = {}
    for negatives in ("sampled", "exact"):
        receive, send = multiprocessing.Pipe(duplex=False)
        work = (send, negatives, options.seed, options.large_rounds)
        process = multiprocessing.get_context("spawn").Process(target=_large_run, args=work)
        process.start()
        process.join()
        if process.exitcode or not receive.poll():
            raise ArithmeticError(f"the large run stopped with exit code {process.exitcode}")
        peak, seconds = receive.recv()
        figures[f"large_{negatives}_peak_gb"] = peak
        figures[f"large_{negatives}_seconds_a_round"] = seconds
    return figures


def _large_run(send: Connection, negatives: str, seed: int, rounds: int) -> None:
    from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
    from contrastive_ucb.envs import LowRankMDP

    env = LowRankMDP(n_states=2000, n_actions=10, rank=10, horizon=10, seed=seed)
    agent = ContrastiveUCB(env, seed=seed, negatives=negatives)
    began = time.perf_counter()
    for _ in range(rounds):
        agent.round()
    seconds = (time.perf_counter() - began) / rounds
    agent.session.tracker.follow(agent.roll_in)
    agent.session.tracker.measure(agent, error=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # kB to GB
    send.send((peak, seconds))


def _session(seeds: list[int]) -> Session:
    """The F1 setting."""
    from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
    from contrastive_ucb.envs import LowRankMDP
    from contrastive_ucb.runs.session import Session

    envs = [LowRankMDP(n_states=10, n_actions=3, rank=3, horizon=4, seed=s) for s in seeds]
    return Session(ContrastiveUCB(envs, seed=seeds))


def _play(session: Session, until: int) -> None:
    for _ in session.rounds(until):
        pass


def _play_on(session: Session, rounds: int) -> None:
    _play(session, session.agent.n_rounds + rounds)


def _memory() -> float:
    """Resident memory of this process in bytes, now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
