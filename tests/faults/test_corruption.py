"""Random damage to a file of a run, followed by a command, is recovered from or reported.

No damage may change a number without a message.
"""

from __future__ import annotations

import csv
import io
import json
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faults.runs import Outcome, call, is_traceback, names_place, results_of, start, words_of

import contrastive_ucb as cu
from contrastive_ucb.runs.store import is_busy

KINDS = ("table", "game", "deep", "sweep")
COMMANDS = ("repeat", "repeat", "status", "report", "load", "eval")
IGNORED = ("tensorboard", ".lock", "log.txt")  # nothing is read from them
CHECKPOINTS = 0.5  # how often the damage is in a checkpoint or the replay memory
# What `status` shows of runs that are not finished, besides their state
PROGRESS = ("step", "latest", "seconds_left")


# Damage ------------------------------------------------------------------------------------------


def flip_a_bit(file: Path, draw: random.Random) -> None:
    data = bytearray(file.read_bytes())
    if data:
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    file.write_bytes(data)


def change_a_digit(file: Path, draw: random.Random) -> None:
    data = bytearray(file.read_bytes())
    digits = [at for at, byte in enumerate(data) if byte in b"0123456789"]
    if digits:
        at = draw.choice(digits)
        data[at] = ord(str((int(chr(data[at])) + draw.randint(1, 9)) % 10))
    file.write_bytes(data)


def truncate(file: Path, draw: random.Random) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: draw.randrange(max(len(data), 1))])


def empty(file: Path, draw: random.Random) -> None:
    file.write_bytes(b"")


def delete(file: Path, draw: random.Random) -> None:
    file.unlink()


def append(file: Path, draw: random.Random) -> None:
    with file.open("ab") as stream:
        stream.write(draw.randbytes(draw.randint(1, 40)))


def remove_a_line(file: Path, draw: random.Random) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    if lines:
        del lines[draw.randrange(len(lines))]
    file.write_bytes(b"".join(lines))


def take_from_another_seed(file: Path, draw: random.Random) -> None:
    """The file of the same name in another run; of a checkpoint, its newest checkpoint."""
    run = run_of(file)
    others = [path for path in sorted(run.parent.glob("seed_*")) if path != run]
    other = draw.choice(others) if others else run
    checkpoints = sorted((other / "checkpoints").glob("step_*"), key=step_of)
    if other != run and checkpoints and file.parent.name.startswith("step_"):
        shutil.rmtree(file.parent)
        shutil.copytree(checkpoints[-1], file.parent)
    elif other != run and (other / file.relative_to(run)).exists():
        shutil.copy(other / file.relative_to(run), file)
    else:
        change_a_digit(file, draw)


DAMAGES = (
    flip_a_bit,
    change_a_digit,
    truncate,
    empty,
    delete,
    append,
    remove_a_line,
    take_from_another_seed,
)

# Folders -----------------------------------------------------------------------------------------


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("step_"))


def run_of(file: Path) -> Path:
    """The run folder of a file."""
    return next(path for path in file.parents if path.name.startswith("seed_"))


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, bool], tuple[Path, dict]]:
    """A folder of runs of a kind, finished or interrupted, and the results of undisturbed runs."""
    known: dict[tuple[str, bool], Path] = {}

    def of(kind: str, finished: bool) -> tuple[Path, dict]:
        for done in (True, finished):
            if (kind, done) not in known:
                folder = tmp_path_factory.mktemp(kind) / "runs"
                if done:
                    assert call(words_of(kind, folder)).code == 0
                else:
                    interrupt(kind, folder)
                known[kind, done] = folder
        return known[kind, finished], results_of(known[kind, True])

    return of


def interrupt(kind: str, folder: Path) -> None:
    """Kill the runs when the first of them has two checkpoints."""
    process = start(words_of(kind, folder))
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if any(len(list(p.glob("step_*"))) > 1 for p in folder.rglob("checkpoints")):
            break
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    while any(is_busy(path) for path in folder.rglob("seed_*")):  # workers save and stop
        time.sleep(0.01)


@pytest.fixture(scope="session")
def known() -> dict[Any, Outcome]:
    """What the commands say about undamaged folders."""
    return {}


