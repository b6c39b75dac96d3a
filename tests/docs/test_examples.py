"""Python blocks and examples of the documentation run, and its command lines are valid."""

import contextlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from contrastive_ucb.agents.finite.presets import GAME_PRESETS
from contrastive_ucb.cli import (
    COMMANDS,
    algos,
    demo,
    eval,
    main,
    play,
    report,
    reproduce,
    solve,
    status,
    sweep,
    train,
    verify,
)
from contrastive_ucb.cli.options import parse
from contrastive_ucb.facts.locks import tasks
from contrastive_ucb.facts.plan import read_plan
from contrastive_ucb.runs.grid import experiments

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LONGEST = 40  # lines
# Arguments that shorten a long run
QUICK = {"sb3_ppo": ["2048"], "sb3_dqn": ["300"], "cleanrl_ppo": ["1"], "deep_agent": ["150"]}


OTHERS = {
    "sweep": sweep.Sweep,
    "report": report.Report,
    "reproduce": reproduce.Reproduce,
    "eval": eval.Evaluate,
    "play": play.Play,
    "status": status.Status,
    "algos": algos.Algos,
    "demo": demo.Demo,
}


def blocks(language: str) -> list[tuple[str, str]]:
    """The fenced blocks of one language in all pages, with names for the tests."""
    named = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        parts = re.findall(r"^```([^\n]*)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
        bodies = [body for kind, body in parts if kind == language]
        name = page.relative_to(ROOT).as_posix().removeprefix("docs/")
        named += [(f"{name}-{at}", body) for at, body in enumerate(bodies)]
    return named


def command_lines() -> list[str]:
    """Every `cucb ...` in a block without a language, without the path of the program."""
    lines = (line.strip() for _, body in blocks("") for line in body.splitlines())
    return sorted({line.removeprefix(".venv/bin/") for line in lines if "cucb " in line})


def mentioned_commands() -> list[str]:
    """Every `cucb command ...` between single backticks in the text."""
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    return sorted(set(re.findall(r"(?<!`)`(cucb [^`\n]+)`", text)))


PYTHON = blocks("python")


@pytest.mark.parametrize("code", [body for _, body in PYTHON], ids=[name for name, _ in PYTHON])
def test_python_block_runs(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "block", "exec"), {"__name__": "__main__"})
    assert "nan" not in capsys.readouterr().out


def run_example(script: Path, folder: Path, *arguments: str) -> str:
    """The output of the example."""
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "MKL", "OMP")}
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=folder,
        env={**os.environ, **threads},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("script", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_example_runs(script: Path, tmp_path: Path) -> None:
    n_lines = len(script.read_text(encoding="utf-8").splitlines())
    assert n_lines <= LONGEST
    printed = run_example(script, tmp_path, *QUICK.get(script.stem, []))
    assert printed.strip()


@pytest.mark.slow
def test_dqn_finds_the_treasure_only_with_the_bonus(tmp_path: Path) -> None:
    printed = run_example(ROOT / "examples" / "sb3_dqn.py", tmp_path)
    with_bonus, without = re.findall(r"treasure in (\d+) of", printed)
    assert int(with_bonus) > 25
    assert int(without) == 0


@pytest.mark.parametrize("name", ["sb3_dqn", "sb3_ppo"])
def test_the_example_names_the_missing_library(name: str, tmp_path: Path) -> None:
    (tmp_path / "stable_baselines3.py").write_text("raise ImportError('not here')")
    code = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    (tmp_path / "example.py").write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert "pip install 'contrastive-ucb[sb3" in line


def without_path(options: list[str]) -> list[str]:
    at = options.index("--path")
    return [*options[:at], *options[at + 2 :]]


@pytest.mark.parametrize("line", command_lines())
def test_command_line_is_understood(line: str) -> None:
    """The command's own parser accepts the options; nothing is run."""
    program, command, *rest = shlex.split(line)
    assert program == "cucb"
    if command == "solve":
        # A file does not exist here; the options of its algorithm are those of another environment.
        if rest[0] == "file":
            algo = rest[rest.index("--algo") + 1] if "--algo" in rest else "contrastive-ucb"
            rest = ["lowrank-game" if algo in GAME_PRESETS else "lowrank", *without_path(rest[1:])]
        solve.parse_command(rest)
    elif command == "train":
        assert parse(train.Train, rest, line).training().config
    elif command == "verify" and rest[:1] == ["locks"]:
        board = parse(verify.Locks, rest[1:], line)
        assert tasks(board.horizons, board.seeds, board.quick)
    elif command == "verify":
        options = parse(verify.Verify, rest, line, verify.Verify())
        assert read_plan(options.quick, options.seeds).choose(options.facts).facts
    else:
        parse(OTHERS[command], rest, line)
        if command == "sweep" and not rest[0].endswith(".toml"):
            assert sweep.find_grid(rest[0]).jobs


TOML = blocks("toml")


@pytest.mark.parametrize("text", [body for _, body in TOML], ids=[name for name, _ in TOML])
def test_grid_is_understood(text: str, tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(text)
    assert len(sweep.find_grid(str(tmp_path / "grid.toml")).jobs) in (10, 30, 60)


def test_numbers_of_runs_are_right() -> None:
    text = (ROOT / "docs" / "how-to" / "sweeps.md").read_text(encoding="utf-8")
    shown = {name: int(count) for name, count in re.findall(r"^\| `(\w+)` \| (\d+) \|", text, re.M)}
    assert shown == {
        name: sum(job.n_seeds for job in sweep.find_grid(name).jobs) for name in experiments()
    }


@pytest.mark.parametrize("text", mentioned_commands())
def test_mentioned_command_exists(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The text may omit options of a command, so only its help is printed."""
    _, command, *rest = text.split()
    assert command in COMMANDS
    known = [word for word in rest if word != "--help"]
    with contextlib.suppress(SystemExit):  # --help exits
        assert main([command, *known, "--help"]) == 0
    printed = capsys.readouterr()
    text = printed.out + printed.err  # with --json all text is on stderr
    assert "usage" in text or ("--help-settings" in known and text.startswith("settings"))


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
