"""`cucb bench deep`: what can be asked for, the marks, and the table of what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from contrastive_ucb.commands.marks import table
from contrastive_ucb.core.checks import check_size

Figures = dict[str, float | None]

MARKS: dict[str, tuple[str, float]] = {
    "yardstick_over_paper": (">=", 2.5),
    "yardstick_default_over_paper": (">=", 3.5),
    "yardstick_spr_over_spr": (">=", 1.7),
    "yardstick_over_reference": (">=", 1.4),
    "spr_over_shared_view": ("<=", 1.08),
    "paper_over_spr": ("<=", 1.1),
    "spr_over_der": (">=", 3.0),
    "spr_over_drq": (">=", 3.0),
    "acting_share_of_loop": ("<=", 0.03),
    "replay_sample_ms": ("<=", 2.0),
    "replay_gb_100k": ("<=", 0.9),
    "minatar_updates_per_second_one_core_spr": (">=", 60.0),
    "minatar_updates_per_second_one_core_spr_ucb_paper": (">=", 60.0),
}
NO_YARDSTICK = "no yardstick: it is benchmarks/yardstick.py of the repository, which is not here"


@dataclass(frozen=True)
class Deep:
    """Speed and memory of SPR and SPR-UCB, with a plain implementation as the yardstick."""

    game: str = "Pong"
    """An Atari game."""
    turns: int = 9
    """Times are medians over as many turns."""
    updates: int = 4
    """Updates a turn."""
    threads: int = 2
    """Threads of torch, for all alike; MinAtar and DeepSea are always measured with one."""
    seed: int = 0
    """Of the environments and the learners."""
    quick: bool = False
    """One turn of one update with small batches and memories: whether it runs, not how fast."""
    out: Path | None = None
    """A file to write the figures to as JSON, besides printing them."""
    json: bool = False
    """Print the figures as one JSON object, the last line of stdout."""

    def __post_init__(self) -> None:
        for name, least in (("turns", 1), ("updates", 1), ("threads", 1), ("seed", 0)):
            check_size(name, getattr(self, name), least)


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    turns: int
    updates: int  # of a turn, Atari
    small_updates: int  # of a turn, MinAtar and DeepSea
    batch: int
    fill: int  # steps in the memories before anything is timed; algorithm-1 looks at 2048
    stored: int  # steps in the memory whose size is measured
    matrix: int  # rows and columns of the matrices whose product gives the peak


def sizes_of(options: Deep) -> Sizes:
    if options.quick:
        return Sizes(1, 1, 1, batch=4, fill=40, stored=2000, matrix=128)
    turns, updates = options.turns, options.updates
    return Sizes(turns, updates, 50, batch=32, fill=2100, stored=100_000, matrix=2048)


def measure(options: Deep) -> Figures:
    """All figures, flat, by name; None where there is no yardstick."""
    from contrastive_ucb.commands.deep_costs import costs  # imports torch

    return costs(options, sizes_of(options))


def text_of(figures: Figures) -> str:
    """A line a figure, with its mark and whether that holds."""
    text = table("deep", figures, MARKS)
    return text if figures["ms_update_yardstick_spr"] is not None else f"{text}\n{NO_YARDSTICK}"