def test_damage_never_changes_a_result_silently(
    fault: int,
    folders: Callable[[str, bool], tuple[Path, dict]],
    known: dict[Any, Outcome],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    draw = random.Random(f"corruption {fault}")
    kind, finished = KINDS[fault % len(KINDS)], draw.random() < 0.4
    source, expected = folders(kind, finished)
    root = tmp_path / "runs"
    shutil.copytree(source, root)
    if (grid := source.parent / "grid.toml").exists():
        shutil.copy(grid, tmp_path)
    files = [
        path
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.parts and not set(path.parts) & set(IGNORED)
    ]
    files = [path for path in files if any(part.startswith("seed_") for part in path.parts)]
    states = [path for path in files if {"checkpoints", "replay"} & set(path.parts)]
    file = draw.choice(states if states and draw.random() < CHECKPOINTS else files)
    run = run_of(file)
    command = draw.choice(COMMANDS)
    if command == "eval" and kind != "deep":
        command = "repeat"
    key = kind, finished, command, run.relative_to(root)
    if key not in known:
        known[key] = observe(command, kind, run, root)
        shutil.rmtree(root)
        shutil.copytree(source, root)
    before = known[key]
    damage = draw.choice(DAMAGES)
    damage(file, draw)

    after = observe(command, kind, run, root)
    case = f"{damage.__name__} of {file.relative_to(root)} ({kind}, {finished=}), then {command}"
    verdict = judge(command, before, after, run, root, expected)
    record_property("outcome", (command, verdict))
    print(f"{verdict}: {case}")
    assert verdict != "failure", f"{case}\n{after.out[-600:]}\n{after.err[-1200:]}"


def observe(command: str, kind: str, run: Path, root: Path) -> Outcome:
    """Run the command on the folder; what it says about the runs is in `out`."""
    outcome = observed(command, kind, run, root)
    out, err = (text.replace(str(root), "ROOT") for text in (outcome.out, outcome.err))
    return Outcome(outcome.code, out, err)


def observed(command: str, kind: str, run: Path, root: Path) -> Outcome:
    if command == "repeat":
        return call(words_of(kind, root))
    if command == "status":
        return call(["status", str(root), "--json"])
    if command == "eval":
        return call(["eval", str(run), "--episodes", "2", "--threads", "1", "--json"])
    if command == "report":
        page = root.parent / "report.html"
        result = call(["report", str(root), "--out", str(page), "--json"])
        scores = page.with_suffix(".csv")
        text = scores.read_text() if result.code == 0 else result.out
        for file in (page, scores):
            file.unlink(missing_ok=True)
        return Outcome(result.code, text, result.err + result.out)
    return load(run)


def load(run: Path) -> Outcome:
    """The state of the agent that `contrastive_ucb.load` returns."""
    try:
        agent: Any = cu.load(run)
        text = f"{agent!r} {agent.evaluate(episodes=2)}"
        return Outcome(0, text, "")
    except ValueError as error:  # what a user catches
        return Outcome(2, "", str(error))
    except Exception as error:
        return Outcome(None, "", f"{type(error).__name__}: {error}")


def judge(
    command: str, before: Outcome, after: Outcome, run: Path, root: Path, expected: dict
) -> str:
    """`identical`, `recovered`, `reported` or `failure`."""
    if after.code is None or is_traceback(after.err):
        return "failure"
    if after.code != 0:
        return "reported" if names_place(after.err, run, root) else "failure"
    if command == "repeat":
        same = results_of(root) == expected
    else:
        same = comparable(command, before.out) == comparable(command, after.out)
    if same:
        return "recovered" if "instead" in after.err else "identical"
    if command == "status":
        old, new = ({row["run"]: row for row in rows_of(o.out)} for o in (before, after))
        changed = [row for name, row in new.items() if row != old.get(name)]
        reported = [row for row in changed if names_place(row["error"] or "", run, root)]
        return "reported" if old.keys() == new.keys() and changed == reported else "failure"
    if command == "report":
        # The numbers of other runs are unchanged, and the message names this one.
        rows = [list(csv.reader(io.StringIO(outcome.out))) for outcome in (before, after)]
        unchanged = all(row in rows[0] for row in rows[1] if "finished" in row)
        return "reported" if unchanged and names_place(after.err, run, root) else "failure"
    return "failure"


def comparable(command: str, text: str) -> Any:
    return rows_of(text) if command == "status" else text


def rows_of(text: str) -> list[dict[str, Any]]:
    """The rows of `status`, without the progress of runs that are not finished."""
    return [
        {key: value for key, value in row.items() if key not in PROGRESS}
        for row in json.loads(text)["runs"]
    ]
