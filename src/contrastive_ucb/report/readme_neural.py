"""The results of the neural class, for the README and docs/neural.md, from results/neural/.

python -m contrastive_ucb.report.readme_neural    writes the part of docs/neural.md, and its figure
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from contrastive_ucb.core.files import write_atomically
from contrastive_ucb.envs.lock import BRIBE
from contrastive_ucb.report.markers import between
from contrastive_ucb.report.neural_figure import Growth, Locks, growth_of, trajectories_figure
from contrastive_ucb.report.records import records_of
from contrastive_ucb.report.style import to_svg
from contrastive_ucb.report.tables import NOTHING, Table

Record = Mapping[str, Any]

FIGURE = "trajectories.svg"
CONTROL = "-rainbow"  # how names end of those of the deep tier, whose summaries are others


def main(root: Path = Path()) -> None:
    page, folder = root / "docs" / "neural.md", root / "results" / "neural"
    records = records_of(folder)
    write_atomically(page, between(page.read_text(), "measured", neural_text(records)))
    if locks := _locks(records):
        write_atomically(folder / FIGURE, to_svg(trajectories_figure(locks)))


def neural_text(records: Mapping[str, Record]) -> str:
    """Who opens the rich locks, the continuous MDP and the costs; what has no file is left out."""
    rich = {name: one for name, one in records.items() if name.startswith("rich-")}
    locks = [one for name, one in rich.items() if not name.endswith(CONTROL)]
    controls = [one for name, one in rich.items() if name.endswith(CONTROL)]
    parts = []
    if locks:
        parts += [
            "**Rich observations** (networks, reward learnt; A=10 in the lock, 3 by 3 in the game;"
            " trajectories until the stop rule, or all of the budget)",
            lock_table(sorted(locks, key=_place)),
        ]
    if (growth := growth_of(_locks(records))) is not None:
        parts.append(growth_text(growth, growth_of(_locks(records, together=True))))
    parts += [control_text(one) for one in sorted(controls, key=_steps)]
    if "continuous" in records:
        parts.append(continuous_text(records["continuous"]))
    if "bench" in records:
        parts.append(costs_text(records["bench"]))
    return "\n\n".join(parts)


def lock_table(records: Sequence[Record]) -> str:
    """How many seeds opened each lock, and after how many trajectories."""
    rows = []
    for record in records:
        runs = record["summary"]["runs"]
        solved = [run["trajectories"] for run in runs if run["solved_at"] is not None]
        spent = max(run["trajectories"] for run in runs)
        shut = len(solved) < len(runs)
        span = f" ({min(solved):,} to {max(solved):,})" if len(solved) > 1 else ""
        when = f"{fmean(solved):,.0f}{span}" if solved else "never"
        rows.append(
            (
                f"{runs[0]['env']}, H={_horizon(record)}",
                _name(record, runs[0]),
                f"{len(solved)} of {len(runs)}",
                when,
                f"{spent:,}" if shut else NOTHING,
            )
        )
    header = ("task", "algorithm", "seeds that solved it", "trajectories: mean (range)")
    return Table((*header, "spent without solving it"), tuple(rows)).to_markdown()


def growth_text(usual: Growth, together: Growth | None) -> str:
    """How trajectories grow with H, with the usual settings, and with all that were tried."""
    text = (
        "Over the H that were opened with the usual settings, the trajectories of contrastive-ucb"
        f" grow like H to the power {usual.power:.1f}: on the logarithms of the means over seeds"
        f" that opened the lock, this line leaves an error of {usual.power_error:.2f}, an"
        f" exponential in H one of {usual.exponential_error:.2f}."
    )
    if together is None or together == usual:
        return text
    return (
        f"{text} With the locks that were opened with other settings, the power is"
        f" {together.power:.1f}, and the errors are {together.power_error:.2f} and"
        f" {together.exponential_error:.2f}."
    )


def continuous_text(record: Record) -> str:
    slopes, runs = record["summary"]["zeta_slopes"], record["summary"]["runs"]
    steep = sum(one <= -0.8 for one in slopes)
    above = sum(run["strictly_optimistic_fraction"] == 1 for run in runs)
    rounds = runs[0]["rounds"]
    return (
        f"**States in [0, 1]** (d=4, H=4, A=3; {rounds:,} rounds, {len(slopes)} seeds): zeta falls"
        f" like k to the power {median(slopes):.2f} (median; {min(slopes):.2f} to"
        f" {max(slopes):.2f}), with -0.8 or steeper in {steep} of {len(slopes)} seeds. V-bar was at"
        f" least V* in every round of {above} of {len(runs)} seeds."
    )


def control_text(record: Record) -> str:
    """How a learner of the deep tier does on the same locks."""
    runs = record["summary"]["runs"]
    scores = [run["evaluation"]["mean"] for run in runs]
    horizon = re.fullmatch(r"RichLock-(\d+)", runs[0]["env"])
    assert horizon
    low, high = f"{min(scores):.2f}", f"{max(scores):.2f}"
    returned = low if len(runs) == 1 else f"{low} to {high}"
    seeds = "one seed" if len(runs) == 1 else f"{len(runs)} seeds"
    return (
        f"**A deep learner without the bonus, H={horizon[1]}** (`{record['command']}`): after"
        f" {min(run['episodes'] for run in runs):,} episodes it returns {returned} of 1, where a"
        f" wrong first action returns {BRIBE / 2:.2f} on average ({seeds}, 20 episodes of"
        " evaluation)."
    )


def _steps(control: Record) -> int:
    return int(control["summary"]["runs"][0]["steps"])


def costs_text(record: Record) -> str:
    figures = record["summary"]
    return (
        "**Costs of networks** (`make bench NAME=neural`, H=12): refitting all steps together is"
        f" {figures['one_by_one_over_together']:.1f}x as fast as one after another; a round takes"
        f" {figures['core_seconds_a_round']:.1f} s of one core."
    )


def _locks(records: Mapping[str, Record], *, together: bool = False) -> Locks:
    """The runs of the lock of one player, by algorithm and horizon.

    together  algorithms with other settings are not told apart
    """
    found: dict[tuple[str, int], list[Any]] = {}
    for record in records.values():
        for run in record["summary"].get("runs", []):
            if run.get("env") == "rich-lock":
                name = run["algo"] if together else _name(record, run)
                found.setdefault((name, _horizon(record)), []).append(run)
    return found


def _place(record: Record) -> tuple[str, int, int]:
    """By task and horizon, the algorithm before its controls."""
    run = record["summary"]["runs"][0]
    return run["env"], _horizon(record), 0 if run["algo"].startswith("contrastive") else 1


def _name(record: Record, run: Mapping[str, Any]) -> str:
    """The algorithm, with those settings of the command that are not the usual ones."""
    found = re.findall(r"--(alpha|epochs) (\S+)", record["command"])
    changes = ", ".join(f"{name} {value}" for name, value in found)
    return f"{run['algo']} ({changes})" if changes else str(run["algo"])


def _horizon(record: Record) -> int:
    found = re.search(r"--horizon (\d+)", record["command"])
    assert found
    return int(found[1])


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
