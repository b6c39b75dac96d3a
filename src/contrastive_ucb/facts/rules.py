"""Rules: from the measurements of runs to a number, its interval, and whether the claim holds.

A rule is a function of a fact and of the records of its runs. facts.toml names it, with blanks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import binomtest

from contrastive_ucb.agents.finite.config import AgentConfig, GameConfig
from contrastive_ucb.agents.finite.tabular_model import checked_negatives
from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.envs import LowRankGame, LowRankMDP
from contrastive_ucb.envs.batch import EnvBatch
from contrastive_ucb.evaluation.exact import potential
from contrastive_ucb.facts.bounds import recovery_bound, regret_bound
from contrastive_ucb.facts.plan import Fact, Record, Run
from contrastive_ucb.facts.rows import Row, State
from contrastive_ucb.representation.contrastive import contrastive_loss
from contrastive_ucb.stats.bootstrap import LEVEL, Interval, percentile_interval
from contrastive_ucb.stats.slopes import slope, slope_interval

RESAMPLES = 10_000
ROUNDING = 1e-9
LEAST = 1e-12  # replaces zero regret, which has no logarithm; too small to change the mean
SMALL_RIDGE = 0.1  # of the example of erratum E16
RATES = np.linspace(0.01, 1.0, 100)  # values of c in e^(c x)
SHORT = {"n_states": "S", "n_actions": "A", "n_dead": "n_dead", "rank": "d", "horizon": "H"}


@dataclass(frozen=True)
class Outcome:
    """The measured value with a 95% interval; `held` is None for rules without a target.

    `mark` and `limit` replace those of the fact if the target depends on the runs.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    held: bool | None = None
    note: str = ""
    mark: str = ""
    limit: float | None = None

    @classmethod
    def of(cls, interval: Interval, held: bool | None = None, note: str = "") -> Outcome:
        value, low, high = (float(part) for part in interval)
        return cls(value, low, high, held, note)


# Intervals


def mean_interval(values: Array) -> Interval:
    """Mean over seeds with a percentile bootstrap interval.   values (B,)"""
    return ratio_interval(values, np.ones(len(values)))


def ratio_interval(numerator: Array, denominator: Array) -> Interval:
    """Ratio of two means, both (B,). Seeds are resampled in pairs: each has its own MDP."""
    times = _resampled(len(numerator))
    drawn = (times @ numerator) / (times @ denominator)
    return percentile_interval(np.asarray(numerator.mean() / denominator.mean()), drawn, LEVEL)


def _resampled(count: int) -> IntArray:
    """How often each seed is drawn in each bootstrap resample.   (RESAMPLES, B)"""
    return stream(0, "facts").multinomial(count, np.full(count, 1 / count), RESAMPLES)


# Rules for one run


def fitted_slope(fact: Fact, record: Record) -> Interval:
    """Slope of a curve over the rounds K / window .. K, on logarithmic axes."""
    rounds = record.rounds.astype(float)
    curves = np.maximum(record.curve(fact.measure), LEAST)
    return slope_interval(rounds, curves, (rounds[-1] / fact.window, rounds[-1]))


def slope_at_most(fact: Fact, record: Record) -> Outcome:
    """The slope is at most the limit."""
    fit = fitted_slope(fact, record)
    return Outcome.of(fit, bool(fit.estimate <= fact.target))


def slope_reaches(fact: Fact, record: Record) -> Outcome:
    """The interval of the slope contains the limit or lies below it."""
    fit = fitted_slope(fact, record)
    return Outcome.of(fit, bool(fit.low <= fact.target))


def flat_ratio(fact: Fact, record: Record) -> Outcome:
    """The interval of the slope of a ratio contains the limit, 0."""
    fit = fitted_slope(fact, record)
    last = record.curve(fact.measure)[:, -1]
    held = bool(fit.low <= fact.target <= fit.high)
    return Outcome.of(fit, held, f"the ratio is {last.mean():.2f} at K")


def rounds_for_epsilon(fact: Fact, record: Record) -> Outcome:
    """The exponent of K(epsilon) in 1 / epsilon is at most that of the theorem's bound.

    K(epsilon) is the first round from which on the mean gap of all rounds, the expected gap of a
    uniformly drawn policy, stays at most at epsilon (l.227, l.293). The bound is of order
    1 / sqrt(K) up to logarithms; its exponent over the same rounds is 2 and what they add.
    """
    inside = record.rounds >= record.rounds[-1] / fact.window
    rounds = record.rounds[inside].astype(float)
    curves = np.maximum(record.curve(fact.measure)[:, inside], LEAST)
    drawn = _resampled(len(curves)) / len(curves) @ curves
    size = sizes_of(record.run)
    horizon, rank, n_actions = (int(size[name]) for name in ("H", "d", "A"))
    rest = size["C_S^-"], size["log |F|"], size["delta"]
    bound = regret_bound(rounds, horizon, rank, n_actions, *rest)
    limit = float(accuracy_exponent(rounds, bound))
    fit = percentile_interval(
        accuracy_exponent(rounds, curves.mean(0)), accuracy_exponent(rounds, drawn), LEVEL
    )
    outcome = Outcome.of(fit, bool(fit.estimate <= limit))
    return replace(outcome, mark=f"at most that of the theorem, {limit:.2f}", limit=limit)


