"""The paper's table and figures as pages and files: published numbers beside runs made here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from matplotlib.figure import Figure

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.experiments.words import deep_changes
from contrastive_ucb.report import aggregates as agg
from contrastive_ucb.report.aggregate_figures import aggregates_figure, mean_figure
from contrastive_ucb.report.atari_table import Column, published_columns, run_columns, to_html
from contrastive_ucb.report.episodes import episodes_of, episodes_remark
from contrastive_ucb.report.fair import fair_section, source_notes
from contrastive_ucb.report.html import Illustration, Section, page
from contrastive_ucb.report.interval import FEWEST
from contrastive_ucb.report.markup import SORT, with_markup
from contrastive_ucb.report.missing import Missing, missing_games, read_folder
from contrastive_ucb.report.read import Damage
from contrastive_ucb.report.scores import (
    KINDS,
    Entry,
    named_with_settings,
    on_shared_tasks,
    scores_by_agent,
)
from contrastive_ucb.report.sections import (
    improvement_section,
    missing_section,
    profile_section,
    versions,
)
from contrastive_ucb.report.style import to_svg
from contrastive_ucb.stats.aggregate import Scores
from contrastive_ucb.stats.published import atari100k, game_of

STEPS = 100_000  # of Atari 100K
TITLES = {
    "table": "Atari 100K, game by game",
    "figure-mean": "Atari 100K: the mean human-normalised score",
    "figure-aggregates": "Atari 100K: aggregates with intervals",
}
NOTHING_RUN = "Nothing was run here: every number on this page is a published one."
INTERVALS = (
    "Intervals of what was run here are 95 % percentile intervals of a stratified bootstrap"
    f" ({agg.RESAMPLES:,} resamples of the runs of each game); where a game has fewer than"
    f" {FEWEST} runs, there is none."
)


@dataclass(frozen=True)
class RunHere:
    """What a folder holds of Atari 100K; all of it is empty without a folder."""

    entries: tuple[Entry, ...] = ()
    missing: tuple[Missing, ...] = ()
    damaged: tuple[Damage, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether there is anything of Atari 100K in the folder."""
        return bool(self.entries or self.missing or self.damaged)

    @property
    def scores(self) -> list[Scores]:
        return scores_by_agent(self.entries, KINDS["atari"])

    @property
    def complete(self) -> list[Scores]:
        """The agents with runs of all 26 games: only they can be put beside published numbers."""
        return [one for one in self.scores if one.tasks == atari100k().games]

    @property
    def shared(self) -> list[Scores]:
        """All agents on the games that each of them has runs of."""
        return on_shared_tasks(self.scores) if self.scores else []

    @property
    def columns(self) -> list[Column]:
        return published_columns() + run_columns(self.scores)


def run_here(root: Path | None) -> RunHere:
    """The runs of the 26 games under `root`, and those that are missing there."""
    if root is None:
        return RunHere()
    found = read_folder(root)
    games = {entry.group.folder: entry for entry in as_games(found.every)}
    gaps = [named for gap in found.missing if (named := _named(gap, games, root))]
    known = {gap.spec.folder(root).parent for gap in gaps}
    more = missing_games([*games.values()], atari100k().games, root)
    gaps += [gap for gap in more if gap.spec.folder(root).parent not in known]
    gaps.sort(key=lambda gap: (gap.task, gap.agent))
    begun = tuple(entry for entry in games.values() if entry.group.begun)
    return RunHere(begun, tuple(gaps), found.damaged)


def _named(gap: Missing, games: Mapping[Path, Entry], root: Path) -> Missing | None:
    """The gap under the names that this page has for its game and its agent; None: no game."""
    entry = games.get(gap.spec.folder(root).parent)
    return replace(gap, task=entry.task, agent=entry.agent) if entry else None


def as_games(entries: Sequence[Entry]) -> list[Entry]:
    """The entries of the 26 games, each under the game's own name.

    SPR-UCB is named with its bonus, and runs of another length than Atari 100K with their number of
    steps.
    """
    found: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        if game := game_of(entry.group.task):
            steps = entry.group.runs[0].spec.config.get("steps", STEPS)
            agent = agent_name(entry)
            agent += "" if steps == STEPS else f" ({steps:,} steps)"
            if other := found.get((agent, game)):
                raise UserError(
                    f"{agent} has several settings of {game} ({other.group.folder},"
                    f" {entry.group.folder}); move one of these folders elsewhere"
                )
            found[agent, game] = replace(entry, task=game, agent=agent)
    return list(found.values())


def agent_name(entry: Entry) -> str:
    """The name of the agent of an entry; that of SPR-UCB says which bonus it has.

    A name that a sweep gave to its variant is kept.
    """
    spec = entry.group.runs[0].spec
    planned = entry.plan.label if entry.plan else spec.agent
    if spec.agent != "spr-ucb" or planned != spec.agent or "agent" not in spec.config:
        return entry.agent
    changes = deep_changes(spec)
    preset = changes.pop("bonus.preset", "paper")
    return named_with_settings(f"SPR-UCB ({preset})", changes)


def mean_rows(here: RunHere) -> list[agg.Row]:
    return agg.table_rows() + agg.run_rows(here.complete)


def aggregate_rows(here: RunHere) -> list[agg.Row]:
    return agg.printed_rows() + agg.run_rows(here.complete)


