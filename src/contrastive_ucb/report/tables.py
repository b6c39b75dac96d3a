"""Tables as DataFrames of text, and their Markdown, LaTeX and CSV forms.

Cells and sentences may contain `code` and **bold**; templates render them for their format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

import pandas as pd

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.facts.rows import NOTHING as NOTHING
from contrastive_ucb.facts.rows import Row, csv_of
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
NUMBER = re.compile(r"\**[-+]?\d[\d,.]*(e[-+]?\d+)?(%| |\*|$)")
TEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"±": r"$\pm$", NOTHING: "--"}
)
LONG = 30  # letters; longer cells are broken into lines
N_BEST = 2  # agents in bold per row


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=list(header))


def looks(frame: pd.DataFrame) -> list[str]:
    """The CSS classes of each column: "long", "words", or "" for numbers; and "here"."""
    classes = []
    for at, name in enumerate(frame.columns):
        cells = [cell for cell in frame.iloc[:, at] if cell not in ("", NOTHING)]
        look = "words" if at and 2 * sum(map(_is_number, cells)) < len(cells) else ""
        look = "long" if any(len(cell) > LONG for cell in cells) else look
        classes.append(f"{look} here".strip() if "run here" in name else look)
    return classes


def to_markdown(frame: pd.DataFrame) -> str:
    numbers = [at > 0 and look in ("", "here") for at, look in enumerate(looks(frame))]
    marks = ["---:" if number else "---" for number in numbers]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n"
        for row in (frame.columns, marks, *frame.to_numpy())
    )


def markdown_table(frame: pd.DataFrame) -> str:
    """The table in Markdown; its cells are text from run folders."""
    return to_markdown(frame.map(markdown).rename(columns=markdown))


def markdown(text: str) -> str:
    """The text in one line of Markdown, without HTML tags and links."""
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", " ".join(text.split())).replace("](", "]\\(")


def tex(text: str) -> str:
    """The text in one line of LaTeX, without commands."""
    text = " ".join(text.split()).translate(TEX)
    return MARKUP.sub(
        lambda found: f"\\texttt{{{found[1]}}}" if found[1] else f"\\textbf{{{found[2]}}}", text
    )


def number_text(value: float) -> str:
    """Four digits, without an exponent for large numbers."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def with_text(estimates: pd.DataFrame) -> pd.DataFrame:
    """Estimates (value, low, high) with a column `text`, which has the interval if it is known."""
    texts = []
    for value, low, high in estimates[["value", "low", "high"]].values:
        interval = "" if pd.isna(low) else f" [{low:.3f}, {high:.3f}]"
        texts.append(NOTHING if pd.isna(value) else f"{value:.3f}{interval}")
    return estimates.assign(text=texts)


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


def score_table(runs: pd.DataFrame, missing: pd.DataFrame, kind: Kind) -> pd.DataFrame:
    """A row per task and agent: runs, mean with its interval, solved seeds, missing seeds."""
    absent = missing.set_index(["task_name", "agent_name"])["seeds"].to_dict()
    rows = []
    for names, group in runs.groupby(["task_name", "agent_name"], sort=False):
        values = group[shown_column(kind)].to_numpy()
        mean, low, high = (float(one[0]) for one in mean_interval(values[:, None]))
        few = {1: "one run", 2: "two runs"}.get(len(values))
        row = {
            "task": names[0],
            "agent": names[1],
            "runs": str(len(values)),
            "mean": number_text(mean),
            "95% interval": few or f"{number_text(low)} to {number_text(high)}",
            "deviation": number_text(float(values.std(ddof=1))) if len(values) > 1 else NOTHING,
        }
        if kind.name == "atari":
            row["human-normalized"] = f"{group['score'].mean():.4f}"
        if kind.name in ("atari", "deep"):
            row["episodes per run"] = ", ".join(map(str, episodes_of(group))) or NOTHING
        if group["solvable"].eq(True).any():
            row |= _solved_cells(group)
        rows.append(row | {"missing seeds": seeds_text(absent.get(names, ())) or NOTHING})
    frame = pd.DataFrame(rows).fillna(NOTHING)
    return frame[[*(name for name in frame if name != "missing seeds"), "missing seeds"]]


def _solved_cells(group: pd.DataFrame) -> dict[str, str]:
    """How many seeds solved the task, when, and what the runs played in total."""
    count, total = solved_seeds(group)
    cells = {"solved seeds": f"{count} of {total}"}
    if count:
        at = group["solved_at"].dropna()
        cells["first at: median (range)"] = f"{at.median():.0f} ({at.min():.0f} to {at.max():.0f})"
    for unit in ("trajectories", "episodes"):
        if unit in group and (played := group[unit].dropna()).size:
            cells["played"] = f"{played.median():,.0f} {unit}"
            break
    return cells


