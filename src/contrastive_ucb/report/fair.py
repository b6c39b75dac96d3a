"""How the published numbers may be read: which runs they come from, and what differs for sure."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from contrastive_ucb.report.html import Section
from contrastive_ucb.report.tables import Table
from contrastive_ucb.stats.aggregate import mean, median
from contrastive_ucb.stats.published import Method, atari100k, printed_aggregates

LEVEL = 0.05
OURS, BASE = "SPR-UCB", "SPR"
FIRST, EVERY = "SPR (first 10 runs)", "SPR (all runs)"
DECIMALS = 0.005  # deviations are printed with two decimals: below this they are printed as 0.00
# The columns of the paper's table, from left to right.
PAPER = ("CURL", "OTR", "DER", "SimPLe", "DrQ", "DrQ(eps)", "SPR", "SPR-UCB")
RELEASED = "released with Agarwal et al. (2021)"


@dataclass(frozen=True)
class Welch:
    """Welch's test of one game: two means, their difference, and how likely chance made it."""

    game: str
    ours: float
    base: float
    t: float
    freedom: float
    p: float

    @property
    def difference(self) -> float:
        return self.ours - self.base


def published_mean(name: str) -> float:
    """The mean over the games of what the table has for a method."""
    return float(mean(atari100k().methods[name].scores[None]))


def published_median(name: str) -> float:
    return float(median(atari100k().methods[name].scores[None]))


def runs_of(name: str) -> int:
    """How many runs a game the published scores of a method come from."""
    count = atari100k().methods[name].n_runs
    if count is None:
        raise ValueError(f"nobody published how many runs {name} has")
    return count


def welch_tests(ours: str = OURS, base: str = BASE) -> list[Welch]:
    """Welch's test of every game whose deviations are printed above zero, smallest p first."""
    left, right = (atari100k().methods[name] for name in (ours, base))
    tests = []
    for at, game in enumerate(atari100k().games):
        if _deviation(left, at) >= DECIMALS and _deviation(right, at) >= DECIMALS:
            tests.append(_welch(game, left, right, at))
    return sorted(tests, key=lambda test: test.p)


def untestable(ours: str = OURS, base: str = BASE) -> list[str]:
    """Games with a deviation that is printed as 0.00, which says nothing about its size."""
    tested = {test.game for test in welch_tests(ours, base)}
    return [game for game in atari100k().games if game not in tested]


def holm(tests: list[Welch], level: float = LEVEL) -> list[Welch]:
    """Those that remain when all tests together may err with probability `level` (Holm)."""
    kept = []
    for rank, test in enumerate(sorted(tests, key=lambda one: one.p)):
        if test.p > level / (len(tests) - rank):
            break
        kept.append(test)
    return kept


def source_notes() -> list[str]:
    """Which runs the published numbers of each method come from."""
    return [*table_notes(), aggregate_note()]


def table_notes() -> list[str]:
    """The same for the numbers of the paper's table."""
    notes = [
        f"{OURS}: {runs_of(OURS)} runs a game, by the authors of the paper with the code that they"
        " released. That code computes the bonus as the preset `reference` does, not as the paper"
        " describes it (`paper`), so compare these numbers with SPR-UCB (reference)."
    ]
    counts = sorted({runs_of(name) for name in PAPER if name != OURS}, reverse=True)
    for count in counts:
        names = [name for name in PAPER if name != OURS and runs_of(name) == count]
        notes.append(f"{', '.join(names)}: {count} runs a game, {RELEASED}.")
    return notes


def aggregate_note() -> str:
    """The same for the published aggregates that are not from the table."""
    low = {e.method for e in printed_aggregates() if e.runs == "10" and e.low is not None}
    names = [name for name in PAPER if name in low]
    return (
        f"Published medians, IQMs, optimality gaps and their intervals ({', '.join(names)}):"
        " 10 runs a game (SimPLe 5), printed by Agarwal et al. (2021); the table averages over"
        " more runs."
    )


