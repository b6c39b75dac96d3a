"""Tables of summaries: one row an agent, as text for HTML and Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median

from contrastive_ucb.report.read import Group, missing_seeds

NOTHING = "\N{EN DASH}"  # a number that no run has

COLUMNS = (
    ("rounds", "rounds"),
    ("trajectories", "trajectories"),
    ("final_gap", "final gap"),
    ("average_regret", "average regret"),
    ("zeta", "model error ζ"),
    ("strictly_optimistic_fraction", "optimistic rounds"),
)


@dataclass(frozen=True)
class Table:
    """Text only; the first column names the row, the others hold numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(f"row {row} has {len(row)} cells, the header {len(self.header)}")

    def to_markdown(self) -> str:
        marks = ["---"] + ["---:"] * (len(self.header) - 1)
        return "".join(
            "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n"
            for row in (self.header, marks, *self.rows)
        )


def summary_table(groups: list[Group]) -> Table:
    """What each group's runs came to: means over the finished seeds."""
    names = [text for _, text in COLUMNS]
    solved = ("solved", "median round") if _can_be_solved(groups) else ()
    return Table(
        header=("agent", "seeds", *names, *solved, "seconds"),
        rows=tuple(_row(group, groups) for group in groups),
    )


def solved_seeds(group: Group) -> tuple[int, int]:
    """How many of the finished seeds solved the task, and how many there are."""
    return len(_solved_rounds(group)), len(group.finished)


def _row(group: Group, groups: list[Group]) -> tuple[str, ...]:
    return (
        group.agent,
        _seeds(group, groups),
        *(_number(name, _mean(group, name)) for name, _ in COLUMNS),
        *(_solved(group) if _can_be_solved(groups) else ()),
        _number("seconds", _mean(group, "seconds")),
    )


def _seeds(group: Group, groups: list[Group]) -> str:
    missing = missing_seeds(group, groups)
    n_finished = len(group.finished)
    if not missing:
        return str(n_finished)
    listed = ", ".join(str(seed) for seed in missing)
    return f"{n_finished} of {n_finished + len(missing)} (missing: {listed})"


def _can_be_solved(groups: list[Group]) -> bool:
    """Some tasks have no notion of being solved; their summaries say nothing about it."""
    return any("solved_at" in (run.summary or {}) for group in groups for run in group.runs)


def _solved(group: Group) -> tuple[str, str]:
    """How many seeds solved the task, and the median round in which these did."""
    rounds = _solved_rounds(group)
    count = f"{len(rounds)} of {len(group.finished)}"
    return count, f"{median(rounds):,.10g}" if rounds else NOTHING


def _solved_rounds(group: Group) -> list[float]:
    found = (run.number("solved_at") for run in group.finished)
    return [at for at in found if at is not None]


def _mean(group: Group, name: str) -> float | None:
    """Over the finished runs that have the number."""
    found = [value for run in group.finished if (value := run.number(name)) is not None]
    return fmean(found) if found else None


def _number(name: str, value: float | None) -> str:
    if value is None:
        return NOTHING
    if name in ("rounds", "trajectories"):
        return f"{value:,.0f}"
    if name == "seconds":
        return f"{value:.1f}"
    if name == "strictly_optimistic_fraction":
        return f"{value:.1%}"
    return f"{value:.3g}" if abs(value) > 1e-9 else "0"  # below that it is rounding
