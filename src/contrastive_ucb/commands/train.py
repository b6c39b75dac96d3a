"""`cucb train ENV`: a deep agent in any environment with discrete actions."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from contrastive_ucb.agents.deep.presets import ALGORITHMS
from contrastive_ucb.commands.options import emit, parse
from contrastive_ucb.commands.train_help import settings_help, takes
from contrastive_ucb.core.checks import check_size

HELP = f"""usage: cucb train ENV [options]

Train a deep agent; a repeated command goes on where it was stopped.

environments:
  Pong, ALE/Pong-v5    Atari games under the rules of Atari 100K
  MinAtar/Breakout-v1  MinAtar
  DeepSea-10           the deep sea, 10 x 10
  RichLock-12          the rich lock, 12 steps
  CartPole-v1, ...     any id of Gymnasium with discrete actions, also module:id

algorithms (--algo):
{chr(10).join(f"  {name:20} {about.what}" for name, about in ALGORITHMS.items())}

`cucb train ENV --help` lists the options, for example
  cucb train DeepSea-10 --set bonus.preset=algorithm-1 hidden=128 --steps 10000
  cucb train MinAtar/Breakout-v1 --algo spr --steps 50000 --out runs/breakout
"""
YES, NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass(frozen=True)
class Train:
    """Train a deep agent and evaluate it: on Atari its final weights, elsewhere 5 times over the
    last 10% of training."""

    algo: str = "spr-ucb"
    """The agent; cucb algos lists all."""
    steps: int = 100_000
    """Steps of the agent; Atari shows 4 frames a step."""
    seed: int = 0
    """Of the run and of the environment."""
    seeds: int = 1
    """How many seeds, from --seed on: a process each, with one thread, as many as there are cores
    at once."""
    set: tuple[str, ...] = ()
    """Settings that differ from the algorithm's, as KEY=VALUE; cucb train --help lists all."""
    out: Path = Path("runs")
    """Where run folders go. Repeating a command resumes it, or shows what is finished."""
    resume: bool = False
    """Need not be said: a repeated command always goes on where it was stopped."""
    eval_episodes: int | None = None
    """Episodes per evaluation; by default 100 on Atari (the Atari 100K protocol), 20 elsewhere."""
    checkpoint_seconds: float = 60.0
    """Seconds between checkpoints, or more where saving would take over 5% of the time; 0 saves
    after every step."""
    threads: int | None = None
    """Threads of torch; by default 2 for large images (Atari), otherwise 1. Runs are repeatable to
    the last bit only with the same number."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the network is; auto takes CUDA where there is any."""
    json: bool = False
    """Print the summary as one JSON object, the last line of stdout."""

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("seed", 0), ("seeds", 1)):
            check_size(name, getattr(self, name), least)
        for name in ("eval_episodes", "threads"):
            if getattr(self, name) is not None:
                check_size(name, getattr(self, name))
        if not self.checkpoint_seconds >= 0:
            raise ValueError(
                f"checkpoint_seconds must be at least 0, got {self.checkpoint_seconds}"
            )


