"""The paper's table and figures on Atari 100K: published numbers and, apart from them, own runs.

The best two published methods are bold in each row, as in the paper. A number of own runs is bold
if it would be among the best two published ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.report import tables as tab
from contrastive_ucb.report.load import COLUMNS
from contrastive_ucb.report.pages import (
    Illustration,
    Section,
    episodes_text,
    few_runs_text,
    improvement_section,
    means_text,
    missing_section,
    profile_section,
    render,
)
from contrastive_ucb.report.plots import aggregates_figure, mean_figure, to_svg
from contrastive_ucb.report.scores import (
    AGGREGATES,
    KINDS,
    MIN_RUNS,
    RESAMPLES,
    aggregate,
    commands_of,
    finished,
    load_scores,
    missing_runs,
    on_shared_tasks,
    runs_text,
    score_runs,
    scores_by_agent,
    sorted_gaps,
    with_settings,
)
from contrastive_ucb.report.tables import Table
from contrastive_ucb.runs.spec import RunSpec
from contrastive_ucb.stats.aggregate import Scores
from contrastive_ucb.stats.published import Method, atari100k, game_of, printed_aggregates

ATARI = KINDS["atari"]
PAPER = ("CURL", "OTR", "DER", "SimPLe", "DrQ", "DrQ(eps)", "SPR", "SPR-UCB")  # its column order
OURS, BASE = "SPR-UCB", "SPR"
STEPS = 100_000
RELEASED = {"bonus.preset": "reference", "bonus.scale": 0.0}  # SPR as in the released code
LEVEL = 0.05  # of Welch's tests
DIGITS = 4  # of the table, as in the paper
MIN_DEVIATION = 0.005  # smaller deviations are printed as 0.00
TITLES = {
    "table": "Atari 100K, game by game",
    "figure-mean": "Atari 100K: mean human-normalized score",
    "figure-aggregates": "Atari 100K: aggregates with intervals",
}
ABOUT = {
    "table": "The table of the Contrastive UCB paper (appendix, additional experimental results):"
    " human-normalized scores of eight methods on the 26 games of Atari 100K.",
    "figure-mean": "The bar chart of the Contrastive UCB paper: the mean human-normalized score of"
    " eight methods over the 26 games of Atari 100K, from the paper's table.",
    "figure-aggregates": "The aggregates of the Contrastive UCB paper: median, interquartile mean"
    " (IQM), mean and optimality gap over the 26 games of Atari 100K with 95% intervals. The paper"
    " prints only the mean of SPR-UCB; its median follows from the paper's table. Neither has an"
    " interval.",
}
NOTHING_RUN = "Nothing was run here: all numbers are published ones."
CAPTION = (
    "Human-normalized scores on Atari 100K: mean ± standard deviation over runs, if known, with the"
    " number of runs per game in the header. Bold: the best two published methods, and own runs"
    " that would be among them."
)


@dataclass(frozen=True)
class OwnRuns:
    """The runs of Atari 100K in a folder: finished runs, missing runs, problems of damaged ones."""

    runs: pd.DataFrame
    missing: pd.DataFrame
    problems: Sequence[str] = ()

    @cached_property
    def scores(self) -> list[Scores]:
        return scores_by_agent(self.runs)

    @property
    def complete(self) -> list[Scores]:
        """The agents with runs of all 26 games, which figures show next to published numbers."""
        return [one for one in self.scores if one.tasks == atari100k().games]

    @property
    def shared(self) -> list[Scores]:
        return on_shared_tasks(self.scores) if self.scores else []


def own_runs(root: Path | None) -> OwnRuns:
    """The runs of the 26 games below `root`, and those that are missing."""
    if root is None:
        nothing = score_runs(pd.DataFrame(columns=list(COLUMNS)))
        return OwnRuns(nothing, missing_runs(nothing))
    loaded = load_scores(root)
    games = as_games(loaded.runs.dropna(subset=["identity"]))
    names = games.drop_duplicates("identity")[["identity", "task_name", "agent_name"]]
    gaps = missing_runs(loaded.runs).drop(columns=["task_name", "agent_name"])
    gaps = gaps.merge(names, on="identity")
    others = [row for row in _missing_games(games) if row["identity"] not in set(gaps["identity"])]
    if others:
        gaps = pd.concat([gaps, pd.DataFrame(others)], ignore_index=True)
    return OwnRuns(finished(games), sorted_gaps(gaps), loaded.problems)


def as_games(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs of the 26 games under the names of the games.

    SPR-UCB is named with its bonus, and runs of another length than Atari 100K with their steps.
    """
    games = runs.assign(task_name=runs["task"].map(game_of)).dropna(subset=["task_name"])
    games["agent_name"] = [_agent_name(row) for row in games.to_dict("records")]
    for (agent, game), group in games.groupby(["agent_name", "task_name"]):
        if group["identity"].nunique() > 1:
            folders = ", ".join(group["group"].drop_duplicates())
            raise UserError(
                f"{agent} has several settings of {game} ({folders}); move one of these folders"
                " elsewhere"
            )
    return games


