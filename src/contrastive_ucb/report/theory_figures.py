"""The figures of the facts, one a fact, from what `cucb verify` has measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from matplotlib.figure import Figure

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.files import write_atomically
from contrastive_ucb.facts.measure import Record
from contrastive_ucb.facts.plan import Plan
from contrastive_ucb.facts.rows import Row
from contrastive_ucb.report.figures import Curve, plot
from contrastive_ucb.report.palette import palette
from contrastive_ucb.report.style import GREY, to_svg
from contrastive_ucb.report.theory_headline import SHOWN, headline_figure
from contrastive_ucb.report.theory_sweeps import Sweep, horizon_figure, solved_figure, sweeps_figure

FIGURES = "figures"
HEADER = '<?xml version="1.0" encoding="utf-8"?>\n'
MOST, LEAST = 4.0, 1e-6  # zeta is at most 4; of what is smaller the picture shows nothing
HALF, WHOLE = (-0.5, "slope $k^{-1/2}$"), (-1.0, "slope $k^{-1}$")
LOCKS = {"lock-exact": "exact negatives", "lock-sampled": "sampled negatives"}
CONTROLS = ("no-bonus", "epsilon-greedy", "uniform")

Records = Mapping[str, Record]


def write_figures(out: Path, plan: Plan, records: Records, rows: Sequence[Row]) -> list[Path]:
    """Draw every figure whose runs were measured, as SVG, and the exponents of all rows."""
    figures = {}
    for name, draw in DRAWINGS.items():
        with suppress(MissingRunError):  # the fact was not asked for
            figures[name] = draw(records, plan)
    if any((row.fact, row.part) in SHOWN for row in rows):
        figures["headline"] = headline_figure(rows)
    folder = out / FIGURES
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        write_atomically(folder / f"{name}.svg", HEADER + to_svg(figure))
    return [folder / f"{name}.svg" for name in figures]


class MissingRunError(LookupError):
    """A figure needs a run that was not measured."""


def _of(records: Records, name: str) -> Record:
    if name not in records:
        raise MissingRunError(name)
    return records[name]


def _curves(records: Records, lines: Mapping[str, tuple[str, str]]) -> list[Curve]:
    """Curves by their labels, each a measure of a run; the first one stands out."""
    styles = palette(list(lines))
    found: list[Curve] = []
    for label, (run, measure) in lines.items():
        record = _of(records, run)
        found.append(
            Curve(label, record.rounds, record.ratio(measure), styles[label], first=not found)
        )
    return found


def _errors(records: Records, plan: Plan) -> Figure:
    lines = {
        "zeta": ("mdp/contrastive-ucb", "zeta"),
        "xi": ("mdp/contrastive-ucb", "xi"),
        "zeta, exact": ("mdp-exact", "zeta"),
    }
    return plot(
        _curves(records, lines), title="F1: model error", ylabel="squared L1 error", slope=WHOLE
    )


def _regret(records: Records, plan: Plan) -> Figure:
    lines = {
        "contrastive-ucb": ("mdp/contrastive-ucb", "average_regret"),
        "no-bonus": ("mdp-control/no-bonus", "average_regret"),
        "uniform": ("mdp-control/uniform", "average_regret"),
    }
    return plot(
        _curves(records, lines), title="F2: average regret", ylabel="average regret", slope=HALF
    )


def _optimism(records: Records, plan: Plan) -> Figure:
    lines = {
        "$\\bar V_1 - V^*$": ("mdp/contrastive-ucb", "optimism"),
        "bias it may have": ("mdp/contrastive-ucb", "allowed_bias"),
    }
    return plot(_curves(records, lines), title="F3: near-optimism", ylabel="value")


def _recovery(records: Records, plan: Plan) -> Figure:
    lines = {
        "zeta": ("finite/mdp", "zeta"),
        "its bound": ("finite/mdp", "recovery_bound"),
        "zeta, tiny": ("finite/tiny", "zeta"),
        "its bound, tiny": ("finite/tiny", "recovery_bound"),
    }
    figure = plot(_curves(records, lines), title="F4: finite class", ylabel="squared L1 error")
    (axes,) = figure.axes
    axes.axhline(MOST, color=GREY, linewidth=1)
    axes.set_ylim(bottom=LEAST)  # a class with the truth in it ends with no error at all
    return figure


def _potential(records: Records, plan: Plan) -> Figure:
    lines = {
        "first inequality": ("same-data", "potential"),
        "last, as printed": ("same-data", "potential_printed"),
        "last, corrected": ("same-data", "potential_corrected"),
    }
    return plot(
        _curves(records, lines), title="F5: elliptical potential", ylabel="left side / right side"
    )


def _bonus(records: Records, plan: Plan) -> Figure:
    lines = {
        "sum: mean": ("practical/sum", "bonus_mean"),
        "sum: spread": ("practical/sum", "bonus_spread"),
        "printed: mean": ("practical/averaged", "bonus_mean"),
        "printed: spread": ("practical/averaged", "bonus_spread"),
    }
    return plot(_curves(records, lines), title="F6: practical bonus over $(s,a)$", ylabel="bonus")


def _locks(records: Records, plan: Plan) -> Figure:
    groups = {
        title: {
            "contrastive-ucb": _of(records, name).total("solved_at"),
            **{
                agent: _of(records, f"{name}-control/{agent}").total("solved_at")
                for agent in CONTROLS
            },
        }
        for name, title in LOCKS.items()
    }
    return solved_figure(groups, "F7: seeds that opened the lock")


def _horizons(records: Records, plan: Plan) -> Figure:
    near = _sweep(records, plan, "horizon", "solved_at")
    far = _sweep(records, plan, "long-horizon", "solved_at")
    return horizon_figure([near, far], "F8: rounds to open the lock")


def _peers(records: Records, plan: Plan) -> Figure:
    agents = ("contrastive-ucb", "rep-ucb", "lsvi-ucb", "ucbvi")
    lines = {agent: (f"mdp/{agent}", "average_regret") for agent in agents}
    lines |= {"exact negatives": ("mdp-exact", "average_regret")}
    return plot(
        _curves(records, lines), title="F9: average regret of the peers", ylabel="average regret"
    )


def _same_data(records: Records, plan: Plan) -> Figure:
    lines = {
        "sampled": ("same-data", "zeta_sampled / zeta_likelihood"),
        "exact": ("same-data", "zeta_exact / zeta_likelihood"),
    }
    return plot(
        _curves(records, lines),
        title="F10: the same data, three fits",
        ylabel="zeta / zeta of max. likelihood",
    )


def _gaps(records: Records, plan: Plan) -> Figure:
    lines = {size: (f"game-long/game-{size}", "average_gap") for size in ("2x2", "3x3")}
    return plot(_curves(records, lines), title="F11: average duality gap", ylabel="gap", slope=HALF)


def _bracket(records: Records, plan: Plan) -> Figure:
    lines = {
        f"{name}, {size}": (f"game/game-{size}", measure)
        for size in ("2x2", "3x3")
        for name, measure in (("above", "upper_slack"), ("below", "lower_slack"))
    }
    return plot(
        _curves(records, lines), title="F12: bounds around V_Nash", ylabel="distance from V_Nash"
    )


def _cce(records: Records, plan: Plan) -> Figure:
    lines = {size: (f"game/game-{size}", "cce_over_iota") for size in ("2x2", "3x3")}
    return plot(
        _curves(records, lines),
        title="F13: gap of the CCE",
        ylabel="largest gap / $\\iota_k$",
    )


def _orders(records: Records, plan: Plan) -> Figure:
    sweeps = [
        _sweep(records, plan, "rank", "zeta", "rank of the model"),
        _sweep(records, plan, "tilt", "zeta", "tilt of $P^-$"),
    ]
    return sweeps_figure(sweeps, "F14: wrong rank, tilted $P^-$", "zeta", log=False)


def _growth(records: Records, plan: Plan) -> Figure:
    sweeps = [
        _sweep(records, plan, "true-rank", "zeta", "d"),
        _sweep(records, plan, "actions", "zeta", "A"),
        _sweep(records, plan, "tilt", "zeta", "1/C_S^-"),
    ]
    return sweeps_figure(sweeps, "F15: growth of the model error", "zeta", log=True)


def _sweep(records: Records, plan: Plan, name: str, measure: str, variable: str = "H") -> Sweep:
    """What the runs of a sweep came to."""
    runs = [run for run in plan.runs.values() if run.name.split("/")[0] == name]
    if not runs:
        raise MissingRunError(name)
    values: Sequence[Array] = [_of(records, run.name).total(measure) for run in runs]
    return Sweep.of(runs, values, variable)


DRAWINGS: dict[str, Callable[[Records, Plan], Figure]] = {
    "F1": _errors,
    "F2": _regret,
    "F3": _optimism,
    "F4": _recovery,
    "F5": _potential,
    "F6": _bonus,
    "F7": _locks,
    "F8": _horizons,
    "F9": _peers,
    "F10": _same_data,
    "F11": _gaps,
    "F12": _bracket,
    "F13": _cce,
    "F14": _orders,
    "F15": _growth,
}
