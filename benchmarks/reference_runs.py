"""Record the metrics of short runs of every algorithm, or compare a later version with the record.

    .venv/bin/python benchmarks/reference_runs.py record
    .venv/bin/python benchmarks/reference_runs.py check [NAME ...]

`record` writes benchmarks/reference_runs.json: the summary of each run and, for each metric, the
number of its values, the last one and a checksum of all of them. `check` runs the same commands
again and prints every difference beyond 1e-9. Metrics of time are left out. Numbers are equal bit
for bit on the same processor with the same libraries.
"""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_suffix(".json")
TOLERANCE = 1e-9  # for numbers of another numerical library
TIMES = ("seconds", "run_dir", "per_second", "sps", "wall", "time", "minutes")
SMALL = "--set updates_per_step=0.25"
RUNS = {
    "lock": "solve lock --rounds 60 --seeds 3",
    "lock-exact": "solve lock --negatives exact --rounds 40 --seeds 2",
    "lowrank": "solve lowrank --rounds 60 --seeds 3",
    "lowrank-ucbvi": "solve lowrank --algo ucbvi --rounds 40 --seeds 2",
    "lowrank-lsvi": "solve lowrank --algo lsvi-ucb --rounds 40 --seeds 2",
    "lowrank-rep": "solve lowrank --algo rep-ucb --rounds 40 --seeds 2",
    "lock-epsilon": "solve lock --algo epsilon-greedy --rounds 30 --seeds 2",
    "lock-uniform": "solve lock --algo uniform --rounds 30 --seeds 2",
    "deepsea-table": "solve deepsea --rounds 30 --seeds 2",
    "riverswim": "solve riverswim --rounds 30 --seeds 2",
    "lowrank-game": "solve lowrank-game --rounds 40 --seeds 2",
    "lock-game": "solve lock-game --rounds 30 --seeds 2",
    "lowrank-game-omni": "solve lowrank-game --algo omni-vi --rounds 20 --seeds 2",
    "lowrank-game-midpoint": "solve lowrank-game --algo midpoint-nash --rounds 20 --seeds 2",
    "rich-lock": "solve rich-lock --rounds 4 --seed 0",
    "rich-lock-game": "solve rich-lock-game --rounds 3 --seed 0",
    "continuous": "solve continuous --rounds 4 --seed 0",
    "gym": "solve gym --id CartPole-v1 --horizon 10 --rounds 3 --seed 0",
    **{
        f"deepsea-{algo}": f"train DeepSea-5 --algo {algo} --steps 700 --seed 0"
        for algo in ("rainbow", "der", "otr", "spr", "spr-ucb")
    },
    **{
        f"deepsea-{preset}": f"train DeepSea-5 --algo spr-ucb --set bonus.preset={preset}"
        " --steps 700 --seed 0"
        for preset in ("reference", "algorithm-1")
    },
    **{
        f"minatar-{algo}": f"train MinAtar/Breakout-v1 --algo {algo} {SMALL} --steps 1500 --seed 0"
        for algo in ("rainbow", "der", "otr", "drq", "drq-eps", "curl", "spr", "spr-ucb")
    },
    **{
        f"minatar-{preset}": f"train MinAtar/Breakout-v1 --algo spr-ucb {SMALL}"
        f" bonus.preset={preset} --steps 1500 --seed 0"
        for preset in ("reference", "algorithm-1")
    },
    "minatar-simple": "train MinAtar/Breakout-v1 --algo simple --set epochs=2 epoch_steps=200"
    " --steps 400 --seed 0",
    "atari-spr-ucb": "train Pong --algo spr-ucb --set first_update=100 --steps 120 --seed 0"
    " --eval-episodes 1",
    "verify": "verify F7 --quick",
}
GRID = """kind = "solve"
env = "lock"
seeds = 3
rounds = 20
[variants.contrastive-ucb]
algo = "contrastive-ucb"
[variants.uniform]
algo = "uniform"
"""