def accuracy_exponent(rounds: Array, curves: Array) -> Array:
    """The slope of log K(epsilon) on log(1 / epsilon), where K(epsilon) inverts a curve.

    At epsilon = sup of the curve from K on, K(epsilon) = K, so the recorded rounds are the data.

    rounds  K  (n,)  curves (..., n); returns (...)
    """
    highest = np.maximum.accumulate(curves[..., ::-1], axis=-1)[..., ::-1]
    accuracy = -np.log(highest)
    centered = accuracy - accuracy.mean(-1, keepdims=True)
    return np.asarray((centered * np.log(rounds)).sum(-1) / (centered**2).sum(-1))


def always(fact: Fact, record: Record) -> Outcome:
    """In every seed, the share of rounds in which the inequality holds is at least the limit."""
    shares = record.total(fact.measure)
    return Outcome.of(mean_interval(shares), bool(shares.min() >= fact.target))


def informative(fact: Fact, record: Record) -> Outcome:
    """Share of rounds in which the allowed bias is below V*; otherwise V-bar = 0 would satisfy it.

    The rounds between two recorded rounds count as the later one.
    """
    weights = np.diff(record.rounds, prepend=0) / record.rounds[-1]
    below = record.curve(fact.measure) < record.total("optimal_value")[:, None]  # (B, n)
    return Outcome.of(mean_interval(below @ weights))


def worst(fact: Fact, record: Record) -> Outcome:
    """The maximum over seeds and rounds is at most the limit."""
    largest = float(record.total(fact.measure).max())
    return Outcome(largest, held=bool(largest <= fact.target + ROUNDING))


def solved(fact: Fact, record: Record) -> Outcome:
    """The number of seeds that solved the task, with a Wilson interval; the limit is a share."""
    rounds = record.total("solved_at")
    count, total = int(np.isfinite(rounds).sum()), len(rounds)
    share = binomtest(count, total).proportion_ci(LEVEL, method="wilson")
    median = f", median round {np.nanmedian(rounds):,.0f}" if count else ""
    held = bool(count == fact.target * total)
    note = f"of {total} seeds{median}"
    return Outcome(float(count), share.low * total, share.high * total, held, note)


def ratio(fact: Fact, first: Record, second: Record) -> Outcome:
    """The mean of the first run divided by the mean of the second."""
    return Outcome.of(ratio_interval(first.total(fact.measure), second.total(fact.measure)))


def mean(fact: Fact, record: Record) -> Outcome:
    """The mean of a total over seeds, or the seconds of the run."""
    if fact.measure == "seconds":
        return Outcome(record.seconds)
    return _mean_of(record.total(fact.measure))


def mean_at(fact: Fact, record: Record) -> Outcome:
    """The mean of a curve over seeds in one round."""
    (column,) = np.nonzero(record.rounds == fact.at)
    if len(column) != 1:
        raise UserError(
            f"run {record.run.name!r} did not record round {fact.at}; choose one of"
            f" {', '.join(map(str, record.rounds))}"
        )
    return _mean_of(record.curve(fact.measure)[:, column[0]])


def _mean_of(values: Array) -> Outcome:
    if not np.isfinite(values).all():
        return Outcome(None, note=f"never in {int(np.isnan(values).sum())} of {len(values)} seeds")
    return Outcome.of(mean_interval(values))


def small_ridge(fact: Fact) -> Outcome:
    """The example of erratum E16: d = 1, one G = 1, lambda = .1."""
    left, right = potential(np.ones((1, 1, 1)), SMALL_RIDGE)
    value = float(left / right)
    return Outcome(value, held=bool(value <= fact.target))


