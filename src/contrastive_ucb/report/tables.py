"""Tables as DataFrames of text, and their Markdown, LaTeX and CSV forms.

Cells and sentences may contain `code` and **bold**; templates render them for their format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import pandas as pd

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.facts.rows import NOTHING as NOTHING
from contrastive_ucb.facts.rows import Row
from contrastive_ucb.report.scores import (
    KINDS,
    STATISTICS,
    Kind,
    finished,
    mean_interval,
    scores_by_agent,
)
from contrastive_ucb.runs.spec import consecutive
from contrastive_ucb.stats.control_scores import NAMES, control_scores

MARKUP = re.compile(r"`([^`]+)`|\*\*(.+?)\*\*")
NUMBER = re.compile(r"[-+]?\d[\d,.]*(e[-+]?\d+)?(%| |$)")
LONG = 30  # letters; longer cells are broken into lines
N_BEST = 2  # agents in bold per row


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
        for first, count in consecutive(list(seeds))
    )


def shown_column(kind: Kind) -> str:
    """The column that tables show: for MDPs the fraction of V* earned, else the raw number."""
    return "score" if kind.name == "mdp" else "raw"


def score_table(runs: pd.DataFrame, missing: pd.DataFrame, kind: Kind) -> Table:
    """A row per task and agent: runs, mean with its interval, deviation, missing seeds."""
    absent = missing.set_index(["task_name", "agent_name"])["seeds"].to_dict()
    has_episodes = kind.name in ("atari", "deep")
    rows = []
    for names, group in runs.groupby(["task_name", "agent_name"], sort=False):
        values = group[shown_column(kind)].to_numpy()
        mean, low, high = (float(one[0]) for one in mean_interval(values[:, None]))
        few = {1: "one run", 2: "two runs"}.get(len(values))
        rows.append({
            "task": names[0],
            "agent": names[1],
            "runs": str(len(values)),
            "mean": number_text(mean),
            "95% interval": few or f"{number_text(low)} to {number_text(high)}",
            "deviation": number_text(float(values.std(ddof=1))) if len(values) > 1 else NOTHING,
            "human-normalized": f"{group['score'].mean():.4f}",
            "episodes per run": ", ".join(map(str, episodes_of(group))) or NOTHING,
            "missing seeds": seeds_text(absent.get(names, ())) or NOTHING,
        })  # fmt: skip
    hidden = [] if kind.name == "atari" else ["human-normalized"]
    hidden += [] if has_episodes else ["episodes per run"]
    return Table(pd.DataFrame(rows).drop(columns=hidden))


def episodes_of(runs: pd.DataFrame) -> list[int]:
    """The numbers of episodes of the last evaluations of the runs."""
    counts = runs.get("evaluation.episodes", pd.Series(dtype=float)).dropna()
    return sorted({int(count) for count in counts if count})


def controls_of(runs: pd.DataFrame, kind: Kind) -> dict[str, Mapping[str, Array]]:
    """Stored scores (seeds,) of the controls by task and name; only deep tasks have them."""
    stored = control_scores() if kind.name == "deep" else {}
    envs = {row.task_name: str(row.config.get("env")) for row in runs.itertuples()}
    return {task: stored[env] for task, env in envs.items() if env in stored}


def task_table(runs: pd.DataFrame, kind: Kind) -> Table:
    """A row per task and a column per agent or control, the best two agents in bold."""
    agents = [one.name for one in scores_by_agent(runs)]
    values = dict(list(runs.groupby(["task_name", "agent_name"])[shown_column(kind)]))
    played = controls_of(runs, kind)
    controls = [name for name in NAMES.values() if any(name in one for one in played.values())]
    rows = []
    for task in runs["task_name"].drop_duplicates():
        own = [values.get((task, agent)) for agent in agents]
        best = _best([None if one is None else kind.sign * one.mean() for one in own])
        cells = [f"**{_spread(v)}**" if at in best else _spread(v) for at, v in enumerate(own)]
        rows.append([task, *cells, *(_spread(played.get(task, {}).get(name)) for name in controls)])
    return table(["task", *agents, *controls], rows)


def solved_table(runs: pd.DataFrame) -> Table | None:
    """Seeds that solved each task and what they used until then; None if no task has this."""
    rows = []
    for names, group in runs[runs["solvable"].eq(True)].groupby(
        ["task_name", "agent_name"], sort=False
    ):
        solved, total = solved_seeds(group)
        at = group["solved_at"].dropna() if solved else group["seed"][:0]
        unit = "trajectories" if "trajectories" in group.dropna(axis=1) else "episodes"
        played = group[unit].dropna() if unit in group else at[:0]
        rows.append([
            *names, f"{solved} of {total}",
            f"{at.median():.0f} ({at.min():.0f} to {at.max():.0f})" if solved else NOTHING,
            f"{played.median():,.0f} {unit} ({played.min():,.0f} to {played.max():,.0f})"
            if len(played) else NOTHING,
        ])  # fmt: skip
    header = ["task", "agent", "solved seeds", "first at: median (range)", "played"]
    return table(header, rows) if rows else None


def solved_seeds(runs: pd.DataFrame) -> tuple[int, int]:
    """The number of runs that solved the task, and of all runs."""
    return int(runs["solved_at"].notna().sum()) if "solved_at" in runs else 0, len(runs)


def aggregate_table(aggregates: pd.DataFrame, caption: str = "") -> Table:
    """A row per method, a column per statistic."""
    texts = [estimate_text(*row) for row in aggregates[["value", "low", "high"]].values]
    sources = aggregates["here"].map({True: "run here", False: "published"})
    cells = aggregates.assign(text=texts, source=sources)
    keys = ["method", "source", "runs"]
    wide = cells.pivot(index=keys, columns="statistic", values="text").fillna(NOTHING)
    wide = wide.loc[[tuple(key) for key in cells[keys].drop_duplicates().values]]
    wide = wide[[name for name in STATISTICS if name in wide]].reset_index()
    titles = {name: title for name, (title, _) in STATISTICS.items()}
    return Table(wide.rename(columns={**titles, "runs": "runs per task"}), caption)


def improvement_table(pairs: pd.DataFrame, caption: str = "") -> Table:
    rows = [[r.x, r.y, estimate_text(r.value, r.low, r.high)] for r in pairs.itertuples()]
    return table(["method", "compared with", "probability of improvement"], rows, caption)


def missing_table(missing: pd.DataFrame, caption: str = "") -> Table:
    rows = [[r.task_name, r.agent_name, seeds_text(r.seeds)] for r in missing.itertuples()]
    return table(["task", "agent", "missing seeds"], rows, caption)


def runs_table(runs: pd.DataFrame, caption: str = "") -> Table:
    """The groups of runs that were begun, with their hashes and finished seeds."""
    begun = runs[runs["identity"].notna() & (runs["status"] != "planned")]
    rows = [
        [*group[["task_name", "agent_name", "suite", "hash"]].iloc[0],
         seeds_text(finished(group)["seed"]) or NOTHING]
        for _, group in begun.groupby("identity", sort=False)
    ]  # fmt: skip
    return table(["task", "agent", "suite", "hash", "finished seeds"], rows, caption)


def facts_table(facts: Sequence[Row], caption: str = "") -> Table:
    """A row per fact: claim, target, measured value with its interval, state."""
    marks = {"holds": "✓ holds", "does not hold": "✗ does not hold"}
    rows = []
    for row in facts:
        state = marks.get(row.state, row.state) + " (required)" * row.required
        cells = [f"{row.fact} {row.part}".strip(), state, row.claim, row.mark, row.measured]
        rows.append([*cells, row.setting, row.paper, f"{row.seconds:,.1f}"])
    header = ["fact", "state", "claim", "target", "measured", "setting", "paper", "seconds"]
    return table(header, rows, caption)


def summary_table(
    runs: pd.DataFrame, columns: Mapping[str, tuple[str, str]], caption: str = ""
) -> Table:
    """Means over the finished seeds of each agent.

    columns  summary key: (title, format)
    """
    rows, seeds = [], set(runs["seed"])
    for agent, group in runs.groupby("agent", sort=False):
        done = finished(group)
        absent = seeds_text(seeds - set(done["seed"]))
        count = f"{len(done)} of {len(seeds)} (missing: {absent})" if absent else str(len(done))
        row = {"agent": str(agent), "seeds": count}
        for key, (title, form) in columns.items():
            values = done[key].dropna() if key in done else []
            row[title] = format(fmean(values), form) if len(values) else NOTHING
        if runs["solvable"].eq(True).any():
            solved, total = solved_seeds(done)
            row["solved"] = f"{solved} of {total}"
            row["at: median"] = f"{done['solved_at'].median():,.10g}" if solved else NOTHING
        rows.append(row)
    return Table(pd.DataFrame(rows), caption)


def scores_csv(runs: pd.DataFrame, missing: pd.DataFrame) -> str:
    """All finished runs with their numbers, then missing and damaged runs."""
    names = ["suite", "agent", "agent_name", "task_name", "hash", "seed"]
    done = finished(runs)[[*names, "status", "kind", "raw", "score"]]
    done = done.assign(kind=done["kind"].map({name: one.score for name, one in KINDS.items()}))
    absent = missing.explode("seeds").rename(columns={"seeds": "seed"})
    damaged = runs[runs["status"] == "damaged"]
    others = pd.concat([absent.assign(status="missing"), damaged])
    others = others.drop_duplicates(["group", "seed"], keep="last")  # damaged, if it is both
    frame = pd.concat([done, others.reindex(columns=[*names, "status"])])
    frame = frame.rename(columns={"agent_name": "called", "task_name": "task", "kind": "measure"})
    return str(frame.to_csv(index=False, lineterminator="\n"))


def _spread(values: Any) -> str:
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