def main() -> None:
    action, *names = sys.argv[1:] or [""]
    if action not in ("record", "check"):
        sys.exit("usage: python benchmarks/reference_runs.py record|check [NAME ...]")
    stored = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    failed = 0
    for name in names or [*RUNS, "sweep"]:
        measured = sweep() if name == "sweep" else measure(RUNS[name])
        if action == "record":
            stored[name] = measured
            RECORD.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
            print(f"{name}: {len(measured['metrics'])} metrics recorded", flush=True)
        else:
            problems = differences(stored[name], measured)
            failed += bool(problems)
            close = rounded(stored[name], measured)
            equal = f"equal, {close} metrics up to rounding" if close else "equal"
            print(f"{name}: {'; '.join(problems) or equal}", flush=True)
    sys.exit(f"{failed} runs differ" if failed else 0)


def cucb(command: str) -> dict[str, Any]:
    words = [sys.executable, "-m", "contrastive_ucb.cli", *command.split()]
    printed = subprocess.run(words, capture_output=True, text=True)
    if printed.returncode:
        sys.exit(f"cucb {command}: {printed.stderr.strip().splitlines()[-1]}")
    last = printed.stdout.splitlines()[-1:]
    summary: dict[str, Any] = json.loads(last[0]) if last and last[0].startswith("{") else {}
    return summary


def measure(command: str) -> dict[str, Any]:
    """The summary and the metrics of one command."""
    with tempfile.TemporaryDirectory() as folder:
        out = "" if command.startswith("verify") else f" --out {folder}"
        summary = cucb(f"{command}{out} --json")
        return {"summary": without_times(summary), "metrics": metrics_of(Path(folder))}


def sweep() -> dict[str, Any]:
    """A small sweep and the scores that its report writes."""
    with tempfile.TemporaryDirectory() as folder:
        grid, page = Path(folder) / "g.toml", Path(folder) / "page.html"
        grid.write_text(GRID)
        cucb(f"sweep {grid} --out {folder}/runs --workers 1 --json")
        cucb(f"report {folder}/runs --out {page}")
        scores = sorted(line for line in page.with_suffix(".csv").read_text().splitlines())
        return {"summary": {"scores": scores}, "metrics": metrics_of(Path(folder))}


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: without_times(part)
            for key, part in value.items()
            if not any(word in key for word in TIMES)
        }
    return [without_times(part) for part in value] if isinstance(value, list) else value


def metrics_of(folder: Path) -> dict[str, list[Any]]:
    """By seed folder and tag: number of values, the last value, and a checksum of all."""
    series: dict[str, list[tuple[int, Any]]] = {}
    for path in sorted(folder.glob("**/metrics.jsonl")):
        agent = path.parts[-4]
        for line in path.read_text().splitlines():
            event = json.loads(line)
            for tag, value in event.items():
                if tag != "step" and not any(word in tag for word in TIMES):
                    key = f"{agent}/{path.parent.name}/{tag}"
                    series.setdefault(key, []).append((event["step"], value))
    return {
        tag: [
            len(values),
            values[-1][1],
            hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16],
        ]
        for tag, values in sorted(series.items())
    }


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What is missing or has changed in the new record. New fields do not count.

    A metric with another checksum is accepted if its last value is close, since only the last value
    is stored.
    """
    problems = missing(old["summary"], new["summary"], "summary")
    for tag, (count, last, digest) in old["metrics"].items():
        if tag not in new["metrics"]:
            problems.append(f"no metric {tag}")
            continue
        n, value, new_digest = new["metrics"][tag]
        if new_digest != digest and (n != count or not is_close(last, value)):
            problems.append(f"{tag}: {n} values, last {value} instead of {count}, {last}")
    return problems


def rounded(old: dict[str, Any], new: dict[str, Any]) -> int:
    """The number of metrics that are equal only up to rounding."""
    return sum(
        digest != new["metrics"][tag][2]
        for tag, (*_, digest) in old["metrics"].items()
        if tag in new["metrics"]
    )


def is_close(old: Any, new: Any) -> bool:
    """Equality, for numbers within `TOLERANCE` relative to their size."""
    if isinstance(old, float) and isinstance(new, float):
        return math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(old == new)


def missing(old: Any, new: Any, where: str) -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        absent = [f"no field {where}.{key}" for key in old.keys() - new.keys()]
        shared = [key for key in old if key in new]
        return absent + [
            text for key in shared for text in missing(old[key], new[key], f"{where}.{key}")
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [text for at, pair in pairs for text in missing(*pair, f"{where}[{at}]")]
    return [] if is_close(old, new) else [f"{where}: {new} instead of {old}"]


if __name__ == "__main__":
    main()