def learning_target(fact: Fact) -> Outcome:
    """The largest relative distance of P / P^- from a numerical minimizer of the expected loss.

    In a small random environment, for every z and s'. P^- is tilted, so that it is not uniform.
    """
    make = {"lowrank": LowRankMDP, "lowrank-game": LowRankGame}[fact.variable]
    batch = EnvBatch([make(n_states=4, n_actions=2, rank=2, horizon=2, seed=0)])
    negatives = checked_negatives(None, AgentConfig(tilt=1.0), batch)
    worst_distance = 0.0
    for row in batch.kernel.table().reshape(-1, batch.n_states):
        for positive, negative in zip(row, negatives, strict=True):
            cell = np.array([[positive]]), np.array([[negative]])
            found = minimize_scalar(
                lambda log_ratio, cell=cell: contrastive_loss(np.exp([[log_ratio]]), *cell),
                bounds=(-20, 20),
                method="bounded",
                options={"xatol": 1e-9},
            )
            target = np.log(positive / negative)
            worst_distance = max(worst_distance, abs(np.expm1(found.x - target)))
    return Outcome(float(worst_distance), held=bool(worst_distance <= fact.target))


# Rules for the runs of a sweep


def totals(fact: Fact, records: Sequence[Record]) -> Array:
    """The measure of all runs, (B, n)."""
    return np.stack([record.total(fact.measure) for record in records], axis=-1)


