"""The data of the results pages on games, locks and deep agents, from the files in results/."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean, median
from typing import Any

import numpy as np
from scipy.stats import binomtest
from theory import Record, markdown_table, negatives_of, runs_of, solved_table

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.report.scores import FEW_RUNS, MIN_RUNS, agent_order, natural
from contrastive_ucb.report.tables import NOTHING
from contrastive_ucb.stats.aggregate import Scores, iqm
from contrastive_ucb.stats.bootstrap import Interval, improvement_interval, interval
from contrastive_ucb.stats.control_scores import NAMES

ROUNDING = 1e-9
BASELINE = "spr"
RESAMPLES = 10_000
TREASURE = 0.5  # an evaluation with a higher mean reached the treasure of DeepSea
STATISTICS = ["IQM", "95% interval", f"P(better than `{BASELINE}`)", "95% interval "]
Runs = Sequence[Mapping[str, Any]]
Locks = dict[tuple[str, int], list[Any]]  # by algorithm and horizon


# --- Games ----------------------------------------------------------------------------------------


def games_page(records: Mapping[str, Record]) -> dict[str, Any]:
    runs = [one for one in records.values() if "inputs" in one]
    runs.sort(
        key=lambda one: (
            _size(one),
            agent_order(one["inputs"]["algo"]),
            negatives_of(one) == "exact negatives",
        )
    )
    random = [one for one in runs if one["inputs"]["env"] == "lowrank-game"]
    vault = [one for one in runs if one["inputs"]["env"] == "lock-game"]
    short, long = (chosen(one["inputs"]["rounds"] for one in random) for chosen in (min, max))
    starts = {_setting(one): one["summary"] for one in random if one["inputs"]["rounds"] == short}
    whole = [one for one in random if one["inputs"]["rounds"] == long]
    header = ["game", "data", "algorithm", f"average gap, K={short:,}", f"average gap, K={long:,}"]
    header += ["ratio", "exploitability", "certificate", "bracket held: rounds (seeds)"]
    rows = [_game_row(one, starts[_setting(one)]) for one in whole]
    bench = records["bench-games"]["summary"]
    sizes = [
        name.removeprefix("speedup_") for name in bench if re.fullmatch(r"speedup_\d+x\d+", name)
    ]
    return {
        "random": markdown_table(header, rows),
        "random_commands": [one["command"] for one in whole],
        "short": short,
        "long": long,
        "ideal": sqrt(short / long),
        "vault": solved_table(vault),
        "vault_commands": [one["command"] for one in vault],
        "speedups": ", ".join(f"{bench[f'speedup_{size}']:,.0f}x ({size})" for size in sizes),
        "worst_gap": max(bench[f"max_gap_{size}"] for size in sizes),
    }


def _game_row(record: Record, start: Mapping[str, Any]) -> list[str]:
    mean, runs = record["summary"], runs_of(record)
    first, last = start["average_gap"], mean["average_gap"]
    held = sum(round(run["bracket_fraction"] * run["rounds"]) for run in runs)
    always = sum(run["bracket_fraction"] == 1 for run in runs)
    has_bonus = mean["certificate"] > ROUNDING  # else the certificate has no meaning
    return [
        _size(record),
        negatives_of(record),
        mean["algo"],
        f"{first:.4f}",
        f"{last:.4f}",
        f"{last / first:.2f}",
        f"{mean['exploitability']:.4f}",
        f"{mean['certificate']:.4f}" if has_bonus else NOTHING,
        f"{held:,} of {sum(run['rounds'] for run in runs):,} ({always} of {len(runs)})",
    ]


def _size(record: Record) -> str:
    """Actions of the row player x those of the column player."""
    rows = record["inputs"].get("n_actions", 3)
    return f"{rows}x{record['inputs'].get('n_column_actions', rows)}"


def _is_exact(record: Record) -> bool:
    return record["inputs"].get("negatives") == "exact"


def _setting(record: Record) -> tuple[Any, ...]:
    """All inputs except the number of rounds."""
    return tuple(sorted((k, v) for k, v in record["inputs"].items() if k != "rounds"))


# --- Neural class ---------------------------------------------------------------------------------


def neural_page(records: Mapping[str, Record]) -> dict[str, Any]:
    runs = [one for one in records.values() if "inputs" in one]
    locks = [one for one in runs if one["inputs"]["env"].startswith("rich-")]
    locks.sort(key=lambda one: (one["inputs"]["env"], one["inputs"]["horizon"], not _is_main(one)))
    controls = [one for one in runs if one["inputs"]["algo"] == "rainbow"]
    controls.sort(key=lambda one: one["inputs"]["steps"])
    continuous = records["continuous"]["summary"]
    slopes, seeds = continuous["zeta_slopes"], continuous["runs"]
    return {
        "rich": lock_table(locks),
        "rich_commands": [one["command"] for one in locks],
        "growth": growth(lock_runs(records)),
        "growth_all": growth(lock_runs(records, merge=True)),
        "controls": control_table(controls),
        "control_commands": [one["command"] for one in controls],
        "rounds": seeds[0]["rounds"],
        "n_seeds": len(seeds),
        "slope": median(slopes),
        "slopes": (min(slopes), max(slopes)),
        "n_steep": sum(one <= -0.8 for one in slopes),
        "n_optimistic": sum(run["strictly_optimistic_fraction"] == 1 for run in seeds),
        "continuous_command": records["continuous"]["command"],
        "costs": records["bench"]["summary"],
    }


def lock_table(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        runs = runs_of(record)
        solved = [run["trajectories"] for run in runs if run["solved_at"] is not None]
        span = f" ({min(solved):,} to {max(solved):,})" if len(solved) > 1 else ""
        unsolved = f"{max(run['trajectories'] for run in runs):,}"
        inputs = record["inputs"]
        rows.append(
            [
                f"{inputs['env']}, H={inputs['horizon']}",
                agent_with_settings(record),
                f"{len(solved)} of {len(runs)}",
                f"{fmean(solved):,.0f}{span}" if solved else "never",
                unsolved if len(solved) < len(runs) else NOTHING,
            ]
        )
    header = ["task", "algorithm", "solved seeds", "trajectories: mean (range)"]
    return markdown_table([*header, "trajectories of unsolved seeds"], rows)


def control_table(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        runs = runs_of(record)
        scores = [run["evaluation"]["mean"] for run in runs]
        returned = " to ".join(dict.fromkeys(f"{one:.2f}" for one in (min(scores), max(scores))))
        episodes = f"{min(run['episodes'] for run in runs):,}"
        rows.append([runs[0]["env"], "rainbow", str(len(runs)), episodes, returned])
    return markdown_table(["task", "agent", "seeds", "episodes", "mean return"], rows)


def lock_runs(
    records: Mapping[str, Record], merge: bool = False
) -> dict[tuple[str, int], list[Any]]:
    """The runs of the rich lock by algorithm and horizon; merge: without settings in the names."""
    found: dict[tuple[str, int], list[Any]] = {}
    for record in records.values():
        inputs = record.get("inputs", {})
        if inputs.get("env") == "rich-lock":
            name = inputs["algo"] if merge else agent_with_settings(record)
            found.setdefault((name, inputs["horizon"]), []).extend(runs_of(record))
    return found


def growth(locks: Locks) -> dict[str, float]:
    """Fits to the log of the mean trajectories of solved seeds: a power of H, an exponential."""
    means = {
        horizon: float(np.mean(spent))
        for (algo, horizon), runs in locks.items()
        if algo == "contrastive-ucb" and (spent := trajectories(runs, solved=True))
    }
    horizons, logs = np.array(list(means)), np.log(list(means.values()))
    found = {}
    for name, x in (("power", np.log(horizons)), ("exponential", horizons)):
        fit = np.polyfit(x, logs, 1)
        found[name] = float(fit[0])
        found[f"{name}_error"] = float(np.sqrt(np.mean((np.polyval(fit, x) - logs) ** 2)))
    return found


def trajectories(runs: Runs, *, solved: bool) -> list[int]:
    return [run["trajectories"] for run in runs if (run["solved_at"] is not None) == solved]


def agent_with_settings(record: Record) -> str:
    """The algorithm and those settings that differ from the defaults."""
    inputs = record["inputs"]
    changed = ", ".join(f"{key} {inputs[key]}" for key in ("alpha", "epochs") if key in inputs)
    return f"{inputs['algo']} ({changed})" if changed else str(inputs["algo"])


def _is_main(record: Record) -> bool:
    return str(record["inputs"]["algo"]).startswith("contrastive")


# --- Deep agents ----------------------------------------------------------------------------------


def deep_page(records: Mapping[str, Record]) -> dict[str, Any]:
    runs = [record for record in records.values() if "runs" in record]
    seas = [record for record in runs if record["runs"][0]["env"].startswith("DeepSea-")]
    games = [record for record in runs if record not in seas]
    bench = records["bench-deep"]
    missed = [
        f"`{name}` {bench['summary'][name]:.3g} ({sign} {target:g})"
        for name, (sign, target) in bench.get("marks", {}).items()
        if not (
            bench["summary"][name] >= target if sign == ">=" else bench["summary"][name] <= target
        )
    ]
    old = any("points" not in run["evaluation"] for record in runs for run in record["runs"])
    few = any(MIN_RUNS <= len(record["runs"]) < FEW_RUNS for record in runs)
    atari = [record for record in games if not record["runs"][0]["env"].startswith("MinAtar/")]
    return {
        "deep": deep_table(seas, games=False),
        "games": deep_table([record for record in games if record not in atari], games=True),
        "atari": deep_table(atari, games=True),
        "costs": bench["summary"],
        "missed": missed,
        "statistics": statistics_text(old, few),
        "world_model": world_model_table(records["minatar-world-model"]["games"]),
    }


def statistics_text(old: bool, few: bool) -> str:
    """How to read the columns of a table of deep agents."""
    parts = [
        "IQM is the interquartile mean over seeds; P(better than `spr`) is the probability of"
        " improvement over SPR on the same task. Both have 95% intervals of a stratified bootstrap"
        " over seeds (Agarwal et al., 2021)."
    ]
    if few:
        parts.append(
            f"With fewer than {FEW_RUNS} seeds an interval is little more than the range of the"
            " seeds."
        )
    if old:
        parts.append(
            "Rows with `1 x 20` evaluations are older runs: only their final weights were"
            " evaluated, and the agents other than `simple` had other details of noise,"
            " augmentation and replay (see the changelog)."
        )
    return " ".join(parts)


def world_model_table(games: Mapping[str, Any]) -> str:
    """Errors of the world model of SimPLe, next to simple predictors."""
    rows = {
        "wrong cells of the next frame: model, copy": ("frame_error", "frame_error_copy"),
        "squared error of the reward: model, copy, mean": (
            "reward_error",
            "reward_error_copy",
            "reward_error_constant",
        ),
        "nats of the reward: model, frequencies": ("reward_nats", "reward_nats_constant"),
        "nats of the end: model, frequencies": ("end_nats", "end_nats_constant"),
    }
    lines = [
        [name, *(", ".join(f"{games[game]['mean'][key]:.2g}" for key in keys) for game in games)]
        for name, keys in rows.items()
    ]
    return markdown_table(["", *(game.capitalize() for game in games)], lines)


def deep_table(records: Sequence[Record], games: bool) -> str:
    """A row per agent or control on one task, compared with SPR on the same task."""
    rows = []
    for record in sorted(records, key=_place):
        runs, first = record["runs"], record["runs"][0]
        base = next((one for one in records if _is_baseline(one, record)), None)
        scores = treasure_scores if not games else run_scores
        cells = _statistics(scores(record), None if base is None else scores(base))
        sizes = [f"{first['steps']:,}", f"{first.get('updates', 0):,}"]
        if not games:
            sizes = _solved_cells(record)
        shown = [*sizes, evaluations_text(first), str(len(runs))]
        rows.append([first["env"], agent_name(first), *shown, *cells])
    header = ["task", "agent"]
    header += (
        ["steps", "updates"]
        if games
        else ["solved seeds (95% interval)", "at episode: median (range)", "episodes"]
    )
    return markdown_table([*header, "evaluations", "seeds", *STATISTICS], rows)


def solved_at(record: Record) -> list[int]:
    return [run["solved_at"] for run in record["runs"] if run["solved_at"] is not None]


def run_scores(record: Record) -> Array:
    """The score of each run (seeds,): the mean over its evaluations."""
    return np.array([run["evaluation"]["mean"] for run in record["runs"]], dtype=np.float64)


def treasure_scores(record: Record) -> Array:
    """The fraction of the evaluations of each run (seeds,) that reach DeepSea's treasure."""
    means = [
        [point["mean"] for point in run["evaluation"].get("points", [run["evaluation"]])]
        for run in record["runs"]
    ]
    return np.array([np.mean(np.array(one) > TREASURE) for one in means])


