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

Every env with every agent and every seed is a run. A file may contain several [[part]] tables. Each
has the same keys, and the keys above it are its defaults. The experiments of the package are such
files in the folder `experiments`.

A sweep stores its runs in <root>/sweeps/<name>-<hash>.json, so that `cucb status` and `cucb report`
know the runs that have not begun.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from contrastive_ucb.core.checks import check_size, hint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.files import write_atomically
from contrastive_ucb.evaluation.rollouts import default_episodes
from contrastive_ucb.runs.problem import Problem, problem_of
from contrastive_ucb.runs.spec import NAME, Kind, RunSpec, command_words, commands
from contrastive_ucb.runs.store import remedy_of
from contrastive_ucb.runs.training import Training, training_of

Table = Mapping[str, Any]
SHARED = ("kind", "env", "algo", "seeds", "settings", "variants", "resources")
KEYS = {"solve": (*SHARED, "rounds", "env_seed"), "train": (*SHARED, "steps", "eval_episodes")}
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


def resources_of(table: Any) -> Resources:
    """The resources in a table of a grid."""
    if not isinstance(table, Mapping):
        raise UserError(f"resources is a table such as {{cpus = 1, gpus = 0}}, got {table!r}")
    names = [entry.name for entry in fields(Resources)]
    for key in table:
        if key not in names:
            raise UserError(f"resources has no {key!r}; {hint(key, names)}")
    return Resources(**table)


@dataclass(frozen=True)
class Job:
    """One run as data: a problem and a seed, or a training, which contains its seed.

    label          name of the agent in tables
    eval_episodes  per evaluation of a training; None: the default of its environment
    threads        of torch
    """

    task: Problem | Training
    seed: int
    label: str = ""
    eval_episodes: int | None = None
    resources: Resources = Resources()
    threads: int = 1
    device: str = "auto"

    def __post_init__(self) -> None:
        check_size("seed", self.seed, least=0)
        if self.eval_episodes is not None:
            check_size("eval_episodes", self.eval_episodes)
        if isinstance(self.task, Training) and self.task.seed != self.seed:
            raise ValueError(f"seed is {self.seed}, but that of the training is {self.task.seed}")

    @property
    def kind(self) -> Kind:
        return "solve" if isinstance(self.task, Problem) else "train"

    def spec(self) -> RunSpec:
        return self._spec

    @cached_property
    def _spec(self) -> RunSpec:
        return self.task.spec(self.seed) if isinstance(self.task, Problem) else self.task.spec()

    def folder(self, root: Path) -> Path:
        return self.spec().folder(root)

    def words(self) -> list[str]:
        """The command of the run, without seed and output folder."""
        return command_words(self.kind, self.task.inputs(), self.eval_episodes)

    def command(self, out: Path | None = None) -> str:
        """The command line of the run."""
        return commands(self.words(), [self.seed], out)[0]

    def to_json(self) -> dict[str, Any]:
        """The job as JSON values, which `from_json` reads."""
        names = ("seed", "label", "eval_episodes", "threads", "device")
        values = {name: getattr(self, name) for name in names}
        resources, task = asdict(self.resources), asdict(self.task)
        return {"kind": self.kind, **values, "resources": resources, "task": task}

    @classmethod
    def from_json(cls, content: Any) -> Job:
        """The job of `to_json`; an error says what is wrong with the content."""
        try:
            task = dict(content["task"])
            if "settings" in task:  # JSON has no tuples
                items = task["settings"].items()
                task["settings"] = {k: tuple(v) if isinstance(v, list) else v for k, v in items}
            made = {"solve": Problem, "train": Training}[content["kind"]](**task)
            options = {name: content[name] for name in ("threads", "device") if name in content}
            resources = resources_of(content.get("resources", {}))  # older files have none
            values = (content["seed"], content["label"], content["eval_episodes"])
            return cls(made, *values, resources, **options)
        except UserError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"this is not a job ({type(error).__name__}: {error})") from error


@dataclass(frozen=True)
class Grid:
    """The runs of an experiment, each of them once, in the order in which they begin."""

    name: str
    jobs: tuple[Job, ...]

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise UserError(
                f"a grid cannot be called {self.name!r}; use the characters A-Z a-z 0-9 . _ -"
            )
        named = [(job.spec().identity(), job) for job in self.jobs]
        first: dict[str, Job] = {}
        for identity, job in named:
            _check_same(job, first.setdefault(identity, job))
        once = {(identity, job.seed): job for identity, job in reversed(named)}
        object.__setattr__(self, "jobs", tuple(reversed(once.values())))

    def remember(self, root: Path) -> None:
        """Store the planned runs in the output folder."""
        groups = [
            {
                **asdict(group),
                "spec": group.spec.to_json(),
                "folder": group.folder(root).relative_to(root).as_posix(),
            }
            for group in _grouped(self.jobs)
        ]
        content = json.dumps({"name": self.name, "groups": groups})
        digest = hashlib.sha256(content.encode()).hexdigest()[:8]
        path = root / SWEEPS / f"{self.name}-{digest}.json"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, content + "\n")
        except OSError as error:
            raise UserError(
                f"cannot write to {root} ({error.strerror}); {remedy_of(error)}"
            ) from error


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
    whole = {key: value for key, value in table.items() if key not in OF_FILE}
    parts = table.get("part", [{}])
    if not isinstance(parts, list) or not all(isinstance(part, Mapping) for part in parts):
        raise UserError("part is a list of tables; write [[part]]")
    if not parts:
        raise UserError("part is empty, so the grid has no runs; write a [[part]] or leave it out")
    jobs: list[Job] = []
    for part in parts:
        common = {**_flat(whole.get("settings", {})), **_flat(part.get("settings", {}))}
        jobs += _jobs({**whole, **part, "settings": common})
    given = table.get("name", name)
    if not isinstance(given, str):
        raise UserError(f"name must be a word, got {given!r}")
    return Grid(given, tuple(jobs))


