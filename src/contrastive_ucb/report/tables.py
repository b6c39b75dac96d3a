"""Tables as DataFrames of text, and their Markdown, LaTeX and CSV forms.

Cells and sentences may contain `code` and **bold**; templates render them for their format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

import pandas as pd

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.report.scores import (
    KINDS,
    MIN_RUNS,
    STATISTICS,
    Kind,
    consecutive,
    mean_interval,
    scores_by_agent,
)
from contrastive_ucb.stats.control_scores import NAMES, control_scores

NOTHING = "\N{EN DASH}"  # a value that does not exist
MARKUP = re.compile(r"`([^`]+)`|\*\*(.+?)\*\*")
NUMBER = re.compile(r"[-+]?\d[\d,.]*(e[-+]?\d+)?(%| |$)")
LONG = 30  # letters; longer cells are broken into lines
N_BEST = 2  # agents in bold per row
CSV_COLUMNS = (
    *("suite", "agent", "called", "task", "hash", "seed", "status", "measure", "raw", "score"),
)


@dataclass(frozen=True)
class Table:
    """A table of text with a caption; the last `footer` rows are totals."""

    frame: pd.DataFrame
    caption: str = ""
    footer: int = 0
    name: str = ""  # CSS class

    @property
    def header(self) -> list[str]:
        return list(self.frame.columns)

    @property
    def body(self) -> list[list[str]]:
        rows: list[list[str]] = self.frame.values.tolist()
        return rows

    @property
    def looks(self) -> list[str]:
        """The CSS classes of each column: "long", "words", or "" for numbers; "here"."""
        columns = [_look([row[at] for row in self.body]) for at in range(len(self.header))]
        columns[0] = "long" if columns[0] == "long" else ""
        here = [" here" if "run here" in name else "" for name in self.header]
        return [(look + one).strip() for look, one in zip(columns, here, strict=True)]


def table(header: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> Table:
    return Table(pd.DataFrame(list(rows), columns=list(header)), caption)


def to_markdown(table: Table) -> str:
    numbers = [
        at > 0 and not look.startswith(("words", "long")) for at, look in enumerate(table.looks)
    ]
    marks = ["---:" if number else "---" for number in numbers]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n"
        for row in (table.header, marks, *table.body)
    )


def to_latex(table: Table) -> str:
    """The table for the package booktabs."""
    lines = [" & ".join(map(tex, row)) + " \\\\" for row in (table.header, *table.body)]
    lines.insert(len(lines) - table.footer if table.footer else 1, "\\midrule")
    if table.footer:
        lines.insert(1, "\\midrule")
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            f"\\begin{{tabular}}{{l{'r' * (len(table.header) - 1)}}}",
            "\\toprule",
            *lines,
            "\\bottomrule",
            "\\end{tabular}",
            "",
        ]
    )


def tokens(text: str) -> list[tuple[str, str]]:
    """The text split into ("text" | "code" | "bold", content)."""
    parts, at = [], 0
    for match in MARKUP.finditer(text):
        parts.append(("text", text[at : match.start()]))
        parts.append(("code", match[1]) if match[1] else ("bold", match[2]))
        at = match.end()
    return [part for part in (*parts, ("text", text[at:])) if part[1]]


def tex(text: str) -> str:
    """The text in LaTeX."""
    forms = {"text": "{}", "code": "\\texttt{{{}}}", "bold": "\\textbf{{{}}}"}
    return "".join(forms[kind].format(_escaped(part)) for kind, part in tokens(text))


def number_text(value: float) -> str:
    """Four digits, without an exponent for large numbers."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def estimate_text(value: float | None, low: float | None = None, high: float | None = None) -> str:
    if value is None or pd.isna(value):
        return NOTHING
    if low is None or pd.isna(low):
        return f"{value:.3f}"
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


