"""Grid: all runs of an experiment, read from a TOML file.

    name = "switches"           # default: the name of the file
    about = "two agents"        # one line for `cucb sweep --help`
    kind = "train"              # or "solve"
    env = ["DeepSea-10"]        # one name or a list
    algo = ["spr", "spr-ucb"]   # one name or a list
    seeds = 5                   # 0 to 4, or a list
    steps = 4000                # with "solve": rounds
    settings = {n_step = 1}     # of every run
    resources = {cpus = 1}      # of a run on a cluster
    [variants.algorithm-1]      # further agents: an algorithm with its own settings and name
    algo = "spr-ucb"
    settings = {"bonus.preset" = "algorithm-1"}

Every env with every agent and every seed is a run. `over = {n_step = [1, 3, 5]}` makes one agent
per value of a setting, which is its name. A file may contain several [[part]] tables. Each has the
same keys, and the keys above it are its defaults. The experiments of the package are such files in
the folder `experiments`. With "solve" there are also

    env_seed = 0                # one environment for all seeds
    batch = true                # all seeds of an agent in one process, which is faster
    stops = true                # a run ends when its environment is solved
    probes = ["module:Class"]   # additional measurements, see `runs.session.Probe`
    suite = "facts"             # the first folder in the paths of the runs

A sweep stores its runs in <root>/sweeps/<name>-<hash>.json, so that `cucb status` and `cucb report`
know the runs that have not begun.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from importlib.resources import files
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from contrastive_ucb.core.checks import check_kinds, check_positive, check_range, check_size, hint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.files import checksum, remedy_of, write_atomically
from contrastive_ucb.evaluation.rollouts import default_episodes
from contrastive_ucb.runs.problem import Problem
from contrastive_ucb.runs.spec import (
    LENGTHS,
    NAME,
    Kind,
    RunSpec,
    command_words,
    commands,
    consecutive,
)
from contrastive_ucb.runs.training import Training

Table = Mapping[str, Any]
SHARED = ("kind", "env", "algo", "seeds", "settings", "variants", "over", "resources")
KEYS = {
    "solve": (*SHARED, "rounds", "env_seed", "batch", "stops", "probes", "suite"),
    "train": (*SHARED, "steps", "eval_episodes"),
}
OF_FILE = ("name", "about", "part")  # keys of a whole file
FOLDER = files("contrastive_ucb").joinpath("experiments")
SWEEPS = "sweeps"  # the folder of stored grids below the root of the runs


@dataclass(frozen=True)
class Resources:
    """CPUs and GPUs reserved for a run on a cluster; they do not change its result.

    A run has one thread whatever `cpus` is. Fractions are shared with other runs.
    """

    cpus: float = 1
    gpus: float = 0

    def __post_init__(self) -> None:
        check_kinds(self)
        check_positive(self, "cpus")
        check_range(self, gpus=(0, inf))
        if self.gpus > 1 and self.gpus % 1:
            raise UserError(f"gpus must be an integer or a fraction below 1, got {self.gpus}")


class PlannedRun(NamedTuple):
    """A run of a sweep, which need not have begun."""

    spec: RunSpec
    label: str  # of its agent
    words: list[str]  # of its command, without seed and folder; empty: not known
    eval_episodes: int | None = None  # per evaluation of a training; None: the default


@dataclass(frozen=True)
class Job:
    """One process of a sweep as data: a training, or a problem with one or more seeds.

    seed           of a training, the seed that it contains
    label          name of the agent in tables
    eval_episodes  per evaluation of a training; None: the default of its environment
    threads        of torch
    n_seeds        consecutive seeds of a problem, which run as one batch
    """

    task: Problem | Training
    seed: int
    label: str = ""
    eval_episodes: int | None = None
    resources: Resources = Resources()
    threads: int = 1
    device: str = "auto"
    n_seeds: int = 1

    @property
    def kind(self) -> Kind:
        return "solve" if isinstance(self.task, Problem) else "train"

    @property
    def seeds(self) -> list[int]:
        return list(range(self.seed, self.seed + self.n_seeds))

    def spec(self) -> RunSpec:
        """The specification of the first run."""
        return self.specs[0]

    @cached_property
    def specs(self) -> list[RunSpec]:
        """The specification of each run."""
        first = self.task.spec(self.seed) if isinstance(self.task, Problem) else self.task.spec()
        return [first, *(replace(first, seed=seed) for seed in self.seeds[1:])]

    def folder(self, root: Path) -> Path:
        """The folder of the first run."""
        return self.spec().folder(root)

    def folders(self, root: Path) -> list[Path]:
        """The folder of each run."""
        first = self.folder(root)
        return [first, *(first.with_name(f"seed_{seed}") for seed in self.seeds[1:])]

    def words(self) -> list[str]:
        """The command of the run, without seed and output folder."""
        return command_words(self.kind, self.spec().inputs or {}, self.eval_episodes)

    def command(self, out: Path | None = None) -> str:
        """The command line of the run."""
        return commands(self.words(), self.seeds, out)[0]

    def to_json(self) -> dict[str, Any]:
        """The job as JSON values, which `from_json` reads."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_json(cls, content: Table) -> Job:
        values = {**content, "resources": Resources(**content["resources"])}
        if values.pop("kind") == "train":
            return cls(**values | {"task": Training(**content["task"])})
        probes = tuple(content["task"]["probes"])
        return cls(**values | {"task": Problem(**content["task"] | {"probes": probes})})


