"""The page of `cucb report`: curves, scores, aggregates and gaps of any folder of runs."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path

from contrastive_ucb.experiments.store import VERSIONS
from contrastive_ucb.report.atari_table import Column, published_columns, run_columns, to_html
from contrastive_ucb.report.facts import Facts, facts_section, read_facts
from contrastive_ucb.report.html import Section, page
from contrastive_ucb.report.markup import SORT, link, with_markup
from contrastive_ucb.report.missing import Found, Missing, PlansOf, read_folder, seeds_text
from contrastive_ucb.report.reproduce_page import as_games
from contrastive_ucb.report.run_sections import ATARI, kind_sections
from contrastive_ucb.report.scores import KINDS, Entry, scores_by_agent
from contrastive_ucb.report.sections import missing_section, versions
from contrastive_ucb.report.tables import NOTHING, Table

TITLE = "Report of runs"
RAW = "The raw scores of all runs"
COLUMNS = ("suite", "agent", "called", "task", "hash", "seed", "status", "measure", "raw", "score")


def read_run_folder(
    root: Path, facts: Path | None = None, plans_of: PlansOf | None = None
) -> tuple[Found, Facts | None]:
    """What a report is about: the runs of a folder, and facts of the theory.

    facts     a file of them, by default that of the folder
    plans_of  what should be in the folder, beside what its sweeps have written down
    """
    theory = read_facts(root, facts)
    return read_folder(root, may_be_empty=theory is not None, plans_of=plans_of), theory


def page_of(
    found: Found, csv_name: str, scores: str, command: str, facts: Facts | None = None
) -> str:
    """The page; `csv_name` is where the file `scores` will be, beside it."""
    sections = sections_of(found, facts)
    below = {}
    if found.every:
        sections += _origin_sections(found.entries, scores)
        below[RAW] = link(csv_name, csv_name)
    sections.append(Section("Make it yourself", commands=(command,)))
    if columns := game_columns(found.entries):
        below[ATARI] = to_html(columns)
    return with_markup(page(TITLE, sections, versions()), below, SORT)


def sections_of(found: Found, facts: Facts | None, draw: bool = True) -> list[Section]:
    """Everything that was run and measured, and what is missing."""
    entries, gaps = found.entries, found.missing
    overview = _overview(found, gaps) + " Press the name of a column to sort its table." * draw
    sections = [Section("What was run", (overview,))]
    for kind in KINDS.values():
        if own := [entry for entry in entries if entry.kind == kind]:
            sections += kind_sections(own, gaps, kind, draw)
    if facts is not None:
        sections.append(facts_section(facts))
    if found.every or found.damaged:
        sections.append(missing_section(gaps, found.damaged))
    return sections


def game_columns(entries: Sequence[Entry]) -> list[Column]:
    """The published table with what was run here beside it; empty without runs of its games."""
    games = scores_by_agent(as_games(entries), KINDS["atari"])
    return published_columns() + run_columns(games) if games else []


def scores_csv(found: Found) -> str:
    """Every run that is finished with its number and score, then those that are missing."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for entry in found.entries:
        spec = entry.group.runs[0].spec
        own = (spec.suite, spec.agent, entry.agent, entry.task, spec.identity()[:8])
        numbers = zip(entry.group.seeds, entry.raw, entry.scores, strict=True)
        for seed, raw, score in numbers if entry.kind else ():
            measure = entry.kind.score if entry.kind else ""
            lines.writerow((*own, seed, "finished", measure, repr(raw), repr(score)))
    damaged = {one.path for one in found.damaged}
    for gap in found.missing:
        spec, folder = gap.spec, gap.spec.folder(found.root).parent
        own = (spec.suite, spec.agent, gap.agent, gap.task, spec.identity()[:8])
        for seed in gap.seeds:
            path = folder / f"seed_{seed}"
            lines.writerow((*own, seed, "damaged" if path in damaged else "missing", "", "", ""))
            damaged.discard(path)
    for path in sorted(damaged):  # what they are, only their folders say
        suite, agent, group, name = path.parts[-4:]
        task, _, mark = group.rpartition("-")
        own = (suite, agent, agent, task, mark)
        lines.writerow((*own, name.removeprefix("seed_"), "damaged", "", "", ""))
    return text.getvalue()


def counts_of(found: Found) -> dict[str, int]:
    """How many runs there are, and are not."""
    return {
        "finished": sum(len(entry.group.finished) for entry in found.entries),
        "missing": sum(len(gap.seeds) for gap in found.missing),
        "damaged": len(found.damaged),
    }


def _overview(found: Found, gaps: Sequence[Missing]) -> str:
    entries = found.entries
    n_finished = sum(len(entry.group.finished) for entry in entries)
    tasks = {entry.task for entry in entries}
    agents = {entry.agent for entry in entries}
    n_missing = sum(len(gap.seeds) for gap in gaps)
    damaged = f"; damaged: {len(found.damaged)}" if found.damaged else ""
    return (
        f"{_count(n_finished, 'finished run')} of {_count(len(agents), 'agent')} on"
        f" {_count(len(tasks), 'task')}; missing: {n_missing or 'none'}{damaged}."
        " No number comes from a run that is not finished."
    )


def _count(number_of: int, what: str) -> str:
    return f"{number_of} {what}{'s' * (number_of != 1)}"


def _origin_sections(entries: Sequence[Entry], scores: str) -> list[Section]:
    """The single runs that everything above comes from."""
    digest = hashlib.sha256(scores.encode()).hexdigest()
    told = f"One line a run: its number as the run wrote it, and its score. SHA-256: {digest}."
    return [Section(RAW, (told,)), runs_section(entries)]


def runs_section(entries: Sequence[Entry]) -> Section:
    """Which runs there are, and with what they were made."""
    caption = (
        "The hash is the beginning of the SHA-256 of all settings but the seed; it is part of the"
        " name of the run folder."
    )
    table = _runs_table(entries)
    return Section("Which runs these are", (made_with(entries),), (), table, caption)


def made_with(entries: Sequence[Entry]) -> str:
    """The versions that made the runs, as far as their folders have them."""
    known: set[str] = set()
    n_unknown = 0
    for run in (run for entry in entries for run in entry.group.finished):
        own = _versions_of(run.path)
        n_unknown += own is None
        known |= {own} if own else set()
    if not known:
        return "The versions of the packages that made the runs: not recorded."
    rest = f"; not recorded by {_count(n_unknown, 'run')}" if n_unknown else ""
    return f"Made with {'; '.join(sorted(known))}{rest}."


def _versions_of(folder: Path) -> str | None:
    try:
        own = json.loads((folder / VERSIONS).read_text(encoding="utf-8"))
        return ", ".join(f"{name} {own[name]}" for name in sorted(own))
    except (OSError, ValueError, TypeError):
        return None


def _runs_table(entries: Sequence[Entry]) -> Table:
    rows = []
    for entry in entries:
        spec = entry.group.runs[0].spec
        seeds = seeds_text(entry.group.seeds) or NOTHING
        own = (entry.task, entry.agent, spec.suite, spec.identity()[:8], seeds)
        rows.append(own)
    return Table(("task", "agent", "suite", "hash", "finished seeds"), tuple(rows))
