"""Generated parts of pages that are otherwise written by hand."""

from __future__ import annotations

from contrastive_ucb.core.errors import UserError


def between(text: str, name: str, part: str) -> str:
    """The page with what stands between <!-- name:begin --> and <!-- name:end --> replaced."""
    opening, closing = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, begin, rest = text.partition(opening)
    _, end, after = rest.partition(closing)
    if not (begin and end):
        raise UserError(f"the page needs the markers {opening} and {closing}")
    return f"{before}{opening}\n{part}\n{closing}{after}"
