"""What a plain page of sections has not: tables with bold numbers, links, and one small script.

The script sorts tables. The page's policy names it by its hash, so that a browser runs this one and
refuses every other; without scripts the table is as it was written.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from html import escape

from contrastive_ucb.report.html import POLICY

SORT = """
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  for (const button of table.querySelectorAll("thead button")) {
    button.addEventListener("click", () => {
      const head = button.parentElement, column = Number(button.dataset.column);
      const down = head.getAttribute("aria-sort") !== "descending";
      const value = row => row.cells[column].dataset.value ?? "";
      const order = (a, b) => {
        const x = value(a), y = value(b);
        if (x === "" || y === "") return (x === "") - (y === "");
        const less = column === 0 ? x.localeCompare(y) : Number(x) - Number(y);
        return down ? -less : less;
      };
      for (const other of table.querySelectorAll("[aria-sort]")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      body.append(...[...body.rows].sort(order));
    });
  }
}
"""
CSS = """
main { max-width: 80rem; }
table.sortable thead button { font: inherit; color: inherit; background: none; border: 0;
  padding: .25rem; margin: -.25rem; cursor: pointer; }
[aria-sort="descending"] button::after { content: " \\25BE"; }
[aria-sort="ascending"] button::after { content: " \\25B4"; }
table.sortable tr > :first-child { position: sticky; left: 0; background: var(--card); z-index: 1; }
td small, th small { color: var(--soft); font-weight: normal; }
td.here, th.here { background: color-mix(in srgb, var(--accent) 9%, var(--card)); }
table.sortable th, table.sortable td { padding-inline: .45rem; }
table.sortable th.group { text-align: left; }
.here.edge { border-left: 3px solid var(--accent); }
tfoot td, tfoot th { border-top: 2px solid var(--line); }
tbody tr:last-child > * { border-bottom: 1px solid var(--line); }
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
