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

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from contrastive_ucb.core.checks import check_size, hint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.files import write_atomically
from contrastive_ucb.evaluation.rollouts import default_episodes
from contrastive_ucb.runs.problem import Problem, problem_of
from contrastive_ucb.runs.spec import NAME, Kind, RunSpec, command_words, commands, consecutive
from contrastive_ucb.runs.store import remedy_of
from contrastive_ucb.runs.training import Training, training_of

Table = Mapping[str, Any]
SHARED = ("kind", "env", "algo", "seeds", "settings", "variants", "over", "resources")
KEYS = {
    "solve": (*SHARED, "rounds", "env_seed", "batch", "stops", "probes", "suite"),
    "train": (*SHARED, "steps", "eval_episodes"),
}
OF_FILE = ("name", "about", "part")  # keys of a whole file
SWEEPS = "sweeps"  # the folder of stored grids below the root of the runs


@dataclass(frozen=True)
class Resources:
    """CPUs and GPUs reserved for a run on a cluster; they do not change its result.

    A run has one thread whatever `cpus` is. A fraction of a GPU is shared with other runs.
    """

    cpus: float = 1
    gpus: float = 0

    def __post_init__(self) -> None:
        for name, value in (("cpus", self.cpus), ("gpus", self.gpus)):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise UserError(f"{name} takes a number, got {value!r}")
        if not 0 < self.cpus < math.inf:
            raise UserError(
                f"cpus must be more than 0, got {self.cpus}; 0.5 lets two runs share one"
            )
        if not 0 <= self.gpus < math.inf:
            raise UserError(f"gpus must be at least 0, got {self.gpus}")
        if self.gpus > 1 and self.gpus % 1:
            raise UserError(f"gpus must be an integer or a fraction below 1, got {self.gpus}")


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
        return self._spec

    @cached_property
    def _spec(self) -> RunSpec:
        return self.task.spec(self.seed) if isinstance(self.task, Problem) else self.task.spec()

    def specs(self) -> list[RunSpec]:
        """The specification of each run."""
        first = self.spec()
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
        return command_words(self.kind, self.task.inputs(), self.eval_episodes)

    def command(self, out: Path | None = None) -> str:
        """The command line of the run."""
        return commands(self.words(), self.seeds, out)[0]

    def to_json(self) -> dict[str, Any]:
        """The job as JSON values, which `from_json` reads."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_json(cls, content: Any) -> Job:
        """The job of `to_json`; an error says what is wrong with the content."""
        try:
            values = dict(content)
            kind = {"solve": Problem, "train": Training}[values.pop("kind")]
            task = {name: _with_tuples(value) for name, value in values.pop("task").items()}
            if kind is Training:
                items = task.get("settings", {}).items()
                task["settings"] = {name: _with_tuples(value) for name, value in items}
            resources = Resources(**values.pop("resources", {}))
            return cls(kind(**task), resources=resources, **values)
        except UserError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(f"this is not a job ({type(error).__name__}: {error})") from error


@dataclass(frozen=True)
class Grid:
    """The jobs of an experiment, each of them once, in the order in which they begin."""

    name: str
    jobs: tuple[Job, ...]

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise UserError(
                f"a grid cannot be called {self.name!r}; use the characters A-Z a-z 0-9 . _ -"
            )
        first: dict[str, Job] = {}  # by identity: equal runs except for the seed
        once: dict[tuple[str, int, int], Job] = {}
        for job in self.jobs:
            identity = job.spec().identity()
            other = first.setdefault(identity, job)
            for name in ("label", "eval_episodes"):
                values = getattr(other, name), getattr(job, name)
                if values[0] != values[1]:
                    raise UserError(
                        f"{job.task.algo} on {job.task.env} has the same settings with the {name}"
                        f" {values[0]!r} and {values[1]!r}; leave one of them out"
                    )
            once.setdefault((identity, job.seed, job.n_seeds), job)
        object.__setattr__(self, "jobs", tuple(once.values()))

    def remember(self, root: Path) -> None:
        """Store the planned runs in the output folder."""
        groups: dict[str, dict[str, Any]] = {}  # runs that differ in the seed only
        for job in self.jobs:
            spec = job.spec()
            group = {
                "label": job.label or spec.agent,
                "spec": spec.to_json(),
                "seeds": [],
                "eval_episodes": job.eval_episodes,
                "words": job.words(),
                "folder": job.folder(root).parent.relative_to(root).as_posix(),
            }
            groups.setdefault(spec.identity(), group)["seeds"] += job.seeds
        content = json.dumps({"name": self.name, "groups": list(groups.values())})
        digest = hashlib.sha256(content.encode()).hexdigest()[:8]
        path = root / SWEEPS / f"{self.name}-{digest}.json"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, content + "\n")
        except OSError as error:
            raise UserError(
                f"cannot write to {root} ({error.strerror}); {remedy_of(error)}"
            ) from error


class PlannedRun(NamedTuple):
    """A run of a sweep."""

    spec: RunSpec
    label: str
    words: list[str]  # of its command, without seed and folder
    eval_episodes: int | None  # per evaluation of a training; None: the default


def remembered(root: Path) -> Iterator[PlannedRun]:
    """The runs of all sweeps that were started in the folder."""
    for path in sorted((root / SWEEPS).glob("*.json")):
        try:
            groups = json.loads(path.read_text(encoding="utf-8"))["groups"]
            runs = [
                PlannedRun(
                    RunSpec(**group["spec"] | {"seed": seed}),
                    *(group[name] for name in PlannedRun._fields[1:]),
                )
                for group in groups
                for seed in group["seeds"]
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{path} is damaged ({error}); remove it, the next sweep writes it again"
            ) from error
        yield from runs


def experiments() -> dict[str, str]:
    """The experiments of the package by name: one line about each."""
    return {name: str(table["about"]) for name, table in _catalog().items()}


def experiment(name: str) -> Grid:
    """The experiment called `name`; an unknown name is an error with the closest one."""
    return grid_of(experiment_table(name), name)


def experiment_table(name: str) -> Table:
    """The content of the TOML file of an experiment."""
    tables = _catalog()
    if name not in tables:
        raise UserError(f"no experiment is called {name!r}; {hint(name, tables)}")
    return tables[name]


def read_table(name: str) -> dict[str, Any]:
    """The TOML file of this name in the folder `experiments` of the package."""
    folder = files("contrastive_ucb").joinpath("experiments")
    return tomllib.loads(folder.joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def _catalog() -> dict[str, Table]:
    """The experiments of `cucb sweep` by name; that of `cucb verify` is not one of them."""
    folder = files("contrastive_ucb").joinpath("experiments")
    stems = (item.name.removesuffix(".toml") for item in folder.iterdir() if ".toml" in item.name)
    return {name: read_table(name) for name in sorted(stems) if name != "facts"}


def read_grid(path: Path) -> Grid:
    """The grid in a TOML file."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(
            f"the grid {path} cannot be read ({error.strerror});"
            " name an existing TOML file, or an experiment of 'cucb sweep --help'"
        ) from error
    except ValueError as error:
        raise UserError(f"{path} is not valid TOML: {error}") from error
    try:
        return grid_of(table, re.sub("[^A-Za-z0-9._-]", "-", path.stem))
    except (ValueError, ArithmeticError) as error:
        raise UserError(f"{path}: {error}") from error