@dataclass(frozen=True)
class PlannedGroup:
    """The runs of one agent on one task that differ in the seed only."""

    label: str
    spec: RunSpec  # with the first of the seeds
    seeds: tuple[int, ...]
    eval_episodes: int | None  # per evaluation of a training; None: the default of its environment
    words: tuple[str, ...]  # of the command, without seeds and folder

    def specs(self) -> Iterator[RunSpec]:
        for seed in self.seeds:
            yield replace(self.spec, seed=seed)

    def folder(self, root: Path) -> Path:
        """The folder of all its runs."""
        return self.spec.folder(root).parent

    def command(self, seed: int, root: Path) -> str:
        return commands(self.words, [seed], root)[0]


def remembered(root: Path) -> Iterator[PlannedGroup]:
    """The runs of all sweeps that were started in the folder."""
    for path in sorted((root / SWEEPS).glob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if "groups" in content:
                groups = [_group(group) for group in content["groups"]]
            else:  # written by a version that stored jobs only
                groups = list(_grouped(_old_jobs(content["jobs"], path)))
        except UserError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{path} is damaged ({error}); remove it, the next sweep writes it again"
            ) from error
        yield from groups


def _catalog() -> dict[str, Table]:
    """The TOML files of the package, by name."""
    folder = files("contrastive_ucb").joinpath("experiments")
    names = sorted(item.name for item in folder.iterdir() if item.name.endswith(".toml"))
    texts = {name.removesuffix(".toml"): folder.joinpath(name).read_text() for name in names}
    return {name: tomllib.loads(text) for name, text in texts.items()}


def _check_same(job: Job, other: Job) -> None:
    """Runs that differ in the seed only must have the same label and evaluation."""
    for name in ("label", "eval_episodes"):
        values = getattr(other, name), getattr(job, name)
        if values[0] != values[1]:
            raise UserError(
                f"{job.task.algo} on {job.task.env} has the same settings with the {name}"
                f" {values[0]!r} and {values[1]!r}; leave one of them out"
            )


def _jobs(part: Table) -> Iterator[Job]:
    """Every environment with every agent and every seed."""
    kind = part.get("kind")
    if not isinstance(kind, str) or kind not in KEYS:
        raise UserError(f"kind must be 'solve' or 'train', got {kind!r}")
    for key in part:
        if key not in KEYS[kind]:
            known = (*KEYS[kind], *OF_FILE)
            raise UserError(f"a grid of kind {kind!r} has no {key!r}; {hint(key, known)}")
    length = _integer("rounds" if kind == "solve" else "steps", part)
    agents, seeds = _agents(part), _seeds(part)
    resources = resources_of(part.get("resources", {}))
    for env in _names("env", part):
        for label, (algo, settings) in agents.items():
            if kind == "solve":
                problem = problem_of(env, algo, settings, length, part.get("env_seed"))
                yield from (Job(problem, seed, label, resources=resources) for seed in seeds)
            else:
                training = training_of(env, algo, settings, length)
                default = {"eval_episodes": default_episodes(training.env)}
                episodes = _integer("eval_episodes", {**default, **part})
                for seed in seeds:
                    yield Job(training.with_seed(seed), seed, label, episodes, resources)


def _agents(part: Table) -> dict[str, tuple[str, dict[str, Any]]]:
    """label: algorithm and settings, of the named algorithms and of the variants."""
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


def _grouped(jobs: Iterable[Job]) -> Iterator[PlannedGroup]:
    """The jobs grouped by everything except the seed, in the order of their first job."""
    groups: dict[tuple[str, str, int | None], list[Job]] = {}
    for job in jobs:
        key = (job.spec().identity(), job.label, job.eval_episodes)
        groups.setdefault(key, []).append(job)
    for (_, label, episodes), group in groups.items():
        first, seeds = group[0], tuple(job.seed for job in group)
        spec = first.spec()
        yield PlannedGroup(label or spec.agent, spec, seeds, episodes, tuple(first.words()))


def _group(content: Mapping[str, Any]) -> PlannedGroup:
    values = {name: content[name] for name in content if name != "folder"}  # derived from spec
    values["spec"] = RunSpec(**values["spec"])
    return PlannedGroup(**values | {name: tuple(values[name]) for name in ("seeds", "words")})


def _old_jobs(jobs: Iterable[Any], path: Path) -> list[Job]:
    """Jobs of older versions, whose specifications must be resolved again."""
    try:
        read = [Job.from_json(job) for job in jobs]
        for job in read:
            job.spec()
    except (ValueError, OSError) as error:
        raise UserError(
            f"{path} contains a run that is not known here ({error});"
            " repeat the sweep's command in the folder where it was started to write it again"
        ) from error
    return read
