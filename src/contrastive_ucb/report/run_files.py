"""The files of `cucb report`: the page, or its tables as Markdown or LaTeX, and the raw scores."""

from __future__ import annotations

from pathlib import Path

from contrastive_ucb.report.atari_table import CAPTION, to_latex, to_markdown
from contrastive_ucb.report.facts import Facts
from contrastive_ucb.report.html import Section
from contrastive_ucb.report.missing import Found, PlansOf
from contrastive_ucb.report.run_page import (
    TITLE,
    game_columns,
    page_of,
    read_run_folder,
    runs_section,
    scores_csv,
    sections_of,
)
from contrastive_ucb.report.run_sections import ATARI
from contrastive_ucb.report.section_text import latex_sections, markdown_sections
from contrastive_ucb.report.sections import versions


def report_files(
    root: Path,
    out: Path,
    command: str,
    plans_of: PlansOf | None = None,
    facts: Path | None = None,
) -> tuple[Found, dict[Path, str]]:
    """What there is under `root`, and the files about it: `out`, by its ending, and the scores.

    plans_of  what should be in the folder, beside what its sweeps have written down
    facts     a file with facts of the theory, by default that of the folder
    The same runs give the same bytes.
    """
    found, theory = read_run_folder(root, facts, plans_of)
    beside, scores = out.with_suffix(".csv"), scores_csv(found)
    if out.suffix == ".md":
        text = markdown_of(found, command, theory)
    elif out.suffix == ".tex":
        text = latex_of(found, command, theory)
    else:
        text = page_of(found, beside.name, scores, command, theory)
    return found, {beside: scores, out: text}


def markdown_of(found: Found, command: str, facts: Facts | None = None) -> str:
    """Scores, aggregates, what is missing and which runs they are."""
    columns = game_columns(found.entries)
    below = {ATARI: f"{to_markdown(columns)}\n{CAPTION}"} if columns else {}
    text = markdown_sections(_sections(found, command, facts), below)
    return f"# {TITLE}\n\n{text}\n{versions()}\n"


def latex_of(found: Found, command: str, facts: Facts | None = None) -> str:
    """The same tables in LaTeX; the words are comments."""
    columns = game_columns(found.entries)
    below = {ATARI: to_latex(columns)} if columns else {}
    return latex_sections(_sections(found, command, facts), below) + f"% {versions()}\n"


def _sections(found: Found, command: str, facts: Facts | None) -> list[Section]:
    sections = sections_of(found, facts, draw=False)
    sections += [runs_section(found.entries)] if found.entries else []
    return [*sections, Section("Make it yourself", commands=(command,))]
