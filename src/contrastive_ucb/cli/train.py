"""`cucb train ENV`: train a deep agent in an environment with discrete actions."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass
from inspect import getsource
from itertools import pairwise
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any

import tyro

from contrastive_ucb.agents.deep.presets import ALGORITHMS, suitable_threads
from contrastive_ucb.cli.options import Device, Json, emit, parse, say, text_of
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs.foreign import find_modules_here
from contrastive_ucb.runs.training import Training, read_settings

WIDTH = 80  # columns of the help on settings


@dataclass(frozen=True)
class Train:
    """Train a deep agent and evaluate it: on Atari its final weights, elsewhere 5 times over the
    last 10% of training. A repeated command continues where it was stopped.

    environments:
      Pong, ALE/Pong-v5    Atari games with the rules of Atari 100K
      MinAtar/Breakout-v1  MinAtar
      DeepSea-10           DeepSea with N = 10
      RichLock-12          RichLock with H = 12
      MiniGrid-DoorKey-8x8-v0, contrastive_ucb/MultiRoom-N4-S5-Distractors-v0
                           MiniGrid, the symbolic view only
      CartPole-v1, ...     any Gymnasium id with discrete actions, also module:id

    examples:
      cucb train DeepSea-10 --set bonus.preset=algorithm-1 hidden=128 --steps 10000
      cucb train MinAtar/Breakout-v1 --algo spr --steps 50000 --out runs/breakout
      cucb train MiniGrid-MultiRoom-N4-S5-v1 --algo ppo --set intrinsic.bonus=contrastive
    """

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """The environment."""
    algo: str = "spr-ucb"
    """The agent."""
    steps: int = 100_000
    """Environment steps; Atari has 4 frames per step."""
    seed: int = 0
    """Seed of the run and of the environment."""
    seeds: int = 1
    """Number of seeds, starting at --seed, in parallel processes with one thread each."""
    set: Annotated[
        tuple[tuple[str, ...], ...],
        tyro.conf.UseAppendAction,
        tyro.conf.arg(metavar="KEY=VALUE ..."),
    ] = ()
    """Settings that differ from those of the algorithm; `cucb train --help-settings` lists them."""
    out: Path = Path("runs")
    """Folder of the runs."""
    json: Json = False
    eval_episodes: int | None = None
    """Episodes per evaluation; by default 100 on Atari (the Atari 100K protocol), 20 elsewhere."""
    checkpoint_seconds: float = 60.0
    """Seconds between checkpoints, more if saving would take over 5% of the time; 0 saves after
    every step."""
    threads: int | None = None
    """Threads of torch; by default 2 for large images (Atari), otherwise 1. Runs are repeatable to
    the last bit only with the same number."""
    device: Device = "auto"
    resume: bool = False
    """No effect: a repeated command always resumes."""

    def training(self) -> Training:
        """The run of the first seed."""
        settings = read_settings([word for words in self.set for word in words])
        return Training(self.env, self.algo, settings, self.steps, self.seed)


def run(arguments: Sequence[str]) -> None:
    if "--help-settings" in arguments:
        print(settings_help())
        return
    algorithms = [f"  {name:20} {info.what}" for name, info in ALGORITHMS.items()]
    about = "\n".join(["algorithms (`cucb algos` compares their settings):", *algorithms])
    options = parse(Train, arguments, "cucb train", more=about)
    find_modules_here(options.env)
    training = options.training()
    if options.seeds > 1:
        summary = train_seeds(training, options)
    else:
        from contrastive_ucb.core.runtime import choose_device, keep_freed_memory, threads
        from contrastive_ucb.runs.loop import train

        keep_freed_memory()
        device = choose_device(options.device)  # imports torch, whose threads are limited next
        with threads(options.threads or suitable_threads(training.frame_shape)):
            summary = train(
                training,
                options.out,
                checkpoint_seconds=options.checkpoint_seconds,
                eval_episodes=options.eval_episodes,
                device=device,
                say=say,
            )
    for result in summary.get("runs", [summary]):  # a run may have been finished earlier
        asked, played = options.eval_episodes, result["evaluation"]["episodes"]
        if asked not in (None, played):
            more = shlex.join(["cucb", "eval", result["run_dir"], "--episodes", str(asked)])
            say(f"it was evaluated with {played} episodes; {more} plays {asked}")
    emit(summary, options.json, text_of(summary))


def train_seeds(training: Training, options: Train) -> dict[str, Any]:
    """Train several seeds in parallel processes; returns their joint summary.

    Every seed has the bits of a separate run with the same number of threads.
    """
    from contrastive_ucb.runs.grid import Job, Resources
    from contrastive_ucb.runs.loop import overall
    from contrastive_ucb.runs.pool import cores, run_local
    from contrastive_ucb.runs.store import RunFolder

    gpus = Resources(gpus=0 if options.device == "cpu" else 1)  # whether GPUs are visible
    jobs = [
        Job(
            training.with_seed(seed),
            seed,
            eval_episodes=options.eval_episodes,
            resources=gpus,
            threads=options.threads or 1,
            device=options.device,
        )
        for seed in range(options.seed, options.seed + options.seeds)
    ]
    at_once = min(len(jobs), cores())
    say(
        f"training {len(jobs)} seeds, {at_once} at once; 'cucb status {options.out}' shows progress"
    )
    errors = run_local(jobs, options.out, at_once, checkpoint_seconds=options.checkpoint_seconds)
    folders = [RunFolder(job.spec(), options.out) for job in jobs]
    failed = [folder for folder in folders if folder.path in errors]
    for folder in failed:
        say(f"seed {folder.spec.seed}: {errors[folder.path]}")
    if failed:
        raise UserError(
            f"{len(failed)} of {len(jobs)} seeds failed; seed {failed[0].spec.seed}:"
            f" {errors[failed[0].path]}; repeat the command to continue those that are not finished"
        )
    runs = [folder.summary() for folder in folders]
    for run in runs:
        mean = run["evaluation"]["mean"]
        say(f"seed {run['seed']}: mean score {mean:.5g}, {run['seconds']:.0f} s")
    return {**overall(runs), "seeds": len(runs)}


def settings_help() -> str:
    """Every setting of --set with its default, what it takes, and what it means."""
    from contrastive_ucb.agents.deep.config import BonusConfig, ExplorerConfig, RainbowConfig
    from contrastive_ucb.agents.deep.presets import BONUSES, configure
    from contrastive_ucb.agents.ppo.config import PREFIX, PPOConfig
    from contrastive_ucb.agents.simple.config import FULL, SimpleConfig
    from contrastive_ucb.bonus import BONUS_NAMES
    from contrastive_ucb.bonus.config import IntrinsicConfig
    from contrastive_ucb.core.checks import kinds_of, takes

    def entries(config: Any, settings: type, prefix: str = "") -> list[str]:
        meanings = _meanings(settings)
        lines = []
        for name, kind in kinds_of(settings).items():
            value = getattr(config, name)
            if not is_dataclass(kind) and name not in ("explorer", "settings"):
                text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
                lines += _entry(f"{prefix}{name}", text, takes(name, kind), meanings[name])
        return lines

    config = configure("spr-ucb", {})
    explorer = configure("spr-ucb", {"bonus.preset": "explorer"}).explorer
    assert explorer is not None
    preset = "The bonus and the settings of the learner that belong to it."
    lines = [
        "settings (--set KEY=VALUE ...) with their defaults in spr-ucb on Atari:",
        *entries(config, RainbowConfig),
        *_entry("bonus.preset", "paper", f"one of {', '.join(BONUSES)}", preset),
        *entries(config.bonus, BonusConfig, "bonus."),
        "",
        "settings of the explorer, which bonus.preset=explorer switches on:",
        *entries(explorer, ExplorerConfig, "explorer."),
        *entries(explorer.intrinsic, IntrinsicConfig, PREFIX),
        "",
        "settings of simple, which has no bonus, with their defaults in its size full:",
        *entries(FULL, SimpleConfig),
        "",
        "settings of ppo:",
        *entries(PPOConfig(), PPOConfig),
        *entries(IntrinsicConfig(), IntrinsicConfig, PREFIX),
        "",
        "settings of the bonuses of the toolkit, with their defaults in ppo; the explorer",
        "has of=pair, keys=exact and every=256. intrinsic.bonus is none or one of",
        f"{', '.join(BONUS_NAMES)}:",
        *_bonus_entries(),
    ]
    return "\n".join(lines)


def _bonus_entries() -> list[str]:
    """The settings of all bonuses of the toolkit, each with the bonuses that have it."""
    from contrastive_ucb.agents.ppo.config import PREFIX
    from contrastive_ucb.bonus import BONUS_NAMES
    from contrastive_ucb.bonus.config import bonus_settings
    from contrastive_ucb.core.checks import takes

    kinds: dict[str, str] = {}
    defaults: dict[str, dict[str, list[str]]] = {}  # setting -> default -> bonuses
    for bonus in BONUS_NAMES:
        for name, (kind, default) in bonus_settings(bonus).items():
            text = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
            kinds.setdefault(name, takes(name, kind))
            defaults.setdefault(name, {}).setdefault(text, []).append(bonus)
    lines = []
    for name, bonuses in defaults.items():
        if len(bonuses) == 1:
            ((value, users),) = bonuses.items()
            means = f"Of {', '.join(users)}."
        else:
            value = "see below"
            means = "; ".join(f"{text} in {', '.join(users)}" for text, users in bonuses.items())
        lines += _entry(f"{PREFIX}{name}", value, kinds[name], means)
    return lines


def _meanings(settings: type) -> dict[str, str]:
    """The first sentence of the docstring below each field of a class."""
    (tree,) = ast.parse(getsource(settings)).body
    assert isinstance(tree, ast.ClassDef)
    meanings: dict[str, str] = {}
    for setting, below in pairwise(tree.body):
        match setting, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                meanings[name] = re.split(r"(?<=\.)(?<!et al\.)\s", " ".join(text.split()))[0]
    return meanings


def _entry(key: str, value: str, takes_what: str, means: str) -> list[str]:
    """A setting with its default, and its meaning below."""
    head, below = f"  {key:21} {value:10} ", " " * 6
    lines = wrap(
        takes_what,
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,  # names contain hyphens
    )
    return lines + wrap(means, WIDTH, initial_indent=below, subsequent_indent=below)