def games_section(runs: pd.DataFrame) -> Section:
    """The paper's table with the runs of the 26 games."""
    table = games_table(scores_by_agent(as_games(runs)))
    return Section("Comparison with published scores", tables=(table,), notes=tuple(source_notes()))


def games_table(own: Sequence[Scores]) -> Table:
    """Games x methods, with the average over games as the last row."""
    table = atari100k()
    columns: dict[str, list[str]] = {}
    published: list[np.ndarray] = []
    for name in PAPER:
        method = table.methods[name]
        published.append(np.append(method.scores, method.scores.mean()).round(DIGITS))
    threshold = np.sort(published, axis=0)[-2]  # of the best two
    for name in PAPER:
        method = table.methods[name]
        spread = np.full(26, np.nan) if method.deviations is None else method.deviations
        # The published scores of SPR-UCB come from the released code, preset `reference`.
        title = f"{name} (released code)" if name == OURS else name
        columns[f"{title}, {method.n_runs} runs"] = _cells(method.scores, spread, None, threshold)
    for one in own:
        by_game = dict(zip(one.tasks, one.runs, strict=True))
        runs = [by_game.get(game, np.empty(0)) for game in table.games]
        means = np.array([one.mean() if one.size else np.nan for one in runs])
        spread = np.array([one.std(ddof=1) if one.size > 1 else np.nan for one in runs])
        counts = (
            [len(one) for one in runs] if len({len(one) for one in runs if one.size}) > 1 else None
        )
        count = runs_text(one)
        title = f"{one.name} (run here), {count} run{'s' * (count != '1')}"
        columns[title] = _cells(means, spread, counts, threshold)
    frame = pd.DataFrame({"game": [*table.games, "Average"], **columns})
    return Table(frame, CAPTION, footer=1, name="games")


def source_notes(aggregates: bool = True) -> list[str]:
    """The runs that the published numbers of each method come from."""
    notes = [
        f"{OURS}: {_n_runs(OURS)} runs per game by the authors of the paper with their released"
        " code. That code computes the bonus as the preset `reference` does, not as the paper"
        " describes it (`paper`), so compare these numbers with SPR-UCB (reference)."
    ]
    for count in sorted({_n_runs(name) for name in PAPER if name != OURS}, reverse=True):
        names = [name for name in PAPER if name != OURS and _n_runs(name) == count]
        source = "released with Agarwal et al. (2021)"
        notes.append(f"{', '.join(names)}: {count} runs per game, {source}.")
    if aggregates:
        printed = {e.method for e in printed_aggregates() if e.runs == "10" and e.low is not None}
        names = [name for name in PAPER if name in printed]
        notes.append(
            f"Published medians, IQMs, optimality gaps and their intervals ({', '.join(names)}):"
            " 10 runs per game (SimPLe 5), printed by Agarwal et al. (2021); the table averages"
            " over more runs."
        )
    return notes