def seeds_text(seeds: Iterable[int]) -> str:
    """A list of seeds: "0 to 4, 7"."""
    return ", ".join(
        f"{first} to {first + count - 1}"
        if count > 2
        else ", ".join(map(str, range(first, first + count)))
        for first, count in consecutive(seeds)
    )


def shown_column(kind: Kind) -> str:
    """The column that tables show: for MDPs the fraction of V* earned, else the raw number."""
    return "score" if kind.name == "mdp" else "raw"


def score_table(scores: pd.DataFrame, missing: pd.DataFrame, kind: Kind) -> Table:
    """A row per task and agent: runs, mean with its interval, deviation, missing seeds."""
    absent = {(row.task, row.agent): row.seeds for row in missing.itertuples()}
    header = ["task", "agent", "runs", "mean", "95% interval", "deviation"]
    header += ["human-normalized"] * (kind.name == "atari")
    header += ["episodes per run"] * (kind.goal is not None or kind.name == "deep")
    rows = []
    for (task, agent), group in scores.groupby(["task", "agent"], sort=False):
        values = group[shown_column(kind)].to_numpy()
        mean, low, high = (float(one[0]) for one in mean_interval(values[:, None]))
        few = {1: "one run", 2: "two runs"}.get(len(values), "")
        ends = few if len(values) < MIN_RUNS else f"{number_text(low)} to {number_text(high)}"
        spread = number_text(float(values.std(ddof=1))) if len(values) > 1 else NOTHING
        cells = [task, agent, str(len(values)), number_text(mean), ends, spread]
        cells += [f"{group['score'].mean():.4f}"] * (kind.name == "atari")
        if "episodes per run" in header:
            cells.append(", ".join(map(str, episodes_of(group))) or NOTHING)
        rows.append([*cells, seeds_text(absent.get((task, agent), ())) or NOTHING])
    return table([*header, "missing seeds"], rows)


def episodes_of(runs: pd.DataFrame) -> list[int]:
    """The numbers of episodes of the last evaluations of the runs."""
    if "evaluation.episodes" not in runs:
        return []
    return sorted({int(count) for count in runs["evaluation.episodes"].dropna() if count})


def controls_of(scores: pd.DataFrame, kind: Kind) -> dict[str, dict[str, Array]]:
    """Stored scores (seeds,) of the controls by task and name; only deep tasks have them."""
    if kind.name != "deep":
        return {}
    stored = control_scores()
    envs = {row.task: str(row.config.get("env")) for row in scores.itertuples()}
    return {task: dict(stored[env]) for task, env in envs.items() if env in stored}


def task_table(scores: pd.DataFrame, kind: Kind) -> Table:
    """A row per task and a column per agent or control, the best two agents in bold."""
    agents = [one.name for one in scores_by_agent(scores, kind.name)]
    values = {
        key: group.to_numpy()
        for key, group in scores.groupby(["task", "agent"], sort=False)[shown_column(kind)]
    }
    played = controls_of(scores, kind)
    controls = [name for name in NAMES.values() if any(name in one for one in played.values())]
    rows = []
    for task in scores["task"].drop_duplicates():
        runs = [values.get((task, agent)) for agent in agents]
        best = _best([None if one is None else kind.sign * float(one.mean()) for one in runs])
        cells = [
            f"**{_spread(one)}**" if at in best else _spread(one) for at, one in enumerate(runs)
        ]
        rows.append([task, *cells, *(_spread(played.get(task, {}).get(name)) for name in controls)])
    return table(["task", *agents, *controls], rows)