@dataclass(frozen=True)
class Grid:
    """The jobs of an experiment, each of them once, in the order in which they begin."""

    name: str
    jobs: tuple[Job, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise UserError(
                f"a grid cannot be called {self.name!r}; use the characters A-Z a-z 0-9 . _ -"
            )
        first: dict[str, Job] = {}  # by identity: equal runs except for the seed
        once: dict[tuple[str, int, int], Job] = {}
        for job in self.jobs:
            identity = job.spec().identity()
            other = first.setdefault(identity, job)
            one, two = ((job.label, job.eval_episodes) for job in (other, job))
            if one != two:
                raise UserError(
                    f"{job.task.algo} on {job.task.env} has the same settings with (label,"
                    f" eval_episodes) = {one} and {two}; leave one of them out"
                )
            once.setdefault((identity, job.seed, job.n_seeds), job)
        object.__setattr__(self, "jobs", tuple(once.values()))

    def remember(self, root: Path) -> None:
        """Store the planned runs in the output folder."""
        groups: dict[str, dict[str, Any]] = {}  # runs that differ in the seed only
        for job in self.jobs:
            spec = job.spec()
            group: dict[str, Any] = {"spec": spec.to_json(), "seeds": []}
            group |= {"label": job.label, "eval_episodes": job.eval_episodes}
            groups.setdefault(spec.identity(), group)["seeds"] += job.seeds
        content = json.dumps({"name": self.name, "groups": list(groups.values())})
        digest = checksum(content.encode())[:8]
        path = root / SWEEPS / f"{self.name}-{digest}.json"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, content + "\n")
        except OSError as error:
            raise UserError(
                f"cannot write to {root} ({error.strerror}); {remedy_of(error)}"
            ) from error


def remembered(root: Path) -> Iterator[PlannedRun]:
    """The runs of all sweeps that were started in the folder."""
    for path in sorted((root / SWEEPS).glob("*.json")):
        try:
            text = path.read_text(encoding="utf-8").rstrip("\n")
            if checksum(text.encode())[:8] != path.stem[-8:]:
                raise ValueError("its name is not the checksum of its content")
            for group in json.loads(text)["groups"]:
                episodes = group["eval_episodes"]
                for seed in group["seeds"]:
                    spec = RunSpec(**group["spec"] | {"seed": seed})
                    words = command_words(spec.kind or "solve", spec.inputs or {}, episodes)
                    yield PlannedRun(spec, group["label"] or spec.agent, words, episodes)
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{path} is damaged ({error}); remove it, the next sweep writes it again"
            ) from error


# The experiments of the package


def experiments() -> dict[str, str]:
    """The experiments of `cucb sweep` by name: one line about each."""
    names = (path.name.removesuffix(".toml") for path in FOLDER.iterdir() if ".toml" in path.name)
    shown = sorted(set(names) - {"facts", "locks"})  # those are of `cucb verify`
    return {name: str(experiment_table(name)["about"]) for name in shown}


def experiment(name: str) -> Grid:
    """The experiment called `name`; an unknown name is an error with the closest one."""
    if name not in (known := experiments()):
        raise UserError(f"no experiment is called {name!r}; {hint(name, known)}")
    return grid_of(experiment_table(name), name)


def experiment_table(name: str) -> Table:
    """The content of a TOML file of the folder `experiments`."""
    return tomllib.loads(FOLDER.joinpath(f"{name}.toml").read_text(encoding="utf-8"))


# From tables to jobs


