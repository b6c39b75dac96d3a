"""The figures of the facts, one per fact, from the records of `cucb verify`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.facts.plan import Plan, Record
from contrastive_ucb.facts.rows import Row
from contrastive_ucb.facts.rules import floored_fit, sizes_of
from contrastive_ucb.report.plots import (
    GRAY,
    ROW,
    color_of,
    drawn,
    panels,
    plain_ticks,
    save_svg,
)
from contrastive_ucb.report.scores import mean_interval

Records = Mapping[str, Record]
MAIN = color_of("contrastive-ucb")
LOCKS = {"lock-exact": "exact negatives", "lock-sampled": "sampled negatives"}
CONTROLS = ("no-bonus", "epsilon-greedy", "uniform")
DRAWINGS: Mapping[str, Any] = tomllib.loads(
    files("contrastive_ucb.report").joinpath("templates/fact_figures.toml").read_text("utf-8")
)
CURVES, SWEEPS = DRAWINGS["curves"], DRAWINGS["sweeps"]
FIGURES = (*CURVES, "F7", "F8", *SWEEPS, "headline")


def write_figures(out: Path, plan: Plan, records: Records, rows: Sequence[Row]) -> list[Path]:
    """Write every figure whose runs were measured to <out>/figures as SVG."""
    folder = out / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in FIGURES:
        with suppress(KeyError):  # the runs of this fact were not requested
            save_svg(fact_figure(name, plan, records, rows), folder / f"{name}.svg")
            written.append(folder / f"{name}.svg")
    return written


def fact_figure(name: str, plan: Plan, records: Records, rows: Sequence[Row]) -> Figure:
    """One figure; KeyError if a run is missing."""
    if name == "headline":
        return headline_figure(rows)
    if name == "F7":
        return _solved_figure(records)
    if name == "F8":
        return _horizon_figure(
            [_sweep(records, plan, run, "solved_at") for run in ("horizon", "long-horizon")]
        )
    if name in SWEEPS:
        variables = SWEEPS[name]["runs"]
        sweeps = {v: _sweep(records, plan, run, "zeta", v) for run, v in variables.items()}
        return _sweeps_figure(sweeps, SWEEPS[name]["title"], SWEEPS[name]["log"])
    drawing = CURVES[name]
    lines = {
        label: (records[run].rounds, records[run].curve(measure))
        for label, (run, measure) in drawing["lines"].items()
    }
    labels: Any = {"xlabel": "round $k$", "ylabel": drawing["ylabel"]}
    slope = drawing.get("slope")
    figure = panels({drawing["title"]: lines}, log=True, slope=slope, **labels)
    if name == "F4":
        (axes,) = figure.axes
        axes.axhline(4.0, color=GRAY, linewidth=1)  # the largest possible zeta
        axes.set_ylim(bottom=1e-6)  # a class that contains the truth ends without error
    return figure


def headline_figure(rows: Sequence[Row]) -> Figure:
    """Measured exponents with intervals and targets: rates in k above, growth in sizes below."""
    by_name = {f"{row.fact} {row.part}": row for row in rows}
    exponents = DRAWINGS["exponents"].items()
    shown = [(text, by_name[name]) for name, text in exponents if name in by_name]
    if not shown:
        raise KeyError("no exponent was measured")
    rates = [pair for pair in shown if (pair[1].limit or 0) < 0]
    growths = [pair for pair in shown if pair not in rates]
    parts = [part for part in (rates, growths) if part]
    with drawn(1.1 + 0.25 * len(parts) + 0.26 * len(shown)) as figure:
        ratios = [len(part) for part in parts]
        panels = figure.subplots(len(parts), height_ratios=ratios, squeeze=False)[:, 0]
        for axes, part in zip(panels, parts, strict=True):
            for at, (_, row) in enumerate(part):
                color = color_of("lsvi-ucb") if row.state == "holds" else MAIN
                if row.low is not None and row.high is not None:
                    axes.plot([row.low, row.high], [at, at], color=color, linewidth=2.4)
                if row.value is not None:
                    axes.plot([row.value], [at], "o", color=color, markersize=5)
                if row.limit is not None:
                    axes.plot([row.limit] * 2, [at - 0.36, at + 0.36], color=GRAY, linewidth=2)
            axes.set_yticks(range(len(part)), [text for text, _ in part])
            axes.set_ylim(len(part) - 0.5, -0.5)
            axes.grid(axis="y", visible=False)
        panels[0].set_title("Measured rates")
        panels[-1].set_xlabel("exponent (gray: target)")
    return figure


def _sweep(
    records: Records, plan: Plan, name: str, measure: str, variable: str = "H"
) -> tuple[Array, Array]:
    """The values x (n,) of a variable, and what the runs measured (n_seeds, n)."""
    runs = [run for run in plan.runs.values() if run.name.split("/")[0] == name]
    computed = variable in ("d", "A", "1/C_S^-")
    x = [sizes_of(run)[variable] if computed else float(run.label) for run in runs]
    values = [records[run.name].total(measure) for run in runs]
    if not runs:
        raise KeyError(name)
    return np.array(x, dtype=float), np.stack(values, axis=-1)


def _sweeps_figure(sweeps: Mapping[str, tuple[Array, Array]], title: str, log: bool) -> Figure:
    """A panel per sweep: means with 95% intervals."""
    with drawn(0.5 + 1.9 * len(sweeps)) as figure:
        panels = np.atleast_1d(figure.subplots(len(sweeps), 1))
        for axes, (variable, (x, values)) in zip(panels, sweeps.items(), strict=True):
            mean, low, high = mean_interval(values)
            look: dict[str, Any] = {"color": MAIN, "linewidth": 1.2, "markersize": 4, "capsize": 2}
            axes.errorbar(x, mean, yerr=[mean - low, high - mean], fmt="o-", **look)
            axes.set(xlabel=f"${variable}$" if variable == "1/C_S^-" else variable, ylabel="zeta")
            if log:
                axes.set(xscale="log", yscale="log")
                plain_ticks(axes)
            _tick(axes, x)
        panels[0].set_title(title)
    return figure


def _horizon_figure(sweeps: Sequence[tuple[Array, Array]]) -> Figure:
    """Rounds to solve the lock against H on logarithmic axes, with three fits."""
    every = {
        float(h): column for x, values in sweeps for h, column in zip(x, values.T, strict=True)
    }
    x = np.array(sorted(every))
    values = np.stack([every[float(at)] for at in x], axis=-1)
    means, fine = np.nanmean(values, axis=0), np.geomspace(x[0], x[-1], 100)
    with drawn(3.3) as figure:
        axes = figure.add_subplot()
        axes.plot(x, values.T, ".", color=MAIN, alpha=0.35, markersize=3, label="_seeds")
        axes.plot(x, means, "o", color=MAIN, markersize=5, label="mean over seeds")
        for name, forward, dashes in (
            ("power law", np.log, (4, 1.5)),
            ("exponential", np.asarray, (1, 1)),
        ):
            fit = np.polyfit(forward(x), np.log(means), 1)
            line = np.exp(np.polyval(fit, forward(fine)))
            axes.plot(fine, line, color=GRAY, dashes=dashes, linewidth=1.4, label=name)
        square = floored_fit(x**2, means, fine**2)
        axes.plot(fine, square, color=GRAY, linewidth=1, label="$a + b H^2$")
        axes.set(xscale="log", yscale="log", xlabel="horizon $H$", ylabel="rounds")
        axes.set_title("F8: rounds to solve the lock")
        plain_ticks(axes)
        _tick(axes, x[(x < 9) | (x % 4 == 0)])  # the others would overlap
        axes.legend(frameon=False, fontsize=9)
    return figure


def _solved_figure(records: Records) -> Figure:
    """A panel per kind of negatives: the seeds of each agent that solved the lock."""
    counts = {}
    for name, title in LOCKS.items():
        runs = {"contrastive-ucb": name, **{agent: f"{name}-control/{agent}" for agent in CONTROLS}}
        at = {agent: records[run].total("solved_at") for agent, run in runs.items()}
        counts[title] = {agent: (int(np.isfinite(x).sum()), len(x)) for agent, x in at.items()}
    with drawn(1.0 + 2 * ROW * 6) as figure:
        for axes, (title, one) in zip(figure.subplots(2, 1), counts.items(), strict=True):
            colors = [color_of(agent) for agent in one]
            bars = axes.barh(list(one), [count for count, _ in one.values()], color=colors)
            axes.bar_label(bars, [f"{count} of {n}" for count, n in one.values()], padding=4)
            most = max(n for _, n in one.values())
            axes.set(xlim=(0, 1.2 * most), title=f"F7: {title}", xlabel="solved seeds")
            axes.invert_yaxis()
            axes.grid(axis="y", visible=False)
    return figure


def _tick(axes: Axes, x: Array) -> None:
    """A tick at every value of x."""
    axes.xaxis.set_major_locator(FixedLocator(list(x)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