def run(arguments: Sequence[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(f"{HELP}\n{settings_help()}")
        return
    if arguments[0].startswith("-"):
        raise ValueError(f"name an environment before {arguments[0]}, such as Pong or DeepSea-10")
    env, *rest = arguments
    options = parse(Train, gathered(rest), f"cucb train {env}", Train())
    settings = read_settings(options.set)
    if options.seeds > 1:
        emit_seeds(env, rest, options)
        return

    from contrastive_ucb.core.runtime import choose_device, keep_freed_memory
    from contrastive_ucb.experiments.train import Training, train  # imports torch

    training = Training(env, options.algo, settings, options.steps, options.seed)
    keep_freed_memory()
    use_threads(options.threads, training.frame_shape)
    summary = train(
        training,
        options.out,
        checkpoint_seconds=options.checkpoint_seconds,
        eval_episodes=options.eval_episodes,
        device=choose_device(options.device),
        say=lambda line: print(line, file=sys.stderr),
    )
    _remark_episodes(options, [summary])
    emit(summary, options.json, text_of(summary))


def emit_seeds(env: str, words: Sequence[str], options: Train) -> None:
    """Train several seeds and print a summary of them."""
    from contrastive_ucb.commands.train_seeds import train_seeds

    mine = ("--seed", "--seeds", "--json")
    kept = _without(words, mine) + ([] if options.threads else ["--threads", "1"])
    summary = train_seeds([env, *kept], range(options.seed, options.seed + options.seeds))
    _remark_episodes(options, summary["runs"])
    shown = {name: value for name, value in summary.items() if name != "runs"}
    emit(summary, options.json, text_of(shown))


def _remark_episodes(options: Train, summaries: Sequence[dict[str, Any]]) -> None:
    """Say so if a run was finished earlier with another number of evaluation episodes."""
    asked = options.eval_episodes
    for summary in summaries:
        played = summary["evaluation"]["episodes"]
        if asked is not None and played != asked:
            more = shlex.join(["cucb", "eval", summary["run_dir"], "--episodes", str(asked)])
            print(f"it was evaluated with {played} episodes; {more} plays {asked}", file=sys.stderr)


def _without(words: Sequence[str], names: Sequence[str]) -> list[str]:
    """The words without some options and their values."""
    kept: list[str] = []
    skipped = False
    for word in words:
        name = word.split("=")[0]
        if name.startswith("-"):
            skipped = name in names
        if not skipped:
            kept.append(word)
    return kept


def use_threads(asked: int | None, frame_shape: tuple[int, ...]) -> None:
    """Use the threads that were asked for, or those that suit the frames."""
    from contrastive_ucb.agents.deep.presets import suitable_threads
    from contrastive_ucb.core.runtime import set_threads

    set_threads(asked or suitable_threads(frame_shape))


def read_settings(words: Sequence[str]) -> dict[str, Any]:
    """KEY=VALUE words with each value in the type of its setting; `configure` knows the keys."""
    from contrastive_ucb.experiments.settings import deep_kinds  # imports numpy

    kinds = deep_kinds()
    settings: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals:
            raise ValueError(f"--set {word} has no value; write KEY=VALUE, such as n_step=3")
        settings[key] = _value(key, text, kinds.get(key, str))
    return settings


def text_of(summary: dict[str, Any]) -> str:
    """The summary as text, one line per entry."""
    lines = [f"{summary['algo']} on {summary['env']}, seed {summary['seed']}"]
    for name, value in summary.items():
        if name in ("algo", "env", "seed", "scores"):
            continue
        if isinstance(value, dict):
            value = ", ".join(_entry(key, one) for key, one in value.items())
        shown = f"{value:.5g}" if isinstance(value, float) else str(value)
        nothing = "never" if name == "solved_at" else "-"
        lines.append(f"  {name.replace('_', ' '):24} {shown if value is not None else nothing}")
    return "\n".join(lines)


def _entry(name: str, value: Any) -> str:
    """One entry of a nested part of the summary, such as the mean of the evaluation."""
    if name == "points":  # the evaluations of a run
        return f"at steps {', '.join(str(point['step']) for point in value)}"
    return f"{name} {value:.5g}"


def gathered(arguments: Sequence[str]) -> list[str]:
    """The arguments with what follows every --set behind one: `--set a=1 b=2 --set c=3`."""
    others: list[str] = []
    words: list[str] = []
    inside = False
    for word in arguments:
        if word.startswith("-"):
            inside = word == "--set" or word.startswith("--set=")
            if word.startswith("--set="):
                words.append(word.removeprefix("--set="))
            elif not inside:
                others.append(word)
        else:
            (words if inside else others).append(word)
    return others + (["--set", *words] if words else [])


def _value(key: str, text: str, kind: Any) -> Any:
    try:
        return _read(text, kind)
    except ValueError:
        raise ValueError(f"--set {key} takes {takes(key, kind)}, got {text!r}") from None


def _read(text: str, kind: Any) -> Any:
    """`text` as a value of the type `kind`; ValueError if it is none."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if text.lower() in ("none", "auto"):
            return None
        return _read(text, next(one for one in inner if one is not type(None)))
    if origin is tuple:
        parts = text.strip("()[], ").split(",")
        kinds = (inner[0],) * len(parts) if inner[-1] is Ellipsis else inner
        return tuple(_read(part.strip(), one) for part, one in zip(parts, kinds, strict=True))
    if origin is Literal:
        if text not in inner:
            raise ValueError
        return text
    if kind is bool:
        if text.lower() not in YES + NO:
            raise ValueError
        return text.lower() in YES
    if kind is int:
        number = float(text)  # 1e5 is a whole number too
        if not number.is_integer():
            raise ValueError
        return int(number)
    if kind is float and not math.isfinite(float(text)):
        raise ValueError
    return kind(text)
