"""One self-contained HTML page: no network, light and dark, readable on a phone.

It has no script; pages whose tables are sorted get one from `markup.py`."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import escape

from contrastive_ucb.report.tables import NOTHING, Table

# The policy is a second lock on the door: a browser would refuse to load anything from elsewhere.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

CSS = """
:root { color-scheme: light dark; --ink: #1d1d1f; --soft: #5c5c63; --paper: #fdfdfc;
  --card: #ffffff; --line: #dcdcdf; --accent: #b34d00; --ground: #ffffff;
  --shade: rgb(0 0 0 / 18%); }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8ea; --soft: #a5a5ad; --paper: #17181b; --card: #202226;
    --line: #3a3c42; --accent: #ff9a57; --ground: #1a1a1a; --shade: rgb(0 0 0 / 60%); }
  /* Black turns white and colours stay themselves; the white of a drawing becomes its ground. */
  .drawing svg { filter: invert(.9) hue-rotate(180deg); } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main, footer { max-width: 66rem; margin: 0 auto; padding: 0 1rem; overflow-wrap: break-word; }
h1, h2, p, ul, figure, figcaption, footer > * { max-width: 46rem; margin-inline: auto; }
figure.wide { max-width: none; }
h1 { font-size: 1.7rem; line-height: 1.25; margin-block: 2rem 1rem; }
h2 { font-size: 1.25rem; line-height: 1.3; margin-block: 2.5rem .75rem; color: var(--accent); }
p, ul { margin-block: .75rem; }
ul { padding-left: 1.25rem; }
figure { margin-block: 1.5rem; }
.drawing { background: var(--ground); border: 1px solid var(--line); border-radius: .5rem;
  padding: .5rem; }
.drawing svg { display: block; width: 100%; max-width: 35rem; height: auto; margin: 0 auto; }
figcaption { color: var(--soft); font-size: .9rem; line-height: 1.45; margin-top: .5rem; }
.scroll, pre { overflow-x: auto; width: fit-content; max-width: 100%; margin: 0 auto;
  border: 1px solid var(--line); border-radius: .5rem;
  /* A shadow where there is more to see, under a cover that scrolls with the content. */
  background: linear-gradient(to right, var(--card), transparent) left / 2rem 100% local,
    linear-gradient(to left, var(--card), transparent) right / 2rem 100% local,
    linear-gradient(to right, var(--shade), transparent) left / .6rem 100% scroll,
    linear-gradient(to left, var(--shade), transparent) right / .6rem 100% scroll, var(--card);
  background-repeat: no-repeat; }
table { border-collapse: collapse; font-size: .85rem; line-height: 1.35;
  font-variant-numeric: tabular-nums; }
th, td { padding: .5rem .75rem; text-align: right; border-bottom: 1px solid var(--line); }
td, th[scope="row"] { white-space: nowrap; }
tr > :first-child, .words, .long { text-align: left; }
td.long, th[scope="row"].long { white-space: normal; min-width: 12rem;
  max-width: 20rem; }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
tbody tr:last-child > * { border-bottom: 0; }
pre { min-width: min(46rem, 100%); padding: .75rem 1rem; margin-block: 1rem;
  font-size: .85rem; line-height: 1.5; }
footer { color: var(--soft); font-size: .85rem; border-top: 1px solid var(--line);
  margin-top: 3rem; padding-top: 1rem; padding-bottom: 2rem; }
/* Columns as wide as they like to be: squeezed ones would have names of five lines. */
@media (max-width: 40rem) { table { width: max-content; } thead th { max-width: 8rem; } }
"""
LONG = 30  # letters; cells with more are broken into lines
NUMBER = re.compile(r"[-+]?\d[\d,.]*(e[-+]?\d+)?(%| |$)")


@dataclass(frozen=True)
class Illustration:
    """A drawing with what it shows in words, once below it and once for those who cannot see it."""

    svg: str  # an <svg> element of to_svg, put into the page as it is
    caption: str
    alt: str


@dataclass(frozen=True)
class Section:
    """A heading and what follows it, in this order; all of it is plain text but the drawings."""

    heading: str
    paragraphs: tuple[str, ...] = ()
    figures: tuple[Illustration, ...] = ()
    table: Table | None = None
    table_caption: str = ""
    notes: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


def page(title: str, sections: list[Section], footer: str) -> str:
    """The page as text."""
    body = "".join(_section(section) for section in sections)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n"
        f"<main>\n<h1>{escape(title)}</h1>\n{body}</main>\n"
        f"<footer><p>{escape(footer)}</p></footer>\n</body>\n</html>\n"
    )


def _section(section: Section) -> str:
    parts = [f"<h2>{escape(section.heading)}</h2>\n"]
    parts += [f"<p>{escape(text)}</p>\n" for text in section.paragraphs]
    parts += [_figure(figure) for figure in section.figures]
    if section.table is not None:
        parts.append(_table(section.table, section.table_caption))
    if section.notes:
        items = "".join(f"<li>{escape(note)}</li>\n" for note in section.notes)
        parts.append(f"<ul>\n{items}</ul>\n")
    if section.commands:
        lines = escape("\n".join(section.commands))
        parts.append(f'<pre tabindex="0"><code>{lines}</code></pre>\n')
    return f"<section>\n{''.join(parts)}</section>\n"


def _figure(figure: Illustration) -> str:
    return (
        f'<figure>\n<div class="drawing" role="img" aria-label="{escape(figure.alt)}">\n'
        f"{figure.svg}</div>\n<figcaption>{escape(figure.caption)}</figcaption>\n</figure>\n"
    )


def _table(table: Table, caption: str) -> str:
    """A table in a box of its own, which a narrow screen scrolls sideways."""
    looks = [_look(cells) for cells in zip(table.header, *table.rows, strict=True)]
    looks[0] = "long" if looks[0] == "long" else ""  # names of rows stand on the left anyway
    head = _row(table.header, looks, ['th scope="col"'] * len(looks))
    tags = ['th scope="row"', *["td"] * (len(looks) - 1)]
    rows = ""
    for at, row in enumerate(table.rows):
        bold = {column for line, column in table.bold if line == at}
        rows += f"{_row(row, looks, tags, bold)}\n"
    return (
        '<figure class="wide">\n<div class="scroll" tabindex="0">\n<table>\n'
        f"<thead>{head}</thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>\n"
        f"<figcaption>{escape(caption)}</figcaption>\n</figure>\n"
    )


def _row(
    cells: Sequence[str], looks: Sequence[str], tags: Sequence[str], bold: Collection[int] = ()
) -> str:
    parts = []
    for at, (cell, look, tag) in enumerate(zip(cells, looks, tags, strict=True)):
        kind = f' class="{look}"' if look else ""
        text = f"<strong>{escape(cell)}</strong>" if at in bold else escape(cell)
        parts.append(f"<{tag}{kind}>{text}</{tag[:2]}>")
    return f"<tr>{''.join(parts)}</tr>"


def _look(column: Sequence[str]) -> str:
    """How a column, its name first, is set: numbers to the right, words to the left."""
    said = [cell for cell in column[1:] if cell not in ("", NOTHING)]
    if any(len(cell) > LONG for cell in said):
        return "long"
    n_numbers = sum(_is_number(cell) for cell in said)
    return "words" if 2 * n_numbers < len(said) else ""


def _is_number(cell: str) -> bool:
    """Whether a cell begins with a number and has few words after it, such as "3 of 5"."""
    n_letters, n_digits = (sum(map(kind, cell)) for kind in (str.isalpha, str.isdigit))
    return NUMBER.match(cell) is not None and n_letters <= 4 * n_digits