def comparison_section() -> Section:
    """The published difference between SPR-UCB and SPR, with Welch's tests."""
    first, every = "SPR (first 10 runs)", "SPR (all runs)"
    tests, untested = welch_tests()
    found = tests[tests["p"] < LEVEL]
    limits = LEVEL / (len(tests) - np.arange(len(tests)))  # Holm's correction
    n_kept = int(np.cumprod(tests["p"].to_numpy() <= limits).sum())
    n_better = int((found["difference"] > 0).sum())
    (printed,) = [
        e
        for e in printed_aggregates()
        if (e.method, e.runs, e.statistic) == (BASE, "10", "mean") and e.low is not None
    ]
    texts = (
        f"The paper compares {_n_runs(OURS)} runs of {OURS}, mean {_mean(OURS):.3f}, with"
        f" {_n_runs(BASE)} runs of {BASE}, mean {_mean(BASE):.3f}: a difference of"
        f" {_mean(OURS) - _mean(BASE):.3f}. The first {_n_runs(first)} of these {_n_runs(every)}"
        f" runs of {BASE} have the mean {_mean(first):.3f}. Agarwal et al. (2021) print"
        f" {printed.estimate:.3f} for {printed.runs} runs of {BASE}, with the 95% interval"
        f" {printed.low:.3f} to {printed.high:.3f}.",
        f"Welch's test finds a difference at p < {LEVEL:g} in {len(found)} of the {len(tests)}"
        f" games that it can test, {n_better} of them in favor of {OURS}:"
        f" {', '.join(found['game'])}. About {LEVEL * len(tests):.1f} are expected by chance. With"
        f" Holm's correction for multiple tests there remain:"
        f" {', '.join(tests['game'][:n_kept]) or 'none'}. Not testable, because a deviation is"
        f" printed as 0.00: {', '.join(untested)}.",
    )
    rows = [
        [r.game, f"{r.ours:.4f} ± {r.ours_deviation:.2f}", f"{r.base:.4f} ± {r.base_deviation:.2f}",
         f"{r.difference:+.4f}", f"{r.t:.2f}", f"{r.freedom:.1f}",
         f"{r.p:.1e}" if r.p < 0.001 else f"{r.p:.3f}"]
        for r in found.itertuples()
    ]  # fmt: skip
    header = ["game", f"{OURS} ({_n_runs(OURS)} runs)", f"{BASE} ({_n_runs(BASE)} runs)"]
    header += ["difference", "t", "degrees of freedom", "p"]
    caption = (
        f"Games in which {OURS} and {BASE} differ at p < {LEVEL:g}, two-sided, from the paper's"
        " table: mean ± standard deviation over runs, human-normalized."
    )
    return Section(
        "Significance of the gain of SPR-UCB over SPR",
        texts,
        tables=(tab.table(header, rows, caption),),
    )


def welch_tests() -> tuple[pd.DataFrame, list[str]]:
    """Welch's test of SPR-UCB against SPR per game, smallest p first, and the untestable games.

    t = (x - y) / sqrt(a + b) with a = s_x^2 / n_x, b = s_y^2 / n_y (Welch 1947).
    """
    from scipy.special import stdtr  # slow to import

    left, right = (atari100k().methods[name] for name in (OURS, BASE))
    rows, untested = [], []
    for at, game in enumerate(atari100k().games):
        s, r = _deviation(left, at), _deviation(right, at)
        if min(s, r) < MIN_DEVIATION:
            untested.append(game)
            continue
        x, y = float(left.scores[at]), float(right.scores[at])
        n, m = _n_runs(OURS), _n_runs(BASE)
        a, b = s**2 / n, r**2 / m
        t = (x - y) / sqrt(a + b)
        freedom = (a + b) ** 2 / (a**2 / (n - 1) + b**2 / (m - 1))
        rows.append((game, x, s, y, r, x - y, t, freedom, float(2 * stdtr(freedom, -abs(t)))))
    columns = ["game", "ours", "ours_deviation", "base", "base_deviation", "difference", "t"]
    tests = pd.DataFrame(rows, columns=[*columns, "freedom", "p"])
    return tests.sort_values("p").reset_index(drop=True), untested


def published_aggregates() -> pd.DataFrame:
    """The printed aggregates of the eight methods, 10 runs per game, and of all runs of SPR."""
    rows: list[tuple[Any, ...]] = []
    for name in PAPER:
        runs = str(min(10, _n_runs(name)))
        for e in printed_aggregates():
            if name == OURS and e.runs == "all" and e.low is not None:
                own = (f"{e.method}, all runs", False, str(_n_runs(e.method)))
                rows.append((*own, e.statistic, e.estimate, e.low, e.high))
        for e in printed_aggregates():
            if (e.method, e.runs) == (name, "10"):
                rows.append((name, False, runs, e.statistic, e.estimate, e.low, e.high))
    return pd.DataFrame(rows, columns=AGGREGATES).astype({"low": float, "high": float})