def figure_of(what: str, here: RunHere) -> Figure:
    """The figure "figure-mean" or "figure-aggregates"."""
    if what == "figure-mean":
        return mean_figure(mean_rows(here))
    return aggregates_figure(aggregate_rows(here))


def page_of(what: str, here: RunHere, command: str) -> str:
    """The page of the table or of a figure."""
    heading = "The table" if what == "table" else "The figure"
    shown = Section(heading) if what == "table" else _figure_section(what, here, heading)
    sections = [
        Section("What this is", (_about(what), _said(here))),
        shown,
        Section("Which runs the numbers come from", notes=(*source_notes(), *own_notes(here))),
        fair_section(),
        *_here_sections(here),
        Section("Make it yourself", commands=(command,)),
    ]
    text = page(TITLES[what], sections, versions())
    if what != "table":
        return with_markup(text, {})
    return with_markup(text, {heading: to_html(here.columns)}, SORT)


def own_notes(here: RunHere, complete: bool = False) -> list[str]:
    """Which runs the numbers come from that were run here.

    complete  only agents with runs of all games are shown, as in the figures
    """
    if not here.scores:
        return [NOTHING_RUN]
    shown = here.complete if complete else here.scores
    notes = [
        f"{one.name}, run here: {agg.runs_text(agg.count_text(one))} a game on {len(one.tasks)} of"
        f" 26 games, {int(one.n_runs.sum())} runs in all, each scored by its evaluation"
        f" ({_episodes(here, one.name)})."
        for one in shown
    ]
    names = {one.name for one in shown}
    if left_out := [one.name for one in here.scores if one.name not in names]:
        notes.append(f"Left out, since not all 26 games were run here: {', '.join(left_out)}.")
    return notes


def _episodes(here: RunHere, agent: str) -> str:
    own = [entry for entry in here.entries if entry.agent == agent]
    counts = sorted({count for entry in own for count in episodes_of(entry)})
    return f"{', '.join(map(str, counts))} episodes" if counts else "episodes not recorded"


def _about(what: str) -> str:
    about = {
        "table": "The table of the Contrastive UCB paper (appendix, additional experimental"
        " results): the human-normalised scores of eight methods on the 26 games of Atari 100K.",
        "figure-mean": "The bar chart of the Contrastive UCB paper: the mean human-normalised score"
        " of eight methods over the 26 games of Atari 100K, from the paper's own table.",
        "figure-aggregates": "The figure of aggregates of the Contrastive UCB paper: median,"
        " interquartile mean (IQM), mean and optimality gap over the 26 games of Atari 100K with"
        " 95 % intervals. What nobody published is marked so: of SPR-UCB only the mean is printed"
        " in the paper, its median follows from the paper's table, and neither has an interval.",
    }
    scale = " On this scale random play is 0 and a human player 1."
    return about[what] + scale


def _said(here: RunHere) -> str:
    if not here.scores:
        return NOTHING_RUN
    names = ", ".join(f"{one.name} ({len(one.tasks)} of 26 games)" for one in here.scores)
    remarks = [agg.few_text(int(one.n_runs.min()) for one in here.scores)]
    remarks.append(episodes_remark([e for e in here.entries if e.group.finished]))
    told = f"Run here, and kept apart from the published numbers: {names}."
    return " ".join(text for text in (told, INTERVALS, *remarks) if text)


def _figure_section(what: str, here: RunHere, heading: str) -> Section:
    rows = mean_rows(here) if what == "figure-mean" else aggregate_rows(here)
    names = ("mean",) if what == "figure-mean" else tuple(agg.STATISTICS)
    caption = (
        "Grey and round: published; hatched or diamonds: run here, below the line. In brackets the"
        " runs a game."
    )
    if what == "figure-aggregates":
        caption += " Hollow: a number without an interval."
    told = "; ".join(f"{row.name} {agg.estimate_text(row.values.get('mean'))}" for row in rows)
    drawing = Illustration(to_svg(figure_of(what, here)), caption, f"Means: {told}.")
    table = agg.aggregate_table(rows, names)
    return Section(heading, (), (drawing,), table, f"The same in figures. {caption}")


def _here_sections(here: RunHere) -> list[Section]:
    """What only runs can say, and what is missing."""
    if not here.is_known:
        return []
    sections = []
    if here.shared and len(here.complete) < len(here.scores):
        sections.append(_partial_section(here.shared))
    if here.shared:
        sections.append(profile_section(here.shared, KINDS["atari"].score))
    if len(here.shared) > 1:
        sections.append(improvement_section(here.shared, KINDS["atari"].score))
    return [*sections, missing_section(here.missing, here.damaged)]


def _partial_section(shared: Sequence[Scores]) -> Section:
    """Agents without runs of all games: everybody on the games that there are."""
    games = shared[0].tasks
    rows = agg.table_rows(games) + agg.run_rows(shared)
    told = "; ".join(f"{row.name} {agg.estimate_text(row.values['mean'])}" for row in rows)
    figure = Illustration(
        to_svg(mean_figure(rows, f"Mean over {len(games)} of 26 games")),
        f"Over {', '.join(games)} only; a mean over few games says little about the others.",
        f"Means: {told}.",
    )
    return Section(
        "On the games that were run here",
        (
            f"Not every agent has runs of all 26 games, so here all methods are averaged over the"
            f" {len(games)} that all of them have. Medians and means of published methods come from"
            " the table; IQM and optimality gap need single runs, which were not published.",
        ),
        (figure,),
        agg.aggregate_table(rows),
        "The same in figures.",
    )