def solved_seeds(runs: pd.DataFrame) -> tuple[int, int]:
    """The number of runs that solved the task, and of all runs."""
    return int(runs["solved_at"].notna().sum()) if "solved_at" in runs else 0, len(runs)


def episodes_of(runs: pd.DataFrame) -> list[int]:
    """The numbers of episodes of the last evaluations of the runs."""
    counts = runs.get("evaluation.episodes", pd.Series(dtype=float)).dropna()
    return sorted({int(count) for count in counts if count})


def controls_of(runs: pd.DataFrame, kind: Kind) -> dict[str, Mapping[str, Array]]:
    """Stored scores (seeds,) of the controls by task and name; only deep tasks have them."""
    stored = control_scores() if kind.name == "deep" else {}
    envs = {row.task_name: str(row.config.get("env")) for row in runs.itertuples()}
    return {task: stored[env] for task, env in envs.items() if env in stored}


def task_table(runs: pd.DataFrame, kind: Kind) -> pd.DataFrame:
    """A row per task and a column per agent or control, the best two agents in bold."""
    tasks, agents = runs["task_name"].unique(), [one.name for one in scores_by_agent(runs)]
    values = runs.groupby(["task_name", "agent_name"])[shown_column(kind)]
    cells, means = values.agg(_spread).unstack(), kind.sign * values.mean().unstack()
    cells = cells.mask(means.apply(_is_best, axis="columns"), "**" + cells + "**")
    controls = pd.DataFrame(controls_of(runs, kind)).T.map(_spread, na_action="ignore")
    names = [name for name in NAMES.values() if name in controls]
    frame = cells.loc[tasks, agents].join(controls[names]).fillna(NOTHING)
    return frame.rename_axis("task").reset_index()


def aggregate_table(aggregates: pd.DataFrame) -> pd.DataFrame:
    """A row per method, a column per statistic."""
    sources = aggregates["here"].map({True: "run here", False: "published"})
    cells = with_text(aggregates).assign(source=sources)
    keys = ["method", "source", "runs"]
    wide = cells.pivot(index=keys, columns="statistic", values="text").fillna(NOTHING)
    wide = wide.loc[[tuple(key) for key in cells[keys].drop_duplicates().values]]
    wide = wide[[name for name in STATISTICS if name in wide]].reset_index()
    titles = {name: title for name, (title, _) in STATISTICS.items()}
    return wide.rename(columns={**titles, "runs": "runs per task"})


def missing_table(missing: pd.DataFrame) -> pd.DataFrame:
    rows = [[r.task_name, r.agent_name, seeds_text(r.seeds)] for r in missing.itertuples()]
    return table(["task", "agent", "missing seeds"], rows)


def runs_table(runs: pd.DataFrame) -> pd.DataFrame:
    """The groups of runs that were begun, with their hashes and finished seeds."""
    begun = runs[runs["identity"].notna() & (runs["status"] != "planned")]
    rows = [
        [*group[["task_name", "agent_name", "suite", "hash"]].iloc[0],
         seeds_text(finished(group)["seed"]) or NOTHING]
        for _, group in begun.groupby("identity", sort=False)
    ]  # fmt: skip
    return table(["task", "agent", "suite", "hash", "finished seeds"], rows)


def facts_table(facts: Sequence[Row]) -> pd.DataFrame:
    """A row per fact: claim, target, measured value with its interval, state."""
    marks = {"holds": "✓ holds", "does not hold": "✗ does not hold"}
    rows = []
    for row in facts:
        state = marks.get(row.state, row.state) + " (required)" * row.required
        cells = [f"{row.fact} {row.part}".strip(), state, row.claim, row.mark, row.measured]
        rows.append([*cells, row.setting, row.paper, f"{row.seconds:,.1f}"])
    header = ["fact", "state", "claim", "target", "measured", "setting", "paper", "seconds"]
    return table(header, rows)


def summary_table(runs: pd.DataFrame, columns: Mapping[str, Sequence[str]]) -> pd.DataFrame:
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
    return pd.DataFrame(rows)


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
    return csv_of(frame)


def _spread(values: Any) -> str:
    """Mean ± standard deviation (number of runs)."""
    spread = f" ± {number_text(float(values.std(ddof=1)))}" if len(values) > 1 else ""
    return f"{number_text(float(values.mean()))}{spread} ({len(values)})"


def _is_best(means: pd.Series) -> pd.Series:
    """Whether a mean is one of the best, or is printed like one of them; never all of them."""
    best = means.nlargest(min(N_BEST, means.count() - 1))
    return means.map(number_text).isin(best.map(number_text))


def _is_number(cell: str) -> bool:
    """Whether a cell starts with a number and has few letters, such as "3 of 5"."""
    n_letters, n_digits = (sum(map(kind, cell)) for kind in (str.isalpha, str.isdigit))
    return NUMBER.match(cell) is not None and n_letters <= 4 * n_digits
