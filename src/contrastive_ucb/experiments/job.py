"""Job: one run with one seed as data, and the function that runs it.

All backends (processes on this machine, or a cluster) call `run_job`, which calls the same
functions as `cucb solve` and `cucb train`. A job and its command write the same run folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.experiments.problem import Problem
from contrastive_ucb.experiments.resources import ONE_CORE, Resources, resources_of
from contrastive_ucb.experiments.spec import RunSpec
from contrastive_ucb.experiments.training import Training
from contrastive_ucb.experiments.words import commands, words_of_task


@dataclass(frozen=True)
class Job:
    """A problem and a seed, or a training, which has its own seed."""

    task: Problem | Training
    seed: int
    label: str = ""  # name of the agent in tables; not part of the specification
    eval_episodes: int | None = None  # per evaluation of a training; None: the default of its env
    resources: Resources = ONE_CORE  # on a cluster; not part of the specification

    def __post_init__(self) -> None:
        check_size("seed", self.seed, least=0)
        if self.eval_episodes is not None:
            check_size("eval_episodes", self.eval_episodes)
        if isinstance(self.task, Training) and self.task.seed != self.seed:
            raise ValueError(f"seed is {self.seed}, but that of the training is {self.task.seed}")

    @property
    def kind(self) -> str:
        return "solve" if isinstance(self.task, Problem) else "train"

    def spec(self) -> RunSpec:
        return self._spec

    @cached_property
    def _spec(self) -> RunSpec:
        return self.task.spec(self.seed) if isinstance(self.task, Problem) else self.task.spec()

    def folder(self, root: Path) -> Path:
        return self.spec().folder(root)

    def command(self, out: Path | None = None) -> str:
        """The same run as a command for people."""
        return commands(self.words(), [self.seed], out)[0]

    def words(self) -> list[str]:
        """The words of the command, without seed and folder."""
        return words_of_task(self.task, self.eval_episodes)

    def to_json(self) -> dict[str, Any]:
        """The job as JSON values, which `from_json` reads."""
        own = {"kind": self.kind, "seed": self.seed, "label": self.label}
        own |= {"eval_episodes": self.eval_episodes, "resources": asdict(self.resources)}
        return {**own, "task": asdict(self.task)}

    @classmethod
    def from_json(cls, content: Any) -> Job:
        """The job that became these values; an error says what is wrong with them."""
        try:
            kind = {"solve": Problem, "train": Training}[content["kind"]]
            task = kind(**_with_tuples(content["task"]))
            resources = resources_of(content.get("resources", {}))  # older grids have none
            own = (content["seed"], content["label"], content["eval_episodes"])
            return cls(task, *own, resources)
        except UserError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"this is no job ({type(error).__name__}: {error})") from error


def run_job(
    job: Job,
    root: Path,
    *,
    progress: bool = False,
    checkpoint_seconds: float | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Run or resume the job with one thread, unless it is finished; return its summary."""
    from contrastive_ucb.core.runtime import choose_device, keep_freed_memory, threads
    from contrastive_ucb.experiments.solve import solve  # imports torch
    from contrastive_ucb.experiments.train import train

    options: dict[str, Any] = {"progress": progress, "say": say}
    if checkpoint_seconds is not None:
        options["checkpoint_seconds"] = checkpoint_seconds
    with threads(1):
        if isinstance(job.task, Problem):
            return solve(job.task, [job.seed], root, **options)[0]
        keep_freed_memory()
        options |= {"eval_episodes": job.eval_episodes, "device": choose_device("auto")}
        return train(job.task, root, **options)


def _with_tuples(task: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the learner have tuples where JSON has lists."""
    values = dict(task)
    if "settings" in values:
        own = values["settings"].items()
        values["settings"] = {k: tuple(v) if isinstance(v, list) else v for k, v in own}
    return values