def published_means(games: Sequence[str] | None = None) -> pd.DataFrame:
    """Mean and median of the paper's table over some or all games."""
    table = atari100k()
    at = [table.games.index(game) for game in (table.games if games is None else games)]
    rows = []
    for name in PAPER:
        scores = table.methods[name].scores[at]
        for statistic, value in (("mean", scores.mean()), ("median", np.median(scores))):
            rows.append((name, False, str(_n_runs(name)), statistic, float(value), None, None))
    return pd.DataFrame(rows, columns=AGGREGATES).astype({"low": float, "high": float})


def aggregates_of(what: str, own: OwnRuns) -> pd.DataFrame:
    """The numbers of a figure."""
    here = aggregate(own.complete)
    if what == "figure-aggregates":
        return pd.concat([published_aggregates(), here], ignore_index=True)
    means = pd.concat([published_means(), here], ignore_index=True)
    return means[means["statistic"] == "mean"].reset_index(drop=True)


def figure_of(what: str, own: OwnRuns) -> Figure:
    """The figure "figure-mean" or "figure-aggregates"."""
    if what == "figure-mean":
        return mean_figure(aggregates_of(what, own), "Mean over 26 games", ATARI.score)
    return aggregates_figure(aggregates_of(what, own), ATARI.score)


def page_of(what: str, own: OwnRuns, command: str, suffix: str) -> str:
    """The page of the table or of a figure as .html, .md or .tex."""
    draw = suffix == ".html"
    about = [
        f"{ABOUT[what]} On this scale random play is 0 and a human player 1.",
        *_own_texts(own),
    ]
    notes = source_notes(what != "figure-mean" or draw)
    notes += _own_notes(own, complete=what != "table")
    sections = [
        Section("", tuple(about)),
        _main_section(what, own, draw),
        Section("Sources of the numbers", notes=tuple(notes)),
        comparison_section(),
    ]
    if own.scores or len(own.missing) or own.problems:
        if draw:
            sections += _comparison_sections(own)
        sections.append(missing_section(own.missing, own.problems))
    if draw:
        sections.append(Section("Reproduce this page", commands=(command,)))
    return render(TITLES[what], sections, suffix)


def _main_section(what: str, own: OwnRuns, draw: bool) -> Section:
    if what == "table":
        return Section("Table", tables=(games_table(own.scores),))
    aggregates = aggregates_of(what, own)
    caption = (
        "Gray circles and plain bars are published; diamonds and hatched bars, below the line, were"
        " run here. In parentheses the runs per game."
    )
    caption += " Hollow marks have no interval." * (what == "figure-aggregates")
    table = tab.aggregate_table(aggregates, "The numbers of the figure.")
    if not draw:
        return Section("Numbers of the figure", tables=(table,))
    svg = to_svg(figure_of(what, own))
    figure = Illustration(svg, caption, means_text(aggregates))
    return Section("Figure", figures=(figure,), tables=(table,))


def _own_texts(own: OwnRuns) -> list[str]:
    if not own.scores:
        return [NOTHING_RUN]
    names = ", ".join(f"{one.name} ({len(one.tasks)} of 26 games)" for one in own.scores)
    return [
        f"Run here, and kept apart from the published numbers: {names}. Intervals of own runs are"
        f" 95% percentile intervals of a stratified bootstrap ({RESAMPLES:,} resamples of the runs"
        f" of each game); there is none if a game has fewer than {MIN_RUNS} runs.",
        *few_runs_text(own.scores),
        *episodes_text(own.runs),
    ]


def _own_notes(own: OwnRuns, complete: bool) -> list[str]:
    """The runs made here that the numbers come from; figures show agents with all games only."""
    if not own.scores:
        return [NOTHING_RUN]
    shown = own.complete if complete else own.scores
    notes = []
    for one in shown:
        counts = tab.episodes_of(own.runs[own.runs["agent_name"] == one.name])
        episodes = f"{', '.join(map(str, counts))} episodes" if counts else "episodes not recorded"
        notes.append(
            f"{one.name}, run here: {runs_text(one)} runs per game on {len(one.tasks)} of 26 games,"
            f" {int(one.n_runs.sum())} runs in total, each scored by its evaluation ({episodes})."
        )
    names = {one.name for one in shown}
    if left_out := [one.name for one in own.scores if one.name not in names]:
        notes.append(f"Left out, because not all 26 games were run: {', '.join(left_out)}.")
    return notes


