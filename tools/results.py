"""The tables of the results pages, from the JSON files in results/.

A record is the content of one file; `runs_of` returns the summaries of its seeds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.report.scores import FEW_RUNS, MIN_RUNS, agent_order, natural
from contrastive_ucb.report.tables import NOTHING, to_markdown
from contrastive_ucb.stats.aggregate import Scores, iqm
from contrastive_ucb.stats.bootstrap import Interval, improvement_interval, interval
from contrastive_ucb.stats.control_scores import NAMES

RESULTS = Path(__file__).resolve().parents[1] / "results"
ALL_TRANSITIONS = ("rep-ucb", "lsvi-ucb", "ucbvi", "rep-ulcb", "omni-vi")  # need no negatives
ROUNDING = 1e-9
BASELINE = "spr"
RESAMPLES = 10_000
TREASURE = 0.5  # an evaluation with a higher mean reached the treasure of DeepSea
Record = Mapping[str, Any]
Records = Mapping[str, Record]  # by folder and file name, such as "mdp/lock-exact-no-bonus"
Runs = Sequence[Mapping[str, Any]]
Locks = Mapping[tuple[str, int], Runs]  # by algorithm and horizon


# --- Records --------------------------------------------------------------------------------------


def read_records(*folders: str) -> dict[str, Record]:
    """The JSON files of folders of results/."""
    return {
        f"{folder}/{path.stem}": json.loads(path.read_text(encoding="utf-8"))
        for folder in folders
        for path in sorted((RESULTS / folder).glob("*.json"))
    }


def of_folder(records: Records, folder: str) -> list[Record]:
    """The records of experiments in a folder, without those of benchmarks."""
    return [
        record
        for name, record in records.items()
        if name.startswith(f"{folder}/") and ("inputs" in record or "runs" in record)
    ]


def runs_of(record: Record) -> Runs:
    """The summaries of all seeds; with one seed there is no list."""
    summary = record.get("summary", {})
    runs: Runs = record.get("runs") or summary.get("runs", [summary])
    return runs


def solved_at(runs: Runs) -> list[int]:
    """The rounds or episodes in which the seeds solved the task."""
    return [run["solved_at"] for run in runs if run.get("solved_at") is not None]


def trajectories(runs: Runs, *, solved: bool) -> list[int]:
    return [run["trajectories"] for run in runs if (run["solved_at"] is not None) == solved]


def negatives_of(record: Record) -> str:
    """What the model is fitted to."""
    if record["summary"]["algo"] in ALL_TRANSITIONS:
        return "all transitions"
    return f"{record['inputs'].get('negatives', 'sampled')} negatives"


def commands(records: Iterable[Record]) -> str:
    return "\n".join(record["command"] for record in records)


def markdown_table(rows: Sequence[Mapping[str, str]]) -> str:
    """A row per mapping, whose keys are the names of the columns."""
    return to_markdown(pd.DataFrame(list(rows)).fillna(NOTHING)).rstrip()


def median_and_range(at: Sequence[int]) -> str:
    return f"{median(at):.0f} ({min(at)} to {max(at)})" if at else "never"


# --- Tabular agents -------------------------------------------------------------------------------


def mdp_page(records: Records) -> dict[str, Any]:
    """The records of locks, DeepSea and random MDPs."""
    runs = of_folder(records, "mdp")
    by_env = {
        env: [one for one in runs if one["inputs"]["env"] == env] for env in ("lock", "deepsea")
    }
    return {
        "locks": by_env["lock"],
        "tabular_seas": by_env["deepsea"],
        "easy": [one for one in runs if "solved_at" not in one["summary"]],
        "costs": records["mdp/bench-theory"]["summary"],
    }


def solved_table(records: Sequence[Record]) -> str:
    """Seeds that solved each task, and in which round."""
    rows = []
    for record in records:
        runs = runs_of(record)
        at = solved_at(runs)
        rows.append({
            "task": f"{runs[0]['env']}, {negatives_of(record)}",
            "algorithm": runs[0]["algo"],
            "solved seeds": f"{len(at)} of {len(runs)}",
            "at round: median (range)": median_and_range(at),
            "rounds": f"{runs[0]['rounds']:,}",
        })  # fmt: skip
    return markdown_table(rows)


def regret_table(records: Sequence[Record]) -> str:
    """Average regret, final gap and model error on random low-rank MDPs."""
    names = {
        "average_regret": "average regret",
        "final_gap": "final gap",
        "zeta": "model error zeta",
    }
    rows = []
    for record in records:
        summary = record["summary"]
        row = {"data": negatives_of(record), "algorithm": summary["algo"]}
        rows.append(row | {name: f"{summary[key]:.4f}" for key, name in names.items()})
    return markdown_table(rows)


# --- Games ----------------------------------------------------------------------------------------


def games_page(records: Records) -> dict[str, Any]:
    runs = sorted(
        of_folder(records, "games"),
        key=lambda one: (
            _size(one),
            agent_order(one["inputs"]["algo"]),
            negatives_of(one) == "exact negatives",
        ),
    )
    random = [one for one in runs if one["inputs"]["env"] == "lowrank-game"]
    rounds = [one["inputs"]["rounds"] for one in random]
    bench = records["games/bench-games"]["summary"]
    sizes = [found[1] for name in bench if (found := re.fullmatch(r"speedup_(\d+x\d+)", name))]
    return {
        "random": [one for one in random if one["inputs"]["rounds"] == max(rounds)],
        "starts": [one for one in random if one["inputs"]["rounds"] == min(rounds)],
        "short": min(rounds),
        "long": max(rounds),
        "ideal": sqrt(min(rounds) / max(rounds)),
        "vault": [one for one in runs if one["inputs"]["env"] == "lock-game"],
        "speedups": ", ".join(f"{bench[f'speedup_{size}']:,.0f}x ({size})" for size in sizes),
        "worst_gap": max(bench[f"max_gap_{size}"] for size in sizes),
    }


def games_table(records: Sequence[Record], starts: Sequence[Record]) -> str:
    """A row per record, with the average gap of the shorter record that has the same settings."""
    short = {_setting(one): one["summary"] for one in starts}
    rows = []
    for record in records:
        mean, runs, start = record["summary"], runs_of(record), short[_setting(record)]
        first, last = start["average_gap"], mean["average_gap"]
        held = sum(round(run["bracket_fraction"] * run["rounds"]) for run in runs)
        always = sum(run["bracket_fraction"] == 1 for run in runs)
        has_bonus = mean["certificate"] > ROUNDING  # else the certificate has no meaning
        rows.append({
            "game": _size(record),
            "data": negatives_of(record),
            "algorithm": mean["algo"],
            f"average gap, K={start['rounds']:,}": f"{first:.4f}",
            f"average gap, K={mean['rounds']:,}": f"{last:.4f}",
            "ratio": f"{last / first:.2f}",
            "exploitability": f"{mean['exploitability']:.4f}",
            "certificate": f"{mean['certificate']:.4f}" if has_bonus else NOTHING,
            "bracket held: rounds (seeds)":
                f"{held:,} of {sum(run['rounds'] for run in runs):,} ({always} of {len(runs)})",
        })  # fmt: skip
    return markdown_table(rows)


def _size(record: Record) -> str:
    """Actions of the row player x those of the column player."""
    rows = record["inputs"].get("n_actions", 3)
    return f"{rows}x{record['inputs'].get('n_column_actions', rows)}"


def _setting(record: Record) -> tuple[Any, ...]:
    """All inputs except the number of rounds."""
    return tuple(sorted((k, v) for k, v in record["inputs"].items() if k != "rounds"))


# --- Neural class ---------------------------------------------------------------------------------


def neural_page(records: Records) -> dict[str, Any]:
    runs = of_folder(records, "neural")
    locks = [one for one in runs if one["inputs"]["env"].startswith("rich-")]
    locks.sort(key=lambda one: (one["inputs"]["env"], one["inputs"]["horizon"], not _is_main(one)))
    controls = [one for one in runs if one["inputs"]["algo"] == "rainbow"]
    continuous = records["neural/continuous"]
    slopes, seeds = continuous["summary"]["zeta_slopes"], runs_of(continuous)
    return {
        "rich": locks,
        "growth": growth(lock_runs(records)),
        "growth_all": growth(lock_runs(records, merge=True)),
        "controls": sorted(controls, key=lambda one: one["inputs"]["steps"]),
        "rounds": seeds[0]["rounds"],
        "n_seeds": len(seeds),
        "slope": median(slopes),
        "slopes": (min(slopes), max(slopes)),
        "n_steep": sum(one <= -0.8 for one in slopes),
        "n_optimistic": sum(run["strictly_optimistic_fraction"] == 1 for run in seeds),
        "continuous": continuous,
        "costs": records["neural/bench"]["summary"],
    }


def lock_table(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        runs, inputs = runs_of(record), record["inputs"]
        spent = trajectories(runs, solved=True)
        span = f" ({min(spent):,} to {max(spent):,})" if len(spent) > 1 else ""
        unsolved = max(trajectories(runs, solved=False), default=None)
        rows.append({
            "task": f"{inputs['env']}, H={inputs['horizon']}",
            "algorithm": agent_with_settings(record),
            "solved seeds": f"{len(spent)} of {len(runs)}",
            "trajectories: mean (range)": f"{fmean(spent):,.0f}{span}" if spent else "never",
            "trajectories of unsolved seeds": NOTHING if unsolved is None else f"{unsolved:,}",
        })  # fmt: skip
    return markdown_table(rows)


def control_table(records: Sequence[Record]) -> str:
    rows = []
    for runs in map(runs_of, records):
        scores = [run["evaluation"]["mean"] for run in runs]
        returned = dict.fromkeys(f"{one:.2f}" for one in (min(scores), max(scores)))
        rows.append({
            "task": runs[0]["env"],
            "agent": "rainbow",
            "seeds": str(len(runs)),
            "episodes": f"{min(run['episodes'] for run in runs):,}",
            "mean return": " to ".join(returned),
        })  # fmt: skip
    return markdown_table(rows)


def lock_runs(records: Records, merge: bool = False) -> dict[tuple[str, int], list[Any]]:
    """The runs of the rich lock by algorithm and horizon; merge: without settings in the names."""
    found: dict[tuple[str, int], list[Any]] = {}
    for record in of_folder(records, "neural"):
        inputs = record["inputs"]
        if inputs["env"] == "rich-lock":
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


def agent_with_settings(record: Record) -> str:
    """The algorithm and those settings that differ from the defaults."""
    inputs = record["inputs"]
    changed = ", ".join(f"{key} {inputs[key]}" for key in ("alpha", "epochs") if key in inputs)
    return f"{inputs['algo']} ({changed})" if changed else str(inputs["algo"])


def _is_main(record: Record) -> bool:
    return str(record["inputs"]["algo"]).startswith("contrastive")


# --- Deep agents ----------------------------------------------------------------------------------


def deep_page(records: Records) -> dict[str, Any]:
    """The records of DeepSea, MinAtar and Atari."""
    runs = [*of_folder(records, "deep"), *of_folder(records, "minatar")]
    seas, games = (
        [one for one in runs if one["runs"][0]["env"].startswith(prefix)]
        for prefix in ("DeepSea-", "MinAtar/")
    )
    bench = records["deep/bench-deep"]
    missed = [
        f"`{name}` {bench['summary'][name]:.3g} ({sign} {target:g})"
        for name, (sign, target) in bench.get("marks", {}).items()
        if (bench["summary"][name] < target if sign == ">=" else bench["summary"][name] > target)
    ]
    return {
        "seas": seas,
        "games": games,
        "atari": [one for one in runs if one not in seas and one not in games],
        "costs": bench["summary"],
        "missed": missed,
        "has_old": any("points" not in run["evaluation"] for one in runs for run in one["runs"]),
        "few_seeds": FEW_RUNS
        if any(MIN_RUNS <= len(one["runs"]) < FEW_RUNS for one in runs)
        else 0,
        "world_model": records["minatar/world-model"]["games"],
    }


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
    return markdown_table([
        {"": name} | {
            game.capitalize(): ", ".join(f"{found['mean'][key]:.2g}" for key in keys)
            for game, found in games.items()
        }
        for name, keys in rows.items()
    ])  # fmt: skip


def deep_table(records: Sequence[Record], games: bool) -> str:
    """A row per agent or control on one task, compared with SPR on the same task."""
    rows = []
    for record in sorted(records, key=_place):
        runs, first = record["runs"], record["runs"][0]
        base = next((one for one in records if _is_baseline(one, record)), None)
        scores = run_scores if games else treasure_scores
        row = {"task": first["env"], "agent": agent_name(first)}
        if games:
            row |= {"steps": f"{first['steps']:,}", "updates": f"{first.get('updates', 0):,}"}
        else:
            row |= _solved_cells(record)
        row |= {"evaluations": evaluations_text(first), "seeds": str(len(runs))}
        rows.append(row | _statistics(scores(record), None if base is None else scores(base)))
    return markdown_table(rows)


def run_scores(record: Record) -> Array:
    """The score of each run (seeds,): the mean over its evaluations."""
    return np.array([run["evaluation"]["mean"] for run in record["runs"]], dtype=np.float64)


def atari_table(games: Mapping[str, Record]) -> str:
    """Runs of Atari 100K at full length, finished or not, below the published scores."""
    rows = []
    for record in games.values():
        runs, published = record["runs"], record["published"]
        game = runs[0]["env"]
        for name in ("SPR", "SPR-UCB"):
            found = published[name]
            rows.append({
                "game": game,
                "agent": f"{name}, published",
                "steps": "100,000",
                "runs": str(found["runs"]),
                "score": f"{found['raw']:.2f}",
                "human-normalized":
                    f"{found['human_normalized']:.2f} ± {found['standard_deviation']:.2f}",
            })  # fmt: skip
        for run in runs:
            low, high, final = published["random"], published["human"], run["evaluation"]
            rows.append({
                "game": game,
                "agent": f"{run['agent']}, {_atari_version(run)}",
                "steps": f"{run['step']:,} of {run['steps']:,}",
                "runs": "1",
                "score": f"{final['mean']:.2f}" if final else "not finished",
                "human-normalized":
                    f"{(final['mean'] - low) / (high - low):.2f}" if final else NOTHING,
            })  # fmt: skip
    return markdown_table(rows)


def _atari_version(run: Mapping[str, Any]) -> str:
    """Whose definitions an Atari run of SPR or SPR-UCB follows."""
    released = run["atari"] == "spr-release"
    if run["agent"] == "spr":
        return "as released" if released else "as in its paper"
    return "reference" if released else "paper"


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
    names = {
        "first_direction": "variance along one direction",
        "rank_correlation": "rank correlation of bonus and rarity",
        "never_over_often": "bonus of unvisited / often visited actions",
    }
    return markdown_table([
        {"bonus": agent}
        | {title: _mean_and_range([run[name] for run in runs]) for name, title in names.items()}
        for agent, runs in features.items()
    ])  # fmt: skip


def _mean_and_range(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return NOTHING
    few = f", {len(known)} of {len(values)} seeds" if len(known) < len(values) else ""
    return f"{fmean(known):.2f} ({min(known):.2f} to {max(known):.2f}{few})"


def _solved_cells(record: Record) -> dict[str, str]:
    runs, at = record["runs"], solved_at(record["runs"])
    chance = binomtest(len(at), len(runs)).proportion_ci(method="wilson")
    cells = {
        "solved seeds (95% interval)":
            f"{len(at)} of {len(runs)} ({chance.low:.0%} to {chance.high:.0%})",
        "at episode: median (range)": median_and_range(at),
        "episodes": f"{runs[0].get('episodes', 0):,}",
    }  # fmt: skip
    return dict.fromkeys(cells, NOTHING) if _is_control(record) else cells


def _statistics(scores: Array, base: Array | None) -> dict[str, str]:
    """IQM and probability of improvement over `base`, each with its interval."""
    own = Scores("agent", ("task",), (scores,))
    level = interval(iqm, own, RESAMPLES)
    better, ends = NOTHING, NOTHING
    if base is not None:
        chance = improvement_interval(own, Scores("base", ("task",), (base,)), RESAMPLES)
        better = f"{float(chance.estimate):.2f}"
        ends = _interval_text(chance, min(len(scores), len(base)))
    return {
        "IQM": f"{float(level.estimate):.2f}",
        "95% interval": _interval_text(level, len(scores)),
        f"P(better than `{BASELINE}`)": better,
        "95% interval ": ends,  # the space makes the names of the columns distinct
    }


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
