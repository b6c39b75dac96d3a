"""What a plain page of sections has not: tables with bold numbers, links, and one small script.

The script sorts tables: it makes a button of every column's name, which sorts numbers as numbers,
the largest first, and words from A to Z; pressed again, it turns the order round. What is missing
stays last. The page's policy names the script by its hash, so that a browser runs this one and
refuses every other; without scripts a table is as it was written.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from html import escape

from contrastive_ucb.report.html import POLICY

SORT = """
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0], heads = table.tHead.rows[table.tHead.rows.length - 1].cells;
  if (body.rows.length < 2) continue;
  for (const [column, head] of [...heads].entries()) {
    const text = row => {
      const cell = row.cells[column], found = cell.dataset.value ?? cell.textContent.trim();
      return found === "\\u2013" ? "" : found;
    };
    const number = word => parseFloat(word.replaceAll(",", ""));
    const order = (a, b, sign) => {
      const [x, y] = [text(a), text(b)], [v, w] = [number(x), number(y)];
      if (!x || !y) return !x - !y;
      if (isNaN(v) !== isNaN(w)) return isNaN(v) - isNaN(w);
      return sign * (isNaN(v) ? x.localeCompare(y, "en", { numeric: true }) : v - w);
    };
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => {
      const rows = [...body.rows], before = head.getAttribute("aria-sort");
      const rising = before ? before === "descending" : rows.every(row => isNaN(number(text(row))));
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", rising ? "ascending" : "descending");
      body.append(...rows.sort((a, b) => order(a, b, rising ? 1 : -1)));
    });
    head.append(button);
  }
}
"""
CSS = """
main { max-width: 80rem; }
thead button { font: inherit; color: inherit; text-align: inherit; background: none; border: 0;
  padding: .25rem; margin: -.25rem; cursor: pointer; position: relative; }
thead button:hover, [aria-sort] button { color: var(--ink); }
[aria-sort] button::after { position: absolute; right: -.45em; font-size: .75em; }
[aria-sort="descending"] button::after { content: "\\25BC"; }
[aria-sort="ascending"] button::after { content: "\\25B2"; }
table.games tr > :first-child { position: sticky; left: 0; background: var(--card); z-index: 1; }
td small, th small { color: var(--soft); font-weight: normal; }
td.here, th.here { background: color-mix(in srgb, var(--accent) 9%, var(--card)); }
table.games th, table.games td { padding-inline: .45rem; }
table.games th.group { text-align: left; }
.here.edge { border-left: 3px solid var(--accent); }
tfoot td, tfoot th { border-top: 2px solid var(--line); }
table.games tbody tr:last-child > * { border-bottom: 1px solid var(--line); }
a { color: var(--accent); }
"""


def with_markup(page: str, below: Mapping[str, str], script: str = "") -> str:
    """A page of `html.page` with HTML put below some of its headings, styles, and the script."""
    for heading, markup in below.items():
        found = f"<h2>{escape(heading)}</h2>\n"
        if page.count(found) != 1:
            raise ValueError(f"the page has {page.count(found)} headings {heading!r}, not one")
        page = page.replace(found, found + markup)
    page = page.replace("</style>\n</head>", f"{CSS}</style>\n</head>", 1)
    if not script:
        return page
    allowed = f"{POLICY}; script-src 'sha256-{_hash(script)}'"
    page = page.replace(f'content="{escape(POLICY)}"', f'content="{escape(allowed)}"', 1)
    return page.replace("</body>\n</html>\n", f"<script>{script}</script>\n</body>\n</html>\n")


def link(address: str, text: str) -> str:
    """A paragraph with a link to a file beside the page."""
    return f'<p><a href="{escape(address)}">{escape(text)}</a></p>\n'


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