def solved_table(scores: pd.DataFrame) -> Table | None:
    """Seeds that solved each task and what they used until then; None if no task has this."""
    scores = scores[scores["solvable"].eq(True)]
    if scores.empty:
        return None
    rows = []
    for (task, agent), group in scores.groupby(["task", "agent"], sort=False):
        solved, total = solved_seeds(group)
        at = [int(one) for one in group.get("solved_at", pd.Series(dtype=float)).dropna()]
        unit = (
            "trajectories" if group.get("trajectories", pd.Series()).notna().any() else "episodes"
        )
        played = group[unit].dropna().astype(int).tolist() if unit in group else []
        rows.append([
            task, agent, f"{solved} of {total}",
            f"{median(at):.0f} ({min(at)} to {max(at)})" if at else NOTHING,
            f"{median(played):,.0f} {unit} ({min(played):,} to {max(played):,})"
            if played else NOTHING,
        ])  # fmt: skip
    return table(["task", "agent", "solved seeds", "first at: median (range)", "played"], rows)


def solved_seeds(runs: pd.DataFrame) -> tuple[int, int]:
    """The number of runs that solved the task, and of all runs."""
    at = runs.get("solved_at", pd.Series(dtype=float))
    return int(at.notna().sum()), len(runs)


def aggregate_table(aggregates: pd.DataFrame, caption: str = "") -> Table:
    """A row per method, a column per statistic."""
    statistics = [name for name in STATISTICS if name in set(aggregates["statistic"])]
    rows = []
    for method, group in aggregates.groupby("method", sort=False):
        own = group.set_index("statistic")
        source = "run here" if group["here"].iloc[0] else "published"
        cells = [
            estimate_text(*own.loc[name, ["value", "low", "high"]])
            if name in own.index
            else NOTHING
            for name in statistics
        ]
        rows.append([str(method), source, str(group["runs"].iloc[0]), *cells])
    titles = [STATISTICS[name][0] for name in statistics]
    return table(["method", "source", "runs per task", *titles], rows, caption)


def improvement_table(pairs: pd.DataFrame, caption: str = "") -> Table:
    rows = [[r.x, r.y, estimate_text(r.value, r.low, r.high)] for r in pairs.itertuples()]
    return table(["method", "compared with", "probability of improvement"], rows, caption)


def missing_table(missing: pd.DataFrame, caption: str = "") -> Table:
    rows = [[row.task, row.agent, seeds_text(row.seeds)] for row in missing.itertuples()]
    return table(["task", "agent", "missing seeds"], rows, caption)


def runs_table(named: pd.DataFrame, caption: str = "") -> Table:
    """The groups of runs that were begun, with their hashes and finished seeds."""
    rows = []
    known = named[named["identity"].notna()]
    for _, group in known.groupby(["task_name", "agent_name", "identity"], sort=False):
        if (group["status"] == "planned").all():
            continue
        first = group.iloc[0]
        seeds = seeds_text(group.loc[group["status"] == "finished", "seed"]) or NOTHING
        cells = [first["task_name"], first["agent_name"], first["suite"], first["hash"]]
        rows.append([*cells, seeds])
    return table(["task", "agent", "suite", "hash", "finished seeds"], rows, caption)


def facts_table(facts: pd.DataFrame, caption: str = "") -> Table:
    """A row per fact: claim, target, measured value with its interval, state."""
    marks = {"holds": "✓ holds", "does not hold": "✗ does not hold"}
    rows = []
    for fact in facts.to_dict("records"):
        name = f"{fact['fact']} {fact['part']}" if fact.get("part") else fact["fact"]
        state = marks.get(fact["state"], fact["state"]) + " (required)" * fact["required"]
        measured = [name, state, fact["claim"], fact["mark"], measured_text(fact)]
        rows.append([*measured, fact["setting"], fact["paper"], f"{fact['seconds']:,.1f}"])
    header = ["fact", "state", "claim", "target", "measured", "setting", "paper", "seconds"]
    return table(header, rows, caption)


def measured_text(fact: Any) -> str:
    """The measured value of a fact with its interval and unit."""
    if fact["value"] is None or pd.isna(fact["value"]):
        return NOTHING
    text = number_text(fact["value"])
    if fact["low"] is not None and not pd.isna(fact["low"]):
        text += f" [{number_text(fact['low'])}, {number_text(fact['high'])}]"
    return f"{text} {fact['unit']}".strip()