def read_grid(path: Path) -> Grid:
    """The grid in a TOML file."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        return grid_of(table, re.sub("[^A-Za-z0-9._-]", "-", path.stem))
    except OSError as error:
        raise UserError(
            f"the grid {path} cannot be read ({error.strerror});"
            " name an existing TOML file, or an experiment of 'cucb sweep --help'"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid TOML: {error}") from error
    except (ValueError, ArithmeticError) as error:
        raise UserError(f"{path}: {error}") from error


def grid_of(table: Table, name: str) -> Grid:
    """The grid that the table describes."""
    parts = table.get("part", [{}])
    if not isinstance(parts, list) or not parts:
        raise UserError("part is a list of tables; write [[part]] or leave it out")
    whole = {key: value for key, value in table.items() if key not in OF_FILE}
    jobs = [job for part in parts for job in jobs_of(merged(whole, _table("part", part)))]
    return Grid(table.get("name", name), tuple(jobs))


def merged(whole: Table, part: Table) -> dict[str, Any]:
    """The keys of both; those of `part` replace those of `whole`, and settings are merged."""
    settings = {**_flat(whole.get("settings", {})), **_flat(part.get("settings", {}))}
    return {**whole, **part, "settings": settings}


def jobs_of(part: Table) -> list[Job]:
    """Every environment with every agent and every seed."""
    kind = part.get("kind")
    if kind not in ("solve", "train"):
        raise UserError(f"kind must be 'solve' or 'train', got {kind!r}")
    _check_keys(f"a grid of kind {kind!r}", part, (*KEYS[kind], *OF_FILE))
    for key in ("env", LENGTHS[kind]):
        if key not in part:
            raise UserError(f"a grid of kind {kind!r} needs {key}")
    return [
        job
        for env in _names("env", part)
        for label, (algo, settings) in _agents(part).items()
        for job in _jobs_of_agent(part, env, label, algo, settings)
    ]


def _jobs_of_agent(part: Table, env: str, label: str, algo: str, settings: Table) -> Iterator[Job]:
    """A job per seed, or per range of seeds with `batch`."""
    table = _table("resources", part.get("resources", {}))
    _check_keys("resources", table, [field.name for field in fields(Resources)])
    resources, seeds, length = Resources(**table), _seeds(part), part[LENGTHS[part["kind"]]]
    if part["kind"] == "train":
        training = Training(env, algo, settings, length)
        episodes = part.get("eval_episodes", default_episodes(training.env))
        check_size("eval_episodes", episodes)
        for seed in seeds:
            yield Job(training.with_seed(seed), seed, label, episodes, resources)
        return
    stops, batch = part.get("stops", False), part.get("batch", False)
    if stops and batch:  # the end of a run would depend on the other seeds
        raise UserError("a run that stops cannot be in a batch; leave out batch or stops")
    suite = part.get("suite", "solve")
    problem = Problem(env, algo, settings, length, part.get("env_seed"), suite)
    problem = replace(problem, stops=stops, probes=tuple(_names("probes", part)))
    for first, count in consecutive(seeds) if batch else [(seed, 1) for seed in seeds]:
        yield Job(problem, first, label, resources=resources, n_seeds=count)


def _agents(part: Table) -> dict[str, tuple[str, Table]]:
    """label: algorithm and settings, of the named algorithms and of the variants."""
    common = part["settings"]
    agents = {algo: (algo, common) for algo in _names("algo", part)}
    if over := _flat(part.get("over", {})):
        ((key, values),) = over.items() if len(over) == 1 else [("", None)]
        if len(agents) != 1 or not isinstance(values, list):
            raise UserError(f"over = {{SETTING = [VALUES]}} needs one setting and algo, got {over}")
        (algo,) = agents
        agents = {str(value): (algo, {**common, key: value}) for value in values}
    for name, variant in _table("variants", part.get("variants", {})).items():
        _check_keys("a variant", _table(f"variant {name!r}", variant), ("algo", "settings"))
        if not isinstance(variant.get("algo"), str):
            raise UserError(f"variant {name!r} needs an algo, such as algo = 'spr-ucb'")
        agents[name] = variant["algo"], {**common, **_flat(variant.get("settings", {}))}
    if not agents:
        raise UserError("a grid needs an algo or variants")
    return agents


def _seeds(part: Table) -> list[int]:
    seeds = part.get("seeds", 1)
    if not isinstance(seeds, list):
        check_size("seeds", seeds)
        return list(range(seeds))
    for seed in seeds:
        check_size("each of seeds", seed, least=0)
    if not seeds:
        raise UserError("seeds is empty; write a number or a list such as [0, 1]")
    return seeds


def _names(key: str, part: Table) -> list[str]:
    """One name or a list of names."""
    given = part.get(key, [])
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UserError(f"{key} must be a name or a list of names, got {given!r}")
    return names


def _table(key: str, value: Any) -> Table:
    if not isinstance(value, Mapping):
        raise UserError(f"{key} is a table of names and values, got {value!r}")
    return value


def _check_keys(what: str, table: Table, known: Iterable[str]) -> None:
    for key in table:
        if key not in known:
            raise UserError(f"{what} has no {key!r}; {hint(key, known)}")


def _flat(settings: Any, before: str = "") -> dict[str, Any]:
    """Settings with dotted keys; in TOML `bonus.preset = "paper"` is a table in a table."""
    flat: dict[str, Any] = {}
    for key, value in _table("settings", settings).items():
        name = f"{before}{key}"
        flat |= _flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return flat