def fair_section() -> Section:
    """The gain of SPR-UCB over SPR with everything that has to be said beside it."""
    tests = welch_tests()
    found = [test for test in tests if test.p < LEVEL]
    kept = [test.game for test in holm(tests)]
    better = sum(test.difference > 0 for test in found)
    deaf = untestable()
    return Section(
        "The gain of SPR-UCB over SPR, read fairly",
        (
            f"The paper compares the {runs_of(OURS)} runs of {OURS}, whose mean is"
            f" {_three(published_mean(OURS))}, with {runs_of(BASE)} runs of {BASE}, whose mean is"
            f" {_three(published_mean(BASE))}. The first {runs_of(FIRST)} of these"
            f" {runs_of(EVERY)} runs alone give {_three(published_mean(FIRST))}. {_printed_spr()}"
            f" So {OURS} lies {_three(published_mean(OURS) - published_mean(BASE))} above the"
            f" {runs_of(BASE)} runs of {BASE}, and the first {runs_of(FIRST)} of these lie"
            f" {_three(published_mean(FIRST) - published_mean(BASE))} above them.",
            f"Game by game, Welch's test on the means, deviations and numbers of runs of the table"
            f" finds a difference at p < {LEVEL:g} in {len(found)} of the {len(tests)} games that"
            f" it can test, {better} of them in favour of {OURS}:"
            f" {', '.join(test.game for test in found)}. By chance alone about"
            f" {LEVEL * len(tests):.1f} would be expected. With Holm's correction for so many tests"
            f" there remain: {', '.join(kept) or 'none'}.",
            f"It cannot be tested in {', '.join(deaf)}, whose deviation is printed as 0.00.",
        ),
        table=welch_table(found),
        table_caption=(
            f"Games in which {OURS} and {BASE} differ at p < {LEVEL:g}, two-sided, from the numbers"
            " of the paper's table: mean ± standard deviation over runs, human-normalised."
        ),
    )


def welch_table(tests: list[Welch]) -> Table:
    left, right = (atari100k().methods[name] for name in (OURS, BASE))
    header = ("game", f"{OURS} ({left.n_runs} runs)", f"{BASE} ({right.n_runs} runs)")
    rows = []
    for test in tests:
        at = atari100k().games.index(test.game)
        cells = [
            f"{method.scores[at]:.4f} ± {_deviation(method, at):.2f}" for method in (left, right)
        ]
        rest = (f"{test.difference:+.4f}", f"{test.t:.2f}", f"{test.freedom:.1f}")
        rows.append((test.game, *cells, *rest, _p(test.p)))
    return Table((*header, "difference", "t", "degrees of freedom", "p"), tuple(rows))


def _welch(game: str, left: Method, right: Method, at: int) -> Welch:
    """t = (x - y) / sqrt(a + b) with a = s_x^2 / n_x, b = s_y^2 / n_y (Welch 1947)."""
    ours, base = float(left.scores[at]), float(right.scores[at])
    n, m = runs_of(left.name), runs_of(right.name)
    a, b = _deviation(left, at) ** 2 / n, _deviation(right, at) ** 2 / m
    t = (ours - base) / sqrt(a + b)
    freedom = (a + b) ** 2 / (a**2 / (n - 1) + b**2 / (m - 1))
    from scipy.special import stdtr  # takes long to import, and most pages have no test

    return Welch(game, ours, base, t, freedom, float(2 * stdtr(freedom, -abs(t))))


def _deviation(method: Method, at: int) -> float:
    if method.deviations is None:
        raise ValueError(f"no deviations of {method.name} were published")
    return float(method.deviations[at])


def _printed_spr() -> str:
    (entry,) = [
        e
        for e in printed_aggregates()
        if (e.method, e.runs, e.statistic) == (BASE, "10", "mean") and e.low is not None
    ]
    return (
        f"The mean that Agarwal et al. (2021) printed for {entry.runs} runs of {BASE} is"
        f" {_three(entry.estimate)}, with a 95% interval from {entry.low:.3f} to {entry.high:.3f}."
    )


def _three(value: float) -> str:
    return f"{value:.3f}"


def _p(value: float) -> str:
    return f"{value:.1e}" if value < 0.001 else f"{value:.3f}"
