"""Rules that compare the runs of a sweep: how a number grows with what is varied."""

from __future__ import annotations

import numpy as np

from contrastive_ucb.agents.finite.config import AgentConfig
from contrastive_ucb.agents.finite.parts import checked_negatives
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.envs.batch import EnvBatch
from contrastive_ucb.facts.bounds import recovery_bound
from contrastive_ucb.facts.outcome import RESAMPLES, Case, Outcome, mean_interval, of_interval
from contrastive_ucb.facts.run import Run
from contrastive_ucb.runs.problem import make_env
from contrastive_ucb.stats.bootstrap import LEVEL, percentile_interval
from contrastive_ucb.stats.slopes import slope, slope_interval

RATES = np.linspace(0.01, 1.0, 100)  # c that are tried in e^(c x)


def power_law(case: Case) -> Outcome:
    """The exponent of a power law in x must be at most the limit, and every seed must get there."""
    x, curves, unsolved = _solving(case)
    found = slope_interval(x, curves)
    assert case.fact.limit is not None
    held = bool(found.estimate <= case.fact.limit) and not unsolved
    means = curves.mean(0)
    listed = ", ".join(f"{at:g}: {mean:.0f}" for at, mean in zip(x, means, strict=True))
    half = min(len(x) // 2, len(x) - 2)
    late = float(slope(x[half:], means[half:]))
    note = f"mean rounds {listed}; over the upper half of H the exponent is {late:.2f}"
    return of_interval(
        found, held, note + (f"; {unsolved} runs never solved it" if unsolved else "")
    )


def better_fit(case: Case) -> Outcome:
    """The misfit of a power of x over that of an exponential in x must be below the limit.

    Neither has room for a constant, so a + b x^2 and a + b e^(c x) are told beside them.
    """
    x, curves, _ = _solving(case)
    means = curves.mean(0)
    count = len(curves)
    times = stream(0, "facts").multinomial(count, np.full(count, 1 / count), RESAMPLES) / count
    drawn = times @ curves
    power, exponential = misfit(np.log(x), means), misfit(x, means)
    ratio = percentile_interval(
        power / exponential, misfit(np.log(x), drawn) / misfit(x, drawn), LEVEL
    )
    held = None if case.fact.limit is None else bool(ratio.estimate < case.fact.limit)
    note = (
        f"misfit of log rounds: power law {power:.3f}, exponential {exponential:.3f},"
        f" a + b H^2 {floored_misfit(x**2, means):.3f},"
        f" a + b e^(cH) {exponential_misfit(x, means):.3f}"
    )
    return of_interval(ratio, held, note)


def _solving(case: Case) -> tuple[Array, Array, int]:
    """x (n,), the rounds to solve the task (B, n), and how many runs did not.

    A seed that has not solved it counts with all its rounds.
    """
    x = np.array([float(run.label) for run in case.runs])
    solved = np.stack([record.total(case.fact.measure) for record in case.records], axis=-1)
    spent = np.array([float(record.rounds[-1]) for record in case.records])
    return x, np.where(np.isnan(solved), spent, solved), int(np.isnan(solved).sum())


def misfit(x: Array, y: Array) -> Array:
    """Root mean square of log y around its least-squares line in x.   y (..., n) -> (...)"""
    line = np.stack([np.ones_like(x), x], axis=-1)
    project = line @ np.linalg.pinv(line)  # onto all lines
    rest = np.log(y) - np.log(y) @ project
    return np.asarray(np.sqrt((rest**2).mean(-1)))


def floored_misfit(rising: Array, y: Array) -> float:
    """The same around the best a + b rising.   both (n,)"""
    fitted = np.maximum(floored_fit(rising, y, rising), 1e-9)  # below zero is as bad as any
    return float(np.sqrt((np.log(fitted / y) ** 2).mean()))


def floored_fit(rising: Array, y: Array, at: Array) -> Array:
    """a + b at, where a + b rising is nearest to y by least squares of relative errors."""
    shape = np.stack([np.ones_like(rising), rising], axis=-1)
    weights, *_ = np.linalg.lstsq(shape / y[:, None], np.ones_like(y), rcond=None)
    return np.asarray(weights[0] + weights[1] * at)


def exponential_misfit(x: Array, y: Array) -> float:
    """The misfit of the best a + b e^(c x): one constant more than the others have."""
    return min(floored_misfit(np.exp(c * x), y) for c in RATES)


def order(case: Case) -> Outcome:
    """How many neighbours have their means in order: falling to the smallest, then rising.

    The note says of how many the difference is beyond noise, by a bootstrap of pairs of seeds.
    """
    labels = [float(run.label) for run in case.runs]
    assert case.fact.smallest_at is not None
    at = labels.index(case.fact.smallest_at)
    values = np.stack([record.total(case.fact.measure) for record in case.records], axis=-1)
    means = values.mean(0)
    rises = np.diff(means) > 0
    clear = sum(_is_clear(step) for step in np.diff(values).T)
    right = np.where(np.arange(len(rises)) < at, ~rises, rises)
    listed = ", ".join(
        f"{run.label}: {mean:.3g}" for run, mean in zip(case.runs, means, strict=True)
    )
    note = f"of {len(rises)} neighbours, {clear} of them beyond noise; {listed}"
    return Outcome(float(right.sum()), held=bool(right.all()), note=note)


def _is_clear(differences: Array) -> bool:
    """Whether the interval of the mean difference leaves 0 out.   differences (B,)"""
    _, low, high = mean_interval(differences)
    return bool(low > 0 or high < 0)


def growth(case: Case) -> Outcome:
    """The exponent in the variable must be at most that of the lemma's bound over the same runs.

    In the bound, log |F| is the number of parameters d (Z + S), as the remark on infinite classes
    has a covering number there (l.212).
    """
    points = [sizes_of(run) for run in case.runs]
    x = np.array([point[case.fact.variable] for point in points])
    bound = np.array([point["bound"] for point in points])
    curves = np.stack([record.total(case.fact.measure) for record in case.records], axis=-1)
    allowed = float(slope(x, bound))
    found = slope_interval(x, curves)
    outcome = of_interval(found, bool(found.estimate <= allowed))
    spread = ", ".join(f"{value:.3g}" for value in x)
    return Outcome(
        outcome.value,
        outcome.low,
        outcome.high,
        outcome.held,
        f"{case.fact.variable} = {spread}",
        f"at most that of the lemma, {allowed:.2f}",
    )


def sizes_of(run: Run) -> dict[str, float]:
    """d, A, 1/C_S^- of a run, and the lemma's bound in its last round."""
    problem = run.problem
    env = make_env(problem.env, problem.env_settings, 0)
    settings = dict(problem.agent_settings)
    config = AgentConfig(**settings)
    batch = EnvBatch.of([env])
    floor = float(checked_negatives(None, config, batch).min())
    rank = config.rank or env.rank
    assert rank is not None
    n_parameters = rank * (batch.n_pairs + batch.n_states)
    bound = recovery_bound(problem.rounds, batch.horizon, rank, floor, n_parameters, config.failure)
    return {"d": rank, "A": batch.n_actions, "1/C_S^-": 1 / floor, "bound": bound}
