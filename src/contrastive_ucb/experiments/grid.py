"""Grid: all runs of an experiment, from a table of a few lines (in TOML, or in the catalogue).

    name = "switches"           # by default that of the file
    kind = "train"              # or "solve"
    env = ["DeepSea-10"]        # a name or several
    algo = ["spr", "spr-ucb"]   # the same
    seeds = 5                   # 0 to 4, or a list
    steps = 4000                # with "solve": rounds
    settings = {n_step = 1}     # of every run
    resources = {cpus = 1}      # that a run takes up on a cluster
    [variants.algorithm-1]      # more agents: an algorithm with settings of its own, and its name
    algo = "spr-ucb"
    settings = {"bonus.preset" = "algorithm-1"}

Every env with every agent and every seed is a run. Where that is not enough, there are [[part]]s:
each is a table like this one, in which the keys above stand for what it leaves out.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.evaluation.rollouts import default_episodes
from contrastive_ucb.experiments.job import Job
from contrastive_ucb.experiments.plan import remember
from contrastive_ucb.experiments.resources import resources_of
from contrastive_ucb.experiments.settings import hint, problem_of, training_of
from contrastive_ucb.experiments.spec import NAME

Table = Mapping[str, Any]
SHARED = ("kind", "env", "algo", "seeds", "settings", "variants", "resources")
KEYS = {"solve": (*SHARED, "rounds", "env_seed"), "train": (*SHARED, "steps", "eval_episodes")}


@dataclass(frozen=True)
class Grid:
    """The runs of an experiment, each of them once, in the order in which they are begun."""

    name: str
    jobs: tuple[Job, ...]

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise UserError(
                f"a grid cannot be called {self.name!r}; its name is made of A-Z a-z 0-9 . _ -"
            )
        folders = [(job.folder(Path()), job) for job in self.jobs]
        _check_alike(folders)
        once = dict(reversed(folders))
        object.__setattr__(self, "jobs", tuple(reversed(once.values())))

    def remember(self, root: Path) -> None:
        """Write down what runs there will be, for those who look at the folder."""
        remember(self.name, self.jobs, root)


def read_grid(path: Path) -> Grid:
    """The grid in a TOML file."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(
            f"the grid {path} cannot be read ({error.strerror});"
            " name a TOML file that is there, or an experiment of 'cucb sweep --help'"
        ) from error
    except ValueError as error:
        raise UserError(f"{path} is not valid TOML: {error}") from error
    try:
        return grid_of(table, re.sub("[^A-Za-z0-9._-]", "-", path.stem))
    except (ValueError, ArithmeticError) as error:
        raise UserError(f"{path}: {error}") from error


def grid_of(table: Table, name: str) -> Grid:
    """The grid that the table describes."""
    whole = {key: value for key, value in table.items() if key not in ("name", "part")}
    parts = table.get("part", [{}])
    if not isinstance(parts, list) or not all(isinstance(part, Mapping) for part in parts):
        raise UserError("part is a list of tables; write [[part]]")
    if not parts:
        raise UserError("part is empty, so there is no run; write a [[part]] or leave it out")
    jobs: list[Job] = []
    for part in parts:
        common = {**_flat(whole.get("settings", {})), **_flat(part.get("settings", {}))}
        jobs += _jobs({**whole, **part, "settings": common})
    given = table.get("name", name)
    if not isinstance(given, str):
        raise UserError(f"name must be a word, got {given!r}")
    return Grid(given, tuple(jobs))


def _check_alike(folders: list[tuple[Path, Job]]) -> None:
    """Runs that differ in the seed only must have one label and one kind of evaluation."""
    first: dict[Path, Job] = {}
    for folder, job in folders:
        other = first.setdefault(folder.parent, job)
        for name in ("label", "eval_episodes"):
            mine, theirs = getattr(job, name), getattr(other, name)
            if mine != theirs:
                raise UserError(
                    f"one setting of {job.task.algo} on {job.task.env} has the {name} {theirs!r}"
                    f" and {mine!r}; leave one of them out"
                )


def _jobs(part: Table) -> Iterator[Job]:
    """Every environment with every agent and every seed."""
    kind = part.get("kind")
    if not isinstance(kind, str) or kind not in KEYS:
        raise UserError(f"kind must be 'solve' or 'train', got {kind!r}")
    for key in part:
        if key not in KEYS[kind]:
            known = (*KEYS[kind], "name", "part")
            raise UserError(f"a grid of kind {kind!r} has no {key!r}; {hint(key, known)}")
    length = _whole("rounds" if kind == "solve" else "steps", part)
    agents, seeds = _agents(part), _seeds(part)
    room = resources_of(part.get("resources", {}))
    for env in _names("env", part):
        for label, (algo, settings) in agents.items():
            if kind == "solve":
                problem = problem_of(env, algo, settings, length, part.get("env_seed"))
                yield from (Job(problem, seed, label, resources=room) for seed in seeds)
            else:
                training = training_of(env, algo, settings, length)
                usual = {"eval_episodes": default_episodes(training.env)}
                episodes = _whole("eval_episodes", {**usual, **part})
                for seed in seeds:
                    yield Job(training.with_seed(seed), seed, label, episodes, room)


def _agents(part: Table) -> dict[str, tuple[str, dict[str, Any]]]:
    """label: algorithm and settings, of the algorithms by their names and of the variants."""
    common = part["settings"]
    agents = {algo: (algo, common) for algo in _names("algo", part, least=0)}
    variants = part.get("variants", {})
    if not isinstance(variants, Mapping):
        raise UserError("variants is a table of tables; write [variants.NAME]")
    for name, variant in variants.items():
        if not isinstance(variant, Mapping) or not isinstance(variant.get("algo"), str):
            raise UserError(f"variant {name!r} needs an algo, such as algo = 'spr-ucb'")
        for key in variant:
            if key not in ("algo", "settings"):
                raise UserError(f"a variant has no {key!r}; {hint(key, ('algo', 'settings'))}")
        agents[name] = variant["algo"], {**common, **_flat(variant.get("settings", {}))}
    if not agents:
        raise UserError("a grid needs an algo or variants")
    return agents


def _seeds(part: Table) -> list[int]:
    given = part.get("seeds", 1)
    if not isinstance(given, list):
        check_size("seeds", given)
        return list(range(given))
    for seed in given:
        check_size("each of seeds", seed, least=0)
    if not given:
        raise UserError("seeds is empty; write a number or a list such as [0, 1]")
    return list(given)


def _names(key: str, part: Table, least: int = 1) -> list[str]:
    """One name or several."""
    given = part.get(key, [])
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UserError(f"{key} must be a name or a list of names, got {given!r}")
    if len(names) < least:
        raise UserError(f"a grid needs an {key}")
    return names


def _whole(key: str, part: Table) -> int:
    if key not in part:
        raise UserError(f"a grid of kind {part['kind']!r} needs {key}")
    check_size(key, part[key])
    return int(part[key])


def _flat(settings: Any, before: str = "") -> dict[str, Any]:
    """In TOML `bonus.preset = "paper"` is a table in a table; here it is one key."""
    if not isinstance(settings, Mapping):
        raise UserError(f"settings is a table of names and values, got {settings!r}")
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        name = f"{before}{key}"
        flat |= _flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return flat
