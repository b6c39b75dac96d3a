"""Sections of a page as Markdown and LaTeX; drawings are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from contrastive_ucb.report.html import Section


def markdown_sections(sections: Sequence[Section], below: Mapping[str, str] | None = None) -> str:
    """Every section under its heading.

    below  Markdown that stands below some of the headings
    """
    parts = []
    for section in sections:
        parts.append(f"## {section.heading}")
        parts += [below[section.heading].rstrip()] if below and section.heading in below else []
        parts += section.paragraphs
        if section.table is not None:
            parts += [section.table.to_markdown().rstrip(), section.table_caption]
        if section.notes:
            parts.append("\n".join(f"- {note}" for note in section.notes))
        if section.commands:
            parts.append("\n".join(["```", *section.commands, "```"]))
    return "\n\n".join(parts) + "\n"


def latex_sections(sections: Sequence[Section], below: Mapping[str, str] | None = None) -> str:
    """Every table; all words are comments in front of it, and commands behind it."""
    text = ""
    for section in sections:
        caption = [section.table_caption] if section.table is not None else []
        remarks = [section.heading, *section.paragraphs, *caption, *section.notes]
        text += "".join(f"% {remark}\n" for remark in remarks)
        text += below[section.heading] if below and section.heading in below else ""
        text += section.table.to_latex() if section.table is not None else ""
        text += "".join(f"% {command}\n" for command in section.commands) + "\n"
    return text