def grid_of(table: Table, name: str) -> Grid:
    """The grid that the table describes."""
    parts = table.get("part", [{}])
    if not isinstance(parts, list) or not all(isinstance(part, Mapping) for part in parts):
        raise UserError("part is a list of tables; write [[part]]")
    if not parts:
        raise UserError("part is empty, so the grid has no runs; write a [[part]] or leave it out")
    given = table.get("name", name)
    if not isinstance(given, str):
        raise UserError(f"name must be a word, got {given!r}")
    whole = {key: value for key, value in table.items() if key not in OF_FILE}
    return Grid(given, tuple(job for part in parts for job in jobs_of(merged(whole, part))))


def merged(whole: Table, part: Table) -> dict[str, Any]:
    """The keys of both; those of `part` replace those of `whole`, and settings are merged."""
    settings = {**_flat(whole.get("settings", {})), **_flat(part.get("settings", {}))}
    return {**whole, **part, "settings": settings}


def jobs_of(part: Table) -> list[Job]:
    """Every environment with every agent and every seed."""
    kind = part.get("kind")
    if not isinstance(kind, str) or kind not in KEYS:
        raise UserError(f"kind must be 'solve' or 'train', got {kind!r}")
    for key in part:
        if key not in KEYS[kind]:
            known = (*KEYS[kind], *OF_FILE)
            raise UserError(f"a grid of kind {kind!r} has no {key!r}; {hint(key, known)}")
    agents, seeds = _agents(part), _seeds(part)
    make = _solve_jobs if kind == "solve" else _train_jobs
    return [
        job
        for env in _names("env", part)
        for label, (algo, settings) in agents.items()
        for job in make(part, env, label, algo, settings, seeds)
    ]