def _comparison_sections(own: OwnRuns) -> list[Section]:
    sections = []
    if own.shared and len(own.complete) < len(own.scores):
        games = own.shared[0].tasks
        both = pd.concat([published_means(games), aggregate(own.shared)], ignore_index=True)
        svg = to_svg(mean_figure(both, f"Mean over {len(games)} of 26 games", ATARI.score))
        caption = f"Over {', '.join(games)} only; a mean over few games says little about others."
        text = (
            f"Not every agent has runs of all 26 games, so all methods are averaged over the"
            f" {len(games)} games that all of them have. IQM and optimality gap need individual"
            " runs, which were not published."
        )
        figure = Illustration(svg, caption, means_text(both))
        table = tab.aggregate_table(both, "The numbers of the figure.")
        sections.append(
            Section("On the games that were run here", (text,), (figure,), tables=(table,))
        )
    if own.shared:
        sections.append(profile_section(own.shared, ATARI.score))
    if len(own.shared) > 1:
        sections.append(improvement_section(own.shared, ATARI))
    return sections


def _missing_games(games: pd.DataFrame) -> list[dict[str, Any]]:
    """The games that an agent has no runs of, although it has runs of others."""
    gaps = []
    for agent in sorted(games.loc[games["status"] != "planned", "agent_name"].unique()):
        own = games[games["agent_name"] == agent]
        first, seeds = own.iloc[0].to_dict(), tuple(sorted(set(own["seed"])))
        for game in sorted(set(atari100k().games) - set(own["task_name"])):
            config = {**first["config"], "env": game}
            spec = RunSpec(first["suite"], first["agent"], game, 0, config)
            run = {**first, "words": None}
            if isinstance(first["inputs"], dict):
                run["inputs"] = {**first["inputs"], "env": game}
            gap = {"task_name": game, "agent_name": agent, "seeds": seeds}
            gaps.append({**gap, "identity": spec.identity(), "commands": commands_of(run, seeds)})
    return gaps


def _agent_name(run: Mapping[str, Any]) -> str:
    """The name of the agent, with its bonus if it has one; labels of a sweep are kept."""
    name, inputs = run["agent_name"], run["inputs"]
    is_labeled = isinstance(run["label"], str) and run["label"] != run["agent"]
    if not is_labeled and isinstance(inputs, Mapping):
        settings = dict(inputs.get("settings") or {})
        if run["agent"] == "spr-ucb":
            name = with_settings(f"SPR-UCB ({settings.pop('bonus.preset', 'paper')})", settings)
        elif run["agent"] == "spr" and settings.items() >= RELEASED.items():
            others = {key: value for key, value in settings.items() if key not in RELEASED}
            name = with_settings("SPR (released code)", others)
    steps = run["config"].get("steps", STEPS)
    return name if steps == STEPS else f"{name} ({steps:,} steps)"


def _cells(
    means: np.ndarray, spread: np.ndarray, counts: Sequence[int] | None, threshold: np.ndarray
) -> list[str]:
    """The cells of a column: all games, then their average."""
    cells = []
    for at, (value, deviation) in enumerate(
        zip([*means, means.mean()], [*spread, spread.mean()], strict=True)
    ):
        if isnan(value):
            cells.append(tab.NOTHING)
            continue
        text = f"{value:.{DIGITS}f}"
        text = f"**{text}**" if round(value, DIGITS) >= threshold[at] else text
        text += "" if isnan(deviation) else f" ± {deviation:.2f}"
        cells.append(text + (f" ({counts[at]})" if counts and at < len(counts) else ""))
    return cells


def _n_runs(name: str) -> int:
    count = atari100k().methods[name].n_runs
    if count is None:
        raise ValueError(f"the number of runs of {name} was not published")
    return count


def _mean(name: str) -> float:
    return float(atari100k().methods[name].scores.mean())


def _deviation(method: Method, at: int) -> float:
    if method.deviations is None:
        raise ValueError(f"the deviations of {method.name} were not published")
    return float(method.deviations[at])
