"""The table of a bench: a line a figure, with its mark and whether that holds."""

from __future__ import annotations

from collections.abc import Mapping

Marks = Mapping[str, tuple[str, float]]  # of a figure: ">=" or "<=", and the number


def table(bench: str, figures: Mapping[str, float | None], marks: Marks) -> str:
    """All figures; None is shown as a dash and has no verdict."""
    width = max(map(len, figures))
    lines = [f"bench {bench}", f"  {'':{width}}  measured  mark"]
    for name, value in figures.items():
        shown = "-" if value is None else f"{value:.4g}"
        lines.append(f"  {name:{width}} {shown:>9}  {_verdict(name, value, marks)}".rstrip())
    return "\n".join(lines)


def _verdict(name: str, value: float | None, marks: Marks) -> str:
    if name not in marks or value is None:
        return ""
    sign, mark = marks[name]
    holds = value >= mark if sign == ">=" else value <= mark
    return f"{sign} {mark:<5g} {'holds' if holds else 'does not'}"
