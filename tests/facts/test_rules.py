"""Rules recover known values, and hold on the right side of the limit only."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.facts.bounds import regret_bound
from contrastive_ucb.facts.plan import Fact, Record, Run
from contrastive_ucb.facts.rules import (
    RULES,
    Outcome,
    accuracy_exponent,
    exponential_misfit,
    floored_fit,
    floored_misfit,
    mean_interval,
    misfit,
    ratio_interval,
    sizes_of,
)
from contrastive_ucb.runs.grid import Job
from contrastive_ucb.runs.problem import Problem
from contrastive_ucb.stats.slopes import slope

ROUNDS = np.array([1, 3, 10, 30, 100, 300, 1000])
PROBLEM = Problem("lowrank", "contrastive-ucb", {"rank": 2, "n_states": 4}, 1000)


def record(curves: dict[str, Array] | None = None, **totals: list[float]) -> Record:
    arrays = {name: np.array(values, dtype=float) for name, values in totals.items()}
    return Record(run_of(PROBLEM), ROUNDS, curves or {}, arrays, 1.5)


def run_of(problem: Problem, label: object = "") -> Run:
    return Run("a", str(label), (Job(problem, 0, n_seeds=2),))


def judge(rule: str, *records: Record, labels: tuple = (), **fact: object) -> Outcome:
    runs = [run_of(PROBLEM, label) for label in labels or (1,) * len(records)]
    measured = [replace(one, run=run) for one, run in zip(records, runs, strict=True)]
    return RULES[rule](Fact("F0", window=30, **fact), *measured)  # type: ignore[arg-type]


def power(exponent: float, *factors: float) -> Array:
    return np.outer(factors, ROUNDS.astype(float) ** exponent)


@pytest.mark.parametrize(
    ("rule", "limit", "measured", "value", "held"),
    [
        ("slope at most", -0.5, power(-0.7, 1, 2), -0.7, True),
        ("slope at most", -0.5, power(-0.49, 1, 2), -0.49, False),
        ("slope reaches", -1.0, power(-1.3, 1, 2), -1.3, True),
        ("slope reaches", -1.0, power(-0.8, 1, 2), -0.8, False),
        # The mean has a slope above -1; the bootstrap also draws the steep seed alone.
        ("slope reaches", -1.0, np.concatenate([power(-1.2, 1000), power(-0.8, 1)]), None, True),
        ("flat ratio", 0.0, power(0.1, 4, 6), 0.1, False),
        ("flat ratio", 0.0, power(-0.1, 4, 6), -0.1, False),
        ("always", 1.0, [1.0, 1.0], 1.0, True),
        ("always", 1.0, [1.0, 0.9999], 0.99995, False),
        ("worst", 1.0, [0.1, 1.0], 1.0, True),
        ("worst", 1.0, [0.1, 1.001], 1.001, False),
        ("solved", 1.0, [5, 7], 2, True),
        ("solved", 1.0, [5, None], 1, False),
        ("solved", 0.0, [None, None], 0, True),
        ("solved", 0.0, [None, 900], 1, False),
    ],
)
def test_a_rule_holds_on_the_right_side_of_the_limit_only(
    rule: str, limit: float, measured: Any, value: float | None, held: bool
) -> None:
    curves = {"y": measured} if np.ndim(measured) == 2 else {}
    totals = {} if curves else {"solved_at" if rule == "solved" else "y": measured}
    outcome = judge(rule, record(curves, **totals), measure="y", limit=limit)
    assert outcome.held is held
    assert value is None or outcome.value == pytest.approx(value)
    if rule == "solved":
        assert outcome.low <= outcome.value <= outcome.high
        assert ("median round" in outcome.note) == (outcome.value > 0)


def test_only_the_window_counts_and_seeds_without_regret_do_not_stop_the_fit() -> None:
    """K / 30 is 33.3: the rounds up to 30 are outside."""
    bent = np.where(ROUNDS <= 30, 7.0, 1e3 / ROUNDS)
    for curves in (np.stack([bent, bent]), np.stack([bent, 0 * bent])):
        outcome = judge("slope at most", record({"y": curves}), measure="y", limit=-0.5)
        assert outcome.value == pytest.approx(-1, abs=1e-6)


@pytest.mark.parametrize(("exponent", "held"), [(-0.7, True), (-0.5, True), (-0.4, False)])
def test_rounds_for_epsilon_are_the_inverse_of_the_curve(exponent: float, held: bool) -> None:
    outcome = judge("rounds for epsilon", record({"y": power(exponent, 1, 2)}), measure="y")
    assert outcome.value == pytest.approx(-1 / exponent)
    assert outcome.held is held
    assert outcome.limit is not None
    assert 2 < outcome.limit < 2.5  # 1 / epsilon^2 up to logarithms
    assert f"{outcome.limit:.2f}" in outcome.mark


def test_the_limit_of_epsilon_is_that_of_the_bound_of_the_theorem() -> None:
    """lowrank with d = 2, S = 4, A = 3, H = 4; constants in front of the bound cancel."""
    bound = []
    for k in (100, 300, 1000):
        logarithm = np.log(4 * k / 0.05) + 2 * (12 + 4)
        c = 4**4 * 2**4 * 3 / 0.25**2 + 4**4 * 2**3 * 9 / 0.25**2 + 4**6 * 4 * 3 / 0.25**2
        bound.append(np.sqrt((c + 4**6 * 8) * logarithm * np.log(k) / k))
    expected = float(slope(1 / np.array(bound), np.array([100.0, 300, 1000])))
    outcome = judge("rounds for epsilon", record({"y": power(-1, 1, 2)}), measure="y")
    assert outcome.limit == pytest.approx(expected)
    sizes = (np.array([100.0, 300, 1000]), 4, 2, 3, 0.25, 2 * (12 + 4), 0.05)
    np.testing.assert_allclose(regret_bound(*sizes), bound)


@given(st.lists(st.floats(0.1, 9), min_size=4, max_size=8, unique=True))
def test_the_inverse_of_a_curve_takes_the_last_crossing(values: list[float]) -> None:
    """A slow inversion: the first round from which on the curve is at most epsilon."""
    curve, rounds = np.array(values), 2.0 ** np.arange(1, len(values) + 1)
    accuracy = [curve[at:].max() for at in range(len(curve))]
    if len(set(accuracy)) < 3:
        return
    expected = slope(1 / np.array(accuracy), rounds)
    table = np.stack([curve, 2 * curve])
    np.testing.assert_allclose(accuracy_exponent(rounds, table), [expected, expected], rtol=1e-6)


def test_a_ratio_of_curves_is_flat() -> None:
    curves = {"a": power(-1, 4, 6), "b": power(-1, 2, 2)}
    outcome = judge("flat ratio", record(curves), measure="a / b", limit=0.0)
    assert outcome.value == pytest.approx(0, abs=1e-9)
    assert "2.50" in outcome.note


def test_a_ratio_is_that_of_the_means_over_the_same_seeds() -> None:
    outcome = judge("ratio", record(y=[2.0, 4.0]), record(y=[1.0, 1.0]), measure="y")
    assert (outcome.value, outcome.held) == (3.0, None)
    assert outcome.low == 2.0
    assert outcome.high == 4.0
    exact = ratio_interval(np.array([2.0, 6.0]), np.array([1.0, 3.0]))
    assert exact.low == exact.high == 2.0  # redrawn together, so the seeds cancel


def test_the_interval_of_a_mean_is_that_of_a_plain_bootstrap() -> None:
    values = np.random.default_rng(0).normal(3, 1, 12)
    outcome = mean_interval(values)
    drawn = np.random.default_rng(1).choice(values, (20_000, 12)).mean(1)
    assert outcome.estimate == pytest.approx(values.mean())
    assert outcome.low == pytest.approx(np.quantile(drawn, 0.025), abs=0.03)
    assert outcome.high == pytest.approx(np.quantile(drawn, 0.975), abs=0.03)


def test_means_of_totals_of_seconds_and_of_one_round() -> None:
    measured = record({"y": power(-1, 1, 3)}, y=[1.0, 3.0], never=[1.0, np.nan])
    assert judge("mean", measured, measure="y").value == 2
    assert judge("mean", measured, measure="seconds").value == 1.5
    missing = judge("mean", measured, measure="never")
    assert missing.value is None
    assert "1 of 2 seeds" in missing.note
    assert judge("mean at", measured, measure="y", at=100).value == pytest.approx(0.02)
    with pytest.raises(UserError, match="did not record round 99; choose one of 1, 3"):
        judge("mean at", measured, measure="y", at=99)


def test_the_counterexample_to_the_lemma() -> None:
    outcome = judge("small ridge", limit=1.0)
    assert outcome.value == pytest.approx(10 / (2 * np.log(11)))
    assert not outcome.held


def horizons(rounds: list[list[float]]) -> list[Record]:
    return [record(solved_at=column) for column in rounds]


def test_a_power_law_and_an_exponential_are_recognized() -> None:
    x = (3, 4, 6, 8, 12)
    law = [[2.0 * h**1.5, 3.0 * h**1.5] for h in x]
    fit = {"labels": x, "measure": "solved_at"}
    outcome = judge("power law", *horizons(law), **fit, limit=6.0)
    assert outcome.value == pytest.approx(1.5)
    assert outcome.held
    assert judge("better fit", *horizons(law), **fit, limit=1.0).value < 1e-6
    grown = [[2.0 * 1.4**h, 3.0 * 1.4**h] for h in x]
    worse = judge("better fit", *horizons(grown), **fit, limit=1.0)
    assert not worse.held
    assert worse.value > 1e6
    steep = [[h**7.0, h**7.0] for h in x]
    assert not judge("power law", *horizons(steep), **fit, limit=6.0).held


def test_a_seed_that_never_solves_it_fails_the_law() -> None:
    x = (3, 6)
    rounds = [[10.0, 10.0], [20.0, np.nan]]
    outcome = judge("power law", *horizons(rounds), labels=x, measure="solved_at", limit=6.0)
    assert not outcome.held
    assert "1 runs did not solve it" in outcome.note


def test_misfits_are_residuals_of_least_squares() -> None:
    random = np.random.default_rng(0)
    x, y = np.arange(1.0, 9), np.exp(random.normal(0, 1, (3, 8)))
    for curve, residual in zip(y, misfit(x, y), strict=True):
        line = np.polyval(np.polyfit(x, np.log(curve), 1), x)
        assert residual == pytest.approx(np.sqrt(((np.log(curve) - line) ** 2).mean()))
    assert floored_misfit(x**2, 5 + 2 * x**2) == pytest.approx(0, abs=1e-9)
    assert floored_misfit(x**2, np.exp(x)) > 0.1
    assert floored_fit(x**2, 5 + 2 * x**2, np.array([100.0])) == pytest.approx(205)
    assert exponential_misfit(x, 7 + np.exp(0.25 * x)) == pytest.approx(0, abs=1e-9)
    assert exponential_misfit(x, 7 + x**2) > 1e-3


@pytest.mark.parametrize(
    ("means", "right"),
    [([3, 2, 1, 2, 3], 4), ([3, 2, 1, 2, 1.5], 3), ([1, 2, 3, 2, 1], 0), ([2, 3, 1, 2, 3], 3)],
)
def test_errors_fall_to_the_smallest_and_rise_from_there(means: list, right: int) -> None:
    records = [record(zeta=[mean, mean]) for mean in means]
    outcome = judge("order", *records, labels=(1, 2, 3, 4, 6), measure="zeta", smallest_at=3.0)
    assert outcome.value == right
    assert outcome.held is (right == 4)


def test_order_counts_significant_differences() -> None:
    zetas = ([0.9, 1.1], [0.5, 0.6], [0.61, 0.52])
    records = [record(zeta=list(values)) for values in zetas]
    outcome = judge("order", *records, labels=(1, 2, 3), measure="zeta", smallest_at=2.0)
    assert outcome.held is True
    assert "of 2 neighbors, 1 with a significant difference" in outcome.note


def test_rounds_with_a_bias_above_the_value_are_not_informative() -> None:
    allowed = np.array([[9.0] * 5 + [0.1, 0.1], [9.0] * 7])  # below V* from round 300 of 1000
    biased = record({"allowed_bias": allowed}, optimal_value=[0.5, 0.5])
    outcome = judge("informative", biased, measure="allowed_bias")
    assert outcome.value == pytest.approx((1000 - 100) / 1000 / 2)
    assert outcome.held is None


def grown(values: tuple[int, ...], zetas: list[list[float]], **settings: object) -> Outcome:
    """The rule "growth" in the rank d, with these errors per rank."""
    problems = [Problem("lowrank", settings={"rank": d, **settings}, rounds=1000) for d in values]
    records = [
        replace(record(zeta=zeta), run=run_of(problem, problem.settings["rank"]))
        for problem, zeta in zip(problems, zetas, strict=True)
    ]
    return RULES["growth"](Fact("F0", measure="zeta", variable="d"), *records)


def test_growth_is_compared_with_the_bound_over_the_same_runs() -> None:
    values = (2, 4, 8)
    bounds = [
        32 * d * (np.log(2 * 1000 * 4 / 0.05) + d * (30 + 10)) / (0.1**2 * 1000) for d in values
    ]
    allowed = float(slope(np.array(values, dtype=float), np.array(bounds)))
    assert 1 < allowed < 2
    for exponent in (allowed - 0.1, allowed + 0.1):
        outcome = grown(values, [[d**exponent, 2 * d**exponent] for d in values], n_states=10)
        assert outcome.value == pytest.approx(exponent)
        assert outcome.held is (exponent < allowed)
        assert f"{allowed:.2f}" in outcome.mark
        assert outcome.limit == pytest.approx(allowed)


def test_growth_is_that_of_the_mean_and_not_of_the_luckiest_seed() -> None:
    outcome = grown((2, 4, 8), [[d**4.0, 1.0] for d in (2, 4, 8)])  # the other does not grow
    assert outcome.low == pytest.approx(0)
    assert outcome.value > 2
    assert not outcome.held


def test_sizes_know_the_tilt_and_the_actions() -> None:
    settings = {"rank": 3, "n_states": 5, "n_actions": 4, "tilt": 2.0}
    problem = Problem("lowrank", "contrastive-ucb", settings, 100)
    sizes = sizes_of(run_of(problem))
    weights = np.exp(-2.0 * np.arange(5) / 5)
    assert sizes["A"] == 4
    assert sizes["1/C_S^-"] == pytest.approx(weights.sum() / weights[-1])
