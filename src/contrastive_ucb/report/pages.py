"""Pages from data: the report of a folder of runs, and the paper's table and figures.

A page is a template of its content (`report.j2`, `reproduce.j2`, `demo.j2`), which calls the macros
of a format (`macros.html.j2`, `.md`, `.tex`) and gets data from the functions below.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from contrastive_ucb.core.runtime import versions
from contrastive_ucb.report import atari, plots, scores
from contrastive_ucb.report import tables as tab
from contrastive_ucb.report.load import Loaded, read_facts
from contrastive_ucb.report.scores import FEW_RUNS, KINDS, RETURN, Kind, finished, missing_runs
from contrastive_ucb.stats.aggregate import Scores

FINITE_CURVES = {
    "gap": "gap of the policy",
    "zeta": "model error zeta",
    "losses/contrastive": "contrastive loss",
}


def render(name: str, suffix: str = ".html", **data: Any) -> str:
    """The page of the template `name` as .html, .md or .tex; the same data gives the same bytes."""
    env = Environment(
        loader=PackageLoader("contrastive_ucb.report"),
        autoescape=suffix == ".html",
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {"inline": inline, "line": lambda text: " ".join(text.split()), "tex": tab.tex}
    env.filters |= {
        "markdown": tab.markdown,
        "markdown_table": tab.markdown_table,
        "looks": tab.looks,
        "facts_table": tab.facts_table,
    }
    env.filters |= {"runs_text": scores.runs_text}
    for module in (scores, plots, tab, atari):
        env.globals |= {key: value for key, value in vars(module).items() if key.isupper()}
    assert env.loader is not None
    script = env.loader.get_source(env, "sort.js")[0]
    return env.get_template(f"{name}.j2").render(
        base=f"page{suffix}.j2",
        macros=f"macros{suffix}.j2",
        draw=suffix == ".html",
        versions=versions(("numpy", "scipy", "matplotlib")),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        **data,
    )


def inline(text: str) -> Markup:
    """The text as HTML, with its `code` and **bold**."""
    return Markup(
        tab.MARKUP.sub(
            lambda found: (
                f"<code>{found[1]}</code>" if found[1] else f"<strong>{found[2]}</strong>"
            ),
            escape(text),
        )
    )


# --- Report ---------------------------------------------------------------------------------------


def report_files(loaded: Loaded, out: Path, command: str, facts: Path | None) -> dict[Path, str]:
    """The page or its tables, by the suffix of `out`, and the scores as CSV.

    loaded  runs with scores, see `load_scores`
    """
    runs, missing, draw = loaded.runs, missing_runs(loaded.runs), out.suffix == ".html"
    csv, beside = tab.scores_csv(runs, missing), out.with_suffix(".csv")
    begun, by_kind = runs[runs["status"] != "planned"], finished(runs).groupby("kind")
    kinds = [
        _kind_data(by_kind.get_group(name), loaded.curves, missing, kind, draw)
        for name, kind in KINDS.items()
        if name in by_kind.groups
    ]
    page = render(
        "report",
        out.suffix,
        title="Report of runs",
        counts=counts_of(loaded),
        n_agents=begun["agent_name"].nunique(),
        n_tasks=begun["task_name"].nunique(),
        kinds=kinds,
        facts=read_facts(loaded.root, facts),
        missing=missing_data(missing, loaded.problems) if len(runs) else None,
        csv=beside.name,
        digest=hashlib.sha256(csv.encode()).hexdigest(),
        runs_table=tab.runs_table(runs),
        made_with=sorted(set(finished(runs)["versions"].fillna("versions not recorded"))),
        command=command,
    )
    return {beside: csv, out: page}


def counts_of(loaded: Loaded) -> dict[str, int]:
    """The numbers of finished, missing and damaged runs."""
    missing = missing_runs(loaded.runs)["seeds"].map(len).sum()
    n_finished = len(finished(loaded.runs))
    return {"finished": n_finished, "missing": int(missing), "damaged": len(loaded.problems)}


def missing_data(missing: pd.DataFrame, problems: Sequence[str]) -> dict[str, Any]:
    """Missing and damaged runs with the commands that complete them."""
    return {
        "n_runs": int(missing["seeds"].map(len).sum()),
        "table": tab.missing_table(missing),
        "problems": problems,
        "commands": list(dict.fromkeys(line for lines in missing["commands"] for line in lines)),
        "is_complete": all(missing["commands"]),
    }


def comparison_data(shared: Sequence[Scores], kind: Kind, draw: bool) -> dict[str, Any] | None:
    """Performance profiles and probabilities of improvement of methods on the same tasks."""
    if not shared or not draw:
        return None
    pairs = tab.with_text(scores.improvements(shared, kind.sign))
    return {
        "kind": kind,
        "tasks": shared[0].tasks,
        "names": [one.name for one in shared],
        "least": _least(shared),
        "profile": plots.to_svg(plots.profile_figure(shared, kind.score)),
        "improvement": plots.to_svg(plots.improvement_figure(pairs)) if len(pairs) else "",
        "pairs": "; ".join(pairs["x"] + " over " + pairs["y"] + " " + pairs["text"]),
    }


def _kind_data(
    own: pd.DataFrame, curves: pd.DataFrame, missing: pd.DataFrame, kind: Kind, draw: bool
) -> dict[str, Any]:
    """Curves, scores, and comparisons of the runs of one kind."""
    by_agent, is_atari = scores.scores_by_agent(own), kind.name == "atari"
    shared = scores.comparable(by_agent)
    has_several_tasks = bool(shared) and len(shared[0].tasks) > 1
    aggregates = scores.aggregate(shared, kind.goal) if has_several_tasks else None
    tasks, n_agents = tab.task_table(own, kind), own["agent_name"].nunique()
    return {
        "kind": kind,
        "shown": kind.score if kind.name == "mdp" else kind.raw,
        "least": _least(by_agent),
        "curves": _curves(own, curves, kind) if draw else [],
        "scores": tab.score_table(own, missing, kind),
        "other_episodes": atari.other_episodes(own) if is_atari else [],
        "games": atari.games_table(scores.scores_by_agent(atari.as_games(own)))
        if is_atari else None,
        "tasks": tasks if tasks.shape[1] > 2 and not is_atari else None,
        "n_agents": n_agents,
        "has_controls": n_agents + 1 < tasks.shape[1],
        "aggregates": None if aggregates is None else figure_data(
            aggregates, plots.aggregates_figure(aggregates, kind.score) if draw else None
        ),
        "n_tasks": len(shared[0].tasks) if shared else 0,
        "left_out": [one.name for one in by_agent if one.name not in {s.name for s in shared}],
        "comparison": comparison_data(
            shared if has_several_tasks or len(shared) > 1 else [], kind, draw
        ),
    }  # fmt: skip


def _least(methods: Sequence[Scores]) -> int:
    """The fewest runs of a task."""
    return min((int(one.n_runs.min()) for one in methods), default=FEW_RUNS)


def _curves(own: pd.DataFrame, measured: pd.DataFrame, kind: Kind) -> list[dict[str, Any]]:
    """A figure per measurement, with a panel per task."""
    finite = kind.curve != RETURN
    tags = {kind.curve: kind.raw} | FINITE_CURVES if finite else {RETURN: "training return"}
    agents = [one.name for one in scores.scores_by_agent(own)]
    levels = {
        task: {name: float(values.mean()) for name, values in played.items()}
        for task, played in tab.controls_of(own, kind).items()
    }
    figures = []
    for tag, label in (tags | {"bonus/mean": "mean bonus"}).items():
        values = measured[measured["tag"] == tag]
        curves: dict[str, Any] = {}
        for (task, agent), group in own.groupby(["task_name", "agent_name"], sort=False):
            steps, lines = scores.curve_of(values, list(group["run"]), tag)
            if steps.size:
                curves.setdefault(task, {})[agent] = steps, lines
        if curves:
            labels: Any = {"xlabel": "rounds" if finite else "steps", "ylabel": label}
            shown = levels if tag == RETURN else None
            styles = plots.palette(agents)
            figure = plots.panels(curves, styles=styles, log=finite, levels=shown, **labels)
            data = {"svg": plots.to_svg(figure), "tasks": list(curves), "log": finite}
            figures.append({**labels, **data, "is_return": tag == RETURN})
    return figures


def figure_data(aggregates: pd.DataFrame, figure: Figure | None) -> dict[str, Any]:
    """A figure of aggregates, its description for screen readers, and the table of its numbers."""
    means = tab.with_text(aggregates[aggregates["statistic"] == "mean"])
    return {
        "svg": "" if figure is None else plots.to_svg(figure),
        "alt": f"Means: {'; '.join(means['method'] + ' ' + means['text'])}.",
        "table": tab.aggregate_table(aggregates),
    }


# --- Table and figures of the paper ---------------------------------------------------------------


def reproduced_figure(what: str, own: atari.OwnRuns) -> Figure:
    """The figure "figure-mean" or "figure-aggregates"."""
    aggregates, label = atari.aggregates_of(what, own), KINDS["atari"].score
    if what == "figure-mean":
        return plots.mean_figure(aggregates, "Mean over 26 games", label)
    return plots.aggregates_figure(aggregates, label)


def reproduced_page(what: str, own: atari.OwnRuns, command: str, suffix: str) -> str:
    """The page of the table or of a figure as .html, .md or .tex."""
    draw, kind = suffix == ".html", KINDS["atari"]
    main, some = None, None
    if what != "table":
        figure = reproduced_figure(what, own) if draw else None
        main = figure_data(atari.aggregates_of(what, own), figure)
    if draw and own.shared and len(own.complete) < len(own.scores):
        games = own.shared[0].tasks
        both = [atari.published_means(games), scores.aggregate(own.shared)]
        means = pd.concat(both, ignore_index=True)
        title = f"Mean over {len(games)} of 26 games"
        some = figure_data(means, plots.mean_figure(means, title, kind.score)) | {"games": games}
    shown = own.scores if what == "table" else own.complete
    return render(
        "reproduce",
        suffix,
        what=what,
        main=main,
        games=atari.games_table(own.scores),
        sources=atari.sources(),
        own=shown,
        episodes={name: tab.episodes_of(runs) for name, runs in own.runs.groupby("agent_name")},
        left_out=[one.name for one in own.scores if one.name not in {s.name for s in shown}],
        least=_least(own.scores),
        other_episodes=atari.other_episodes(own.runs),
        significance=atari.significance(),
        some=some,
        comparison=comparison_data(own.shared, kind, draw),
        has_runs=bool(own.scores or len(own.missing) or own.problems),
        missing=missing_data(own.missing, own.problems),
        command=command,
    )