def _solve_jobs(
    part: Table, env: str, label: str, algo: str, settings: Table, seeds: list[int]
) -> Iterator[Job]:
    length, suite = _integer("rounds", part), part.get("suite", "solve")
    problem = problem_of(env, algo, settings, length, part.get("env_seed"), suite)
    stops, batch = part.get("stops", False), part.get("batch", False)
    if stops and batch:  # the end of a run would depend on the other seeds
        raise UserError("a run that stops cannot be in a batch; leave out batch or stops")
    problem = replace(problem, stops=stops, probes=tuple(_names("probes", part, least=0)))
    resources = _resources(part)
    for first, count in consecutive(seeds) if batch else [(seed, 1) for seed in seeds]:
        yield Job(problem, first, label, resources=resources, n_seeds=count)


def _train_jobs(
    part: Table, env: str, label: str, algo: str, settings: Table, seeds: list[int]
) -> Iterator[Job]:
    training = training_of(env, algo, settings, _integer("steps", part))
    default = {"eval_episodes": default_episodes(training.env)}
    episodes = _integer("eval_episodes", {**default, **part})
    for seed in seeds:
        yield Job(training.with_seed(seed), seed, label, episodes, _resources(part))


def _resources(part: Table) -> Resources:
    table = part.get("resources", {})
    if not isinstance(table, Mapping):
        raise UserError(f"resources is a table such as {{cpus = 1, gpus = 0}}, got {table!r}")
    names = [entry.name for entry in fields(Resources)]
    for key in table:
        if key not in names:
            raise UserError(f"resources has no {key!r}; {hint(key, names)}")
    return Resources(**table)


def _agents(part: Table) -> dict[str, tuple[str, dict[str, Any]]]:
    """label: algorithm and settings, of the named algorithms and of the variants."""
    common, over, variants = part["settings"], part.get("over"), part.get("variants", {})
    agents = {algo: (algo, common) for algo in _names("algo", part, least=0)}
    if over is not None:
        values = _flat(over)
        if len(agents) != 1 or [type(value) for value in values.values()] != [list]:
            raise UserError(f"over = {{SETTING = [VALUES]}} needs one setting and algo, got {over}")
        ((algo, _),), ((key, listed),) = agents.values(), values.items()
        agents = {str(value): (algo, {**common, key: value}) for value in listed}
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
    """One name or a list of names."""
    given = part.get(key, [])
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UserError(f"{key} must be a name or a list of names, got {given!r}")
    if len(names) < least:
        raise UserError(f"a grid needs an {key}")
    return names


def _integer(key: str, part: Table) -> int:
    if key not in part:
        raise UserError(f"a grid of kind {part['kind']!r} needs {key}")
    check_size(key, part[key])
    return int(part[key])


def _flat(settings: Any, before: str = "") -> dict[str, Any]:
    """Settings with dotted keys; in TOML `bonus.preset = "paper"` is a table in a table."""
    if not isinstance(settings, Mapping):
        raise UserError(f"settings is a table of names and values, got {settings!r}")
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        name = f"{before}{key}"
        flat |= _flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return flat


def _with_tuples(value: Any) -> Any:
    """JSON has no tuples; settings of agents and names of probes are tuples."""
    return tuple(value) if isinstance(value, list) else value