def agent_name(run: Mapping[str, Any]) -> str:
    """The algorithm, its bonus if it has one, and its precision if that is not float32."""
    if run["algo"] in NAMES:
        return NAMES[run["algo"]]
    parts = [run["algo"], run.get("bonus", "none"), run.get("precision", "none")]
    return ", ".join(part for part in parts if part != "none")


def evaluations_text(run: Mapping[str, Any]) -> str:
    """Number of evaluations x episodes of each, such as "5 x 20"."""
    evaluation = run["evaluation"]
    n_points = len(evaluation.get("points", [evaluation]))
    return f"{n_points} x {evaluation.get('episodes', NOTHING)}"


def features_table(features: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """How the bonus of each agent depends on its visits: means over seeds, with their range."""
    names = ("first_direction", "rank_correlation", "never_over_often")
    rows = [
        [agent, *(_mean_and_range([run[name] for run in runs]) for name in names)]
        for agent, runs in features.items()
    ]
    header = ["bonus", "variance along one direction", "rank correlation of bonus and rarity"]
    header += ["bonus of unvisited / often visited actions"]
    return markdown_table(header, rows)


def _mean_and_range(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return NOTHING
    few = f", {len(known)} of {len(values)} seeds" if len(known) < len(values) else ""
    return f"{fmean(known):.2f} ({min(known):.2f} to {max(known):.2f}{few})"


def _solved_cells(record: Record) -> list[str]:
    if _is_control(record):
        return [NOTHING] * 3
    runs, at = record["runs"], solved_at(record)
    chance = binomtest(len(at), len(runs)).proportion_ci(method="wilson")
    solved = f"{len(at)} of {len(runs)} ({chance.low:.0%} to {chance.high:.0%})"
    when = f"{median(at):.0f} ({min(at)} to {max(at)})" if at else "never"
    return [solved, when, f"{runs[0]['episodes']:,}"]


def _statistics(scores: Array, base: Array | None) -> list[str]:
    """IQM and probability of improvement over `base`, each with its interval."""
    own = Scores("agent", ("task",), (scores,))
    level = interval(iqm, own, RESAMPLES)
    cells = [f"{float(level.estimate):.2f}", _interval_text(level, len(scores))]
    if base is None:
        return [*cells, NOTHING, NOTHING]
    chance = improvement_interval(own, Scores("base", ("task",), (base,)), RESAMPLES)
    ends = _interval_text(chance, min(len(scores), len(base)))
    return [*cells, f"{float(chance.estimate):.2f}", ends]


def _interval_text(found: Interval, n_seeds: int) -> str:
    if n_seeds < MIN_RUNS:
        return "one seed" if n_seeds == 1 else f"{n_seeds} seeds"
    return f"{float(found.low):.2f} to {float(found.high):.2f}"


def _is_control(record: Record) -> bool:
    return record["runs"][0]["algo"] in NAMES


def _is_baseline(base: Record, record: Record) -> bool:
    """Whether `base` is SPR on the same task, for agents with the same length and evaluations."""
    first, run = base["runs"][0], record["runs"][0]
    same = first["steps"] == run["steps"] and evaluations_text(first) == evaluations_text(run)
    is_spr = agent_name(first) == BASELINE and base is not record
    return is_spr and first["env"] == run["env"] and (same or _is_control(record))


def _place(record: Record) -> tuple[Any, ...]:
    run = record["runs"][0]
    return natural(run["env"]), run["steps"], not _is_control(record), agent_name(run)
