"""Tables of summaries: one row an agent, as text for HTML and Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median

from contrastive_ucb.report.read import Group, missing_seeds

NOTHING = "\N{EN DASH}"  # a number that no run has

ROUNDING = 1e-9  # smaller numbers are shown as zero

COLUMNS = (
    ("rounds", "rounds"),
    ("trajectories", "trajectories"),
    ("final_gap", "final gap"),
    ("average_regret", "average regret"),
    ("zeta", "model error ζ"),
    ("strictly_optimistic_fraction", "optimistic rounds"),
)
GAME_COLUMNS = (
    ("rounds", "rounds"),
    ("trajectories", "trajectories"),
    ("average_gap", "average gap"),
    ("final_gap", "last round's gap"),
    ("exploitability", "exploitability of the recommended pair"),
    ("certificate", "its certificate"),
    ("bracket_fraction", "rounds in which the bracket held"),
)
COUNTS = ("rounds", "trajectories")
FRACTIONS = ("strictly_optimistic_fraction", "bracket_fraction")


@dataclass(frozen=True)
class Table:
    """Text only; the first column names the row, the others hold numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    bold: frozenset[tuple[int, int]] = frozenset()  # (row, column) of cells that stand out

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(f"row {row} has {len(row)} cells, the header {len(self.header)}")

    def to_markdown(self) -> str:
        marks = ["---"] + ["---:"] * (len(self.header) - 1)
        rows = self._marked("**", "**")
        return "".join(
            "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n"
            for row in (self.header, marks, *rows)
        )

    def to_latex(self) -> str:
        """For the package booktabs."""
        plain = Table(self.header, tuple(tuple(map(tex, row)) for row in self.rows), self.bold)
        rows = [" & ".join(row) + " \\\\" for row in plain._marked("\\textbf{", "}")]
        return "\n".join(
            [
                "% needs \\usepackage{booktabs}",
                f"\\begin{{tabular}}{{l{'r' * (len(self.header) - 1)}}}",
                "\\toprule",
                " & ".join(map(tex, self.header)) + " \\\\",
                "\\midrule",
                *rows,
                "\\bottomrule",
                "\\end{tabular}",
                "",
            ]
        )

    def _marked(self, before: str, after: str) -> list[list[str]]:
        """The rows with something around the cells that stand out."""
        return [
            [
                f"{before}{cell}{after}" if (at, column) in self.bold else cell
                for column, cell in enumerate(row)
            ]
            for at, row in enumerate(self.rows)
        ]


def tex(text: str) -> str:
    """Plain text as LaTeX has to have it."""
    for sign in "&%$#_{}":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("±", "$\\pm$").replace(NOTHING, "--")


def number_text(value: float) -> str:
    """Four digits, and no powers of ten where there are more before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def summary_table(groups: list[Group], columns: tuple[tuple[str, str], ...] = COLUMNS) -> Table:
    """What each group's runs came to: means over the finished seeds."""
    names = [text for _, text in columns]
    solved = ("solved", "median round") if _can_be_solved(groups) else ()
    return Table(
        header=("agent", "seeds", *names, *solved, "seconds"),
        rows=tuple(_row(group, groups, columns) for group in groups),
    )


def left_out(groups: list[Group]) -> str:
    """A sentence that names the runs without a summary, to follow a caption; empty if all are done.

    No number of the tables and figures comes from them.
    """
    unfinished = [run for group in groups for run in group.runs if not run.finished]
    if not unfinished:
        return ""
    listed = ", ".join(f"{run.spec.agent} seed {run.seed}" for run in unfinished)
    return f" Not finished, and left out: {listed}."


def solved_text(groups: list[Group]) -> str:
    """Who solved the task in how many seeds, in words."""
    counts = {group.agent: "{} of {}".format(*solved_seeds(group)) for group in groups}
    return "; ".join(f"{agent} in {count}" for agent, count in counts.items())


def solved_seeds(group: Group) -> tuple[int, int]:
    """How many of the finished seeds solved the task, and how many there are."""
    return len(_solved_rounds(group)), len(group.finished)


def certifies(certificate: float | None) -> bool:
    """Whether V-upper - V-lower says anything.

    Without a bonus the two are equal from the first round on. Such a certificate holds for nothing;
    it picks the pair of the last round.
    """
    return certificate is not None and certificate > ROUNDING


def _row(
    group: Group, groups: list[Group], columns: tuple[tuple[str, str], ...]
) -> tuple[str, ...]:
    means = {name: _mean(group, name) for name, _ in columns}
    if not certifies(means.get("certificate")):
        means |= dict.fromkeys(means.keys() & {"certificate"})
    return (
        group.agent,
        _seeds(group, groups),
        *(_number(name, value) for name, value in means.items()),
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
    if name in COUNTS:
        return f"{value:,.0f}"
    if name == "seconds":
        return f"{value:.1f}"
    if name in FRACTIONS:
        return f"{value:.1%}"
    return f"{value:.3g}" if abs(value) > ROUNDING else "0"