def summary_table(
    runs: pd.DataFrame, columns: dict[str, tuple[str, str]], caption: str = ""
) -> Table:
    """Means over the finished seeds of each agent.

    columns  summary key: (title, format)
    """
    rows = []
    solvable = runs["solvable"].eq(True).any()
    begun = set(runs["seed"])
    for agent, group in runs.groupby("agent_name", sort=False):
        done = group[group["status"] == "finished"]
        absent = seeds_text(begun - set(done["seed"]))
        cells = [
            str(agent),
            f"{len(done)} of {len(begun)} (missing: {absent})" if absent else str(len(done)),
        ]
        for key, (_, form) in columns.items():
            values = done[key].dropna() if key in done else []
            cells.append(format(fmean(values), form) if len(values) else NOTHING)
        if solvable:
            at = done["solved_at"].dropna() if "solved_at" in done else done["seed"][:0]
            cells += [f"{len(at)} of {len(done)}", f"{at.median():,.10g}" if len(at) else NOTHING]
        rows.append(cells)
    titles = [title for title, _ in columns.values()]
    more = ["solved", "at: median"] if solvable else []
    return table(["agent", "seeds", *titles, *more], rows, caption)


def scores_csv(scores: pd.DataFrame, missing: pd.DataFrame, named: pd.DataFrame) -> str:
    """All finished runs with their numbers, then missing and damaged runs."""
    rows = [
        (r.suite, r.agent_id, r.agent, r.task, r.hash, r.seed, "finished", KINDS[r.kind].score,
         repr(r.raw), repr(r.score))
        for r in scores.itertuples()
    ]  # fmt: skip
    damaged = named[named["status"] == "damaged"]
    broken = {(r.group, str(r.seed)): r for r in damaged.itertuples()}
    for r in missing.itertuples():
        for seed in r.seeds:
            status = "damaged" if broken.pop((r.group, str(seed)), None) is not None else "missing"
            own = (r.suite, r.agent_id, r.agent, r.task, r.hash, seed)
            rows.append((*own, status, "", "", ""))
    for r in broken.values():
        own = (r.suite, r.agent, r.agent_name, r.task_name, r.hash, r.seed)
        rows.append((*own, "damaged", "", "", ""))
    frame = pd.DataFrame(rows, columns=list(CSV_COLUMNS))
    return str(frame.to_csv(index=False, lineterminator="\n"))


def _spread(values: Array | None) -> str:
    """Mean ± standard deviation (number of runs)."""
    if values is None:
        return NOTHING
    spread = f" ± {number_text(float(values.std(ddof=1)))}" if len(values) > 1 else ""
    return f"{number_text(float(values.mean()))}{spread} ({len(values)})"


def _best(means: Sequence[float | None]) -> set[int]:
    """The indices of the best means, and of means that are printed alike; never of all."""
    known = {at: value for at, value in enumerate(means) if value is not None}
    chosen = sorted(known.values(), reverse=True)[: min(N_BEST, len(known) - 1)]
    printed = {number_text(value) for value in chosen}
    return {at for at, value in known.items() if number_text(value) in printed}


def _look(cells: Sequence[str]) -> str:
    known = [cell for cell in cells if cell not in ("", NOTHING)]
    if any(len(cell) > LONG for cell in known):
        return "long"
    return "words" if 2 * sum(map(_is_number, known)) < len(known) else ""


def _is_number(cell: str) -> bool:
    """Whether a cell starts with a number and has few letters, such as "3 of 5"."""
    cell = cell.strip("*")
    n_letters, n_digits = (sum(map(kind, cell)) for kind in (str.isalpha, str.isdigit))
    return NUMBER.match(cell) is not None and n_letters <= 4 * n_digits


def _escaped(text: str) -> str:
    for sign in "&%$#_{}":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("±", "$\\pm$").replace(NOTHING, "--")