def power_law(fact: Fact, *records: Record) -> Outcome:
    """The exponent of a power law in x is at most the limit, and every seed solves the task."""
    x, curves, unsolved = _rounds_to_solve(fact, records)
    fit = slope_interval(x, curves)
    held = bool(fit.estimate <= fact.target and not unsolved)
    means = curves.mean(0)
    listed = ", ".join(f"{at:g}: {mean:.0f}" for at, mean in zip(x, means, strict=True))
    half = min(len(x) // 2, len(x) - 2)
    late = float(slope(x[half:], means[half:]))
    note = f"mean rounds {listed}; over the upper half of H the exponent is {late:.2f}"
    note += f"; {unsolved} runs did not solve it" if unsolved else ""
    return Outcome.of(fit, held, note)


def better_fit(fact: Fact, *records: Record) -> Outcome:
    """The misfit of a power of x, divided by that of an exponential in x, is below the limit.

    Neither has a constant term, so the note also gives the misfits of a + b x^2 and a + b e^(c x).
    """
    x, curves, _ = _rounds_to_solve(fact, records)
    means = curves.mean(0)
    drawn = _resampled(len(curves)) / len(curves) @ curves
    power, exponential = misfit(np.log(x), means), misfit(x, means)
    quotient = percentile_interval(
        power / exponential, misfit(np.log(x), drawn) / misfit(x, drawn), LEVEL
    )
    held = bool(quotient.estimate < fact.target)
    note = (
        f"misfit of log rounds: power law {power:.3f}, exponential {exponential:.3f},"
        f" a + b H^2 {floored_misfit(x**2, means):.3f},"
        f" a + b e^(cH) {exponential_misfit(x, means):.3f}"
    )
    return Outcome.of(quotient, held, note)


def _rounds_to_solve(fact: Fact, records: Sequence[Record]) -> tuple[Array, Array, int]:
    """x (n,), the rounds to solve the task (B, n), and the number of runs that did not.

    A seed that did not solve the task counts with all its rounds.
    """
    x = np.array([float(record.run.label) for record in records])
    rounds = totals(fact, records)
    last = np.array([float(record.rounds[-1]) for record in records])
    return x, np.where(np.isnan(rounds), last, rounds), int(np.isnan(rounds).sum())


def misfit(x: Array, y: Array) -> Array:
    """Root mean square of log y around its least-squares line in x.   y (..., n) -> (...)"""
    line = np.stack([np.ones_like(x), x], axis=-1)
    project = line @ np.linalg.pinv(line)  # onto all lines
    rest = np.log(y) - np.log(y) @ project
    return np.asarray(np.sqrt((rest**2).mean(-1)))


def floored_misfit(rising: Array, y: Array) -> float:
    """The same around the best a + b rising.   both (n,)"""
    fitted = np.maximum(floored_fit(rising, y, rising), 1e-9)  # log of a negative fit
    return float(np.sqrt((np.log(fitted / y) ** 2).mean()))


def floored_fit(rising: Array, y: Array, at: Array) -> Array:
    """a + b at, where a + b rising fits y by least squares of relative errors."""
    shape = np.stack([np.ones_like(rising), rising], axis=-1)
    weights, *_ = np.linalg.lstsq(shape / y[:, None], np.ones_like(y), rcond=None)
    return np.asarray(weights[0] + weights[1] * at)


def exponential_misfit(x: Array, y: Array) -> float:
    """The misfit of the best a + b e^(c x), which has one more parameter than the others."""
    return min(floored_misfit(np.exp(c * x), y) for c in RATES)


def order(fact: Fact, *records: Record) -> Outcome:
    """The number of neighbors whose means are in order: falling to the smallest, then rising.

    The note says for how many the bootstrap interval of the difference excludes 0.
    """
    labels = [float(record.run.label) for record in records]
    assert fact.smallest_at is not None
    smallest = labels.index(fact.smallest_at)
    values = totals(fact, records)
    means = values.mean(0)
    rises = np.diff(means) > 0
    steps = [mean_interval(step) for step in np.diff(values).T]
    significant = sum(bool(step.low > 0 or step.high < 0) for step in steps)
    right = np.where(np.arange(len(rises)) < smallest, ~rises, rises)
    listed = ", ".join(
        f"{record.run.label}: {mean:.3g}" for record, mean in zip(records, means, strict=True)
    )
    note = f"of {len(rises)} neighbors, {significant} with a significant difference; {listed}"
    return Outcome(float(right.sum()), held=bool(right.all()), note=note)


def growth(fact: Fact, *records: Record) -> Outcome:
    """The exponent in the variable is at most that of the lemma's bound over the same runs.

    In the bound, log |F| is the number of parameters d (Z + S), in place of the covering number of
    the remark on infinite classes (l.212).
    """
    sizes = [sizes_of(record.run) for record in records]
    x = np.array([size[fact.variable] for size in sizes])
    limit = float(slope(x, np.array([size["bound"] for size in sizes])))
    fit = slope_interval(x, totals(fact, records))
    note = f"{fact.variable} = {', '.join(f'{value:.3g}' for value in x)}"
    outcome = Outcome.of(fit, bool(fit.estimate <= limit), note)
    return replace(outcome, mark=f"at most that of the lemma, {limit:.2f}", limit=limit)


def sizes_of(run: Run) -> dict[str, float]:
    """The sizes of a run, and the lemma's bound in its last round.

    log |F| is the number of parameters, see `growth`. In a game A counts joint actions.
    """
    problem = run.problem
    env = problem.environment(0)
    config = GameConfig(**dict(problem.agent_settings))  # also of MDPs
    batch = EnvBatch([env])
    floor = float(checked_negatives(None, config, batch).min())
    rank = config.rank or env.rank
    assert rank is not None
    n_parameters = rank * (batch.n_pairs + batch.n_states)
    bound = recovery_bound(problem.rounds, batch.horizon, rank, floor, n_parameters, config.failure)
    return {
        "H": batch.horizon,
        "d": rank,
        "A": batch.n_actions,
        "C_S^-": floor,
        "1/C_S^-": 1 / floor,
        "log |F|": n_parameters,
        "delta": config.failure,
        "bound": bound,
    }


OF_CURVES = (slope_at_most, slope_reaches, rounds_for_epsilon, flat_ratio, informative, mean_at)
OF_TOTALS = (always, worst, solved, mean, ratio)
OF_SEVERAL_RUNS = (power_law, better_fit, order, growth)
RULES: dict[str, Callable[..., Outcome]] = {
    rule.__name__.replace("_", " "): rule
    for rule in (*OF_CURVES, *OF_TOTALS, *OF_SEVERAL_RUNS, small_ridge, learning_target)
}


# Rows


def row_of(fact: Fact, records: Mapping[str, Record]) -> Row:
    """The row of a fact, from the records of its runs."""
    measured = [records[name] for name in fact.runs]
    result = RULES[fact.rule](fact, *measured) if fact.rule else Outcome(None)
    state: State = "holds" if result.held else "does not hold"
    if fact.reported or fact.mark == "none" or result.held is None:
        state = "reported" if fact.rule else "not run"
    changes: dict[str, Any] = {
        "setting": fact.setting or setting_of([record.run for record in measured]),
        "mark": result.mark or fact.mark,
        "note": result.note or fact.note,
        "state": state,
        "seconds": round(sum(record.seconds for record in measured), 1),
        **{name: _rounded(getattr(result, name)) for name in ("value", "low", "high")},
        "limit": fact.limit if result.limit is None else _rounded(result.limit),
    }
    return Row(**{field.name: getattr(fact, field.name) for field in fields(Row)} | changes)


def setting_of(runs: Sequence[Run]) -> str:
    """Environment, algorithm, rounds and seeds of the first run, and the labels of all runs."""
    if not runs:
        return "an example without a run"
    problem, seeds = runs[0].problem, runs[0].seeds
    env = problem.env_settings
    sizes = [f"{short}={_plain(env[name])}" for name, short in SHORT.items() if name in env]
    agent = {k: v for k, v in problem.agent_settings.items() if k != "rank" or v != env.get("rank")}
    parts = [
        " ".join([problem.env, *sizes]),
        " ".join([problem.algo, *(f"{name}={_plain(value)}" for name, value in agent.items())]),
        f"K={problem.rounds:,}",
        f"{seeds} seed{'s' * (seeds != 1)}",
    ]
    if len(runs) > 1:
        parts.append(" | ".join(run.label or run.name for run in runs))
    return ", ".join(parts)


def _plain(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
