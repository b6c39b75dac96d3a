"""The paper's table, games x methods: published numbers and, set apart, those of runs made here.

The best two of the published methods are bold in each row, as in the paper. A number from runs made
here is bold if it would be one of the best two among the published ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.report.aggregates import count_text, runs_text
from contrastive_ucb.report.fair import OURS, PAPER
from contrastive_ucb.report.tables import NOTHING, tex
from contrastive_ucb.stats.aggregate import Scores
from contrastive_ucb.stats.published import atari100k

AVERAGE = "Average"
BEST = 2  # in bold
DIGITS = 4  # as in the paper
CAPTION = (
    "Human-normalised scores on Atari 100K: mean ± standard deviation over runs, where it is known."
    " The number below a method is that of its runs a game. Bold: the best two of the published"
    " methods, and what was run here where it would be one of the best two among them."
)


@dataclass(frozen=True)
class Column:
    """One method; a game without a run is NaN and shown as missing."""

    name: str
    here: bool  # run here, or published
    runs: str  # how many a game
    means: Array  # (games,)
    deviations: Array  # (games,), NaN where unknown
    counts: tuple[int, ...] = ()  # runs of each game, where they differ

    @property
    def average(self) -> float:
        """Over the games; NaN if one is missing: no number stands for a run that is not there."""
        return float(self.means.mean())

    @property
    def spread(self) -> float:
        """The mean of the deviations, as the last row of the paper has it."""
        return float(self.deviations.mean())


@dataclass(frozen=True)
class Cell:
    """A number of the table, ready to be written."""

    value: float  # NaN: missing
    spread: float  # NaN: unknown
    bold: bool
    here: bool
    count: int | None = None  # its runs, where they differ from those of the column

    @property
    def missing(self) -> bool:
        return bool(np.isnan(self.value))

    @property
    def mean(self) -> str:
        return NOTHING if self.missing else f"{self.value:.{DIGITS}f}"

    @property
    def deviation(self) -> str:
        return "" if np.isnan(self.spread) else f"{self.spread:.2f}"


def published_columns() -> list[Column]:
    """The eight methods of the paper, in its order."""
    table = atari100k()
    unknown = np.full(len(table.games), np.nan)
    columns = []
    for name in PAPER:
        method = table.methods[name]
        spread = unknown if method.deviations is None else method.deviations
        # The published SPR-UCB used the released code, whose bonus is the preset `reference`.
        shown = f"{name} (released code)" if name == OURS else name
        columns.append(Column(shown, False, str(method.n_runs), method.scores, spread))
    return columns


def run_columns(scores: Sequence[Scores]) -> list[Column]:
    """What was run here: human-normalised scores of games; some games may be missing."""
    games = atari100k().games
    columns = []
    for one in scores:
        runs = dict(zip(one.tasks, one.runs, strict=True))
        found = [runs.get(game, np.empty(0)) for game in games]
        means = [r.mean() if r.size else np.nan for r in found]
        spread = [r.std(ddof=1) if r.size > 1 else np.nan for r in found]
        counts = tuple(len(r) for r in found)
        uneven = counts if len({*counts} - {0}) > 1 else ()
        text = count_text(one)
        columns.append(Column(one.name, True, text, np.array(means), np.array(spread), uneven))
    return columns


def cells(columns: Sequence[Column]) -> list[tuple[str, list[Cell]]]:
    """The rows of the table: each game, and the average."""
    rows = []
    for at, game in enumerate(atari100k().games):
        values = [float(column.means[at]) for column in columns]
        spreads = [float(column.deviations[at]) for column in columns]
        counts = [column.counts[at] if column.counts else None for column in columns]
        rows.append((game, _row(columns, values, spreads, counts)))
    averages, spreads = [c.average for c in columns], [c.spread for c in columns]
    rows.append((AVERAGE, _row(columns, averages, spreads, [None] * len(columns))))
    return rows


def to_markdown(columns: Sequence[Column]) -> str:
    """The table as Markdown; its header says which columns were run here."""
    head = [f"{c.name}{' (run here)' * c.here}, {runs_text(c.runs)}" for c in columns]
    lines = [["game", *head], ["---", *["---:"] * len(columns)]]
    for game, row in cells(columns):
        lines.append([game, *(_markdown(cell) for cell in row)])
    return "".join(
        "| " + " | ".join(word.replace("|", "\\|") for word in line) + " |\n" for line in lines
    )


def to_latex(columns: Sequence[Column]) -> str:
    """The table as LaTeX, for the packages booktabs and graphicx."""
    n_here = sum(column.here for column in columns)
    groups = [f"\\multicolumn{{{len(columns) - n_here}}}{{c}}{{published}}"]
    groups += [f"\\multicolumn{{{n_here}}}{{|c}}{{run here}}"] if n_here else []
    kinds = "r" * (len(columns) - n_here) + ("|" + "r" * n_here if n_here else "")
    body = [
        f"{tex(game)} & " + " & ".join(_latex(cell) for cell in row) + " \\\\"
        for game, row in cells(columns)
    ]
    return "\n".join(
        [
            "% needs \\usepackage{booktabs,graphicx}",
            "\\begin{table}",
            f"\\caption{{{tex(CAPTION)}}}",
            "\\centering",
            "\\resizebox{\\textwidth}{!}{%",
            f"\\begin{{tabular}}{{l{kinds}}}",
            "\\toprule",
            f" & {' & '.join(groups)} \\\\",
            f" & {' & '.join(tex(column.name) for column in columns)} \\\\",
            f"runs a game & {' & '.join(tex(column.runs) for column in columns)} \\\\",
            "\\midrule",
            *body[:-1],
            "\\midrule",
            body[-1],
            "\\bottomrule",
            "\\end{tabular}}",
            "\\end{table}",
            "",
        ]
    )


def to_html(columns: Sequence[Column]) -> str:
    """The table in a box that scrolls sideways; its columns sort when their names are pressed."""
    *games, average = cells(columns)
    body = "".join(_html_row(name, row, columns) for name, row in games)
    foot = _html_row(*average, columns)
    return (
        '<figure class="wide">\n<div class="scroll" tabindex="0">\n<table class="games">\n'
        f"<thead>\n{_html_head(columns)}</thead>\n<tbody>\n{body}</tbody>\n"
        f"<tfoot>\n{foot}</tfoot>\n</table>\n</div>\n"
        f"<figcaption>{escape(CAPTION)} Press a name to sort by it.</figcaption>\n</figure>\n"
    )


def _row(
    columns: Sequence[Column],
    values: Sequence[float],
    spreads: Sequence[float],
    counts: Sequence[int | None],
) -> list[Cell]:
    known = [round(v, DIGITS) for c, v in zip(columns, values, strict=True) if not c.here]
    least = sorted(known, reverse=True)[BEST - 1]  # what is printed alike is bold alike
    return [
        Cell(value, spread, bool(round(value, DIGITS) >= least), column.here, count)
        for column, value, spread, count in zip(columns, values, spreads, counts, strict=True)
    ]


def _markdown(cell: Cell) -> str:
    text = f"**{cell.mean}**" if cell.bold else cell.mean
    text += f" ± {cell.deviation}" if cell.deviation else ""
    return text + (f" ({cell.count})" if cell.count else "")


def _latex(cell: Cell) -> str:
    mean = tex(cell.mean)
    text = f"\\textbf{{{mean}}}" if cell.bold else mean
    text += f" {{\\scriptsize $\\pm${cell.deviation}}}" if cell.deviation else ""
    return text + (f" {{\\scriptsize ({cell.count})}}" if cell.count else "")


def _html_head(columns: Sequence[Column]) -> str:
    n_here = sum(column.here for column in columns)
    groups = f'<th></th><th class="group" scope="colgroup" colspan="{len(columns) - n_here}">'
    groups += "published</th>"
    if n_here:
        groups += f'<th class="group here edge" scope="colgroup" colspan="{n_here}">run here</th>'
    names = '<th scope="col">game</th>'
    for at, column in enumerate(columns):
        names += (
            f'<th scope="col"{_class(columns, at)}>{escape(column.name)}<br>'
            f"<small>{escape(runs_text(column.runs))}</small></th>"
        )
    return f"<tr>{groups}</tr>\n<tr>{names}</tr>\n"


def _html_row(name: str, row: Sequence[Cell], columns: Sequence[Column]) -> str:
    parts = [f'<tr><th scope="row" data-value="{escape(name)}">{escape(name)}</th>']
    for at, cell in enumerate(row):
        text = f"<strong>{cell.mean}</strong>" if cell.bold else cell.mean
        text += f" <small>± {cell.deviation}</small>" if cell.deviation else ""
        text += f" <small>({cell.count})</small>" if cell.count else ""
        value = "" if cell.missing else f"{cell.value:.6g}"
        parts.append(f'<td{_class(columns, at)} data-value="{value}">{text}</td>')
    return "".join(parts) + "</tr>\n"


def _class(columns: Sequence[Column], at: int) -> str:
    """Columns that were run here have a ground of their own, the first of them also an edge."""
    if not columns[at].here:
        return ""
    return ' class="here edge"' if at and not columns[at - 1].here else ' class="here"'
