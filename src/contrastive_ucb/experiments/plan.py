"""What a sweep sets out to do, written down in its folder for those who look at it later.

    <root>/sweeps/<name>-<8 hex digits of its content>.json

Runs stand there with their specifications and their commands, so that nobody who reads them needs
the files, the packages or the folder that the sweep was started with. Two grids of one name have
two files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.files import write_atomically
from contrastive_ucb.experiments.job import Job
from contrastive_ucb.experiments.spec import RunSpec
from contrastive_ucb.experiments.store import way_out_of
from contrastive_ucb.experiments.words import commands

SWEEPS = "sweeps"  # the folder below the root of the runs


@dataclass(frozen=True)
class PlannedGroup:
    """The runs of one agent on one task that differ in the seed only."""

    label: str
    spec: RunSpec  # with the first of the seeds
    seeds: tuple[int, ...]
    eval_episodes: int | None  # per evaluation of a training; None: the default of its env
    words: tuple[str, ...]  # of the command, without seeds and folder

    def specs(self) -> Iterator[RunSpec]:
        for seed in self.seeds:
            yield replace(self.spec, seed=seed)

    def folder(self, root: Path) -> Path:
        """Where all of its runs are."""
        return self.spec.folder(root).parent

    def command(self, seed: int, root: Path) -> str:
        return commands(self.words, [seed], root)[0]


def remember(name: str, jobs: Iterable[Job], root: Path) -> None:
    """Write down what runs there will be."""
    groups = [{**asdict(group), "spec": group.spec.to_json()} for group in _grouped(jobs)]
    content = json.dumps({"name": name, "groups": groups})
    digest = hashlib.sha256(content.encode()).hexdigest()[:8]
    path = root / SWEEPS / f"{name}-{digest}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content + "\n")
    except OSError as error:
        raise UserError(
            f"cannot write to {root} ({error.strerror}); {way_out_of(error)}"
        ) from error


def remembered(root: Path) -> Iterator[PlannedGroup]:
    """The runs of all sweeps that were begun in the folder."""
    for path in sorted((root / SWEEPS).glob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if "groups" in content:
                groups = [_group(one) for one in content["groups"]]
            else:  # written before commands and specifications stood there
                groups = list(_grouped(_old_jobs(content["jobs"], path)))
        except UserError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{path} is damaged ({error}); remove it, the next sweep writes it again"
            ) from error
        yield from groups


def _grouped(jobs: Iterable[Job]) -> Iterator[PlannedGroup]:
    """The jobs grouped by everything but the seed, in the order of their first job."""
    alike: dict[tuple[Path, str, int | None], list[Job]] = {}
    for job in jobs:
        key = (job.folder(Path()).parent, job.label, job.eval_episodes)
        alike.setdefault(key, []).append(job)
    for (_, label, episodes), group in alike.items():
        first, seeds = group[0], tuple(job.seed for job in group)
        yield PlannedGroup(
            label or first.spec().agent, first.spec(), seeds, episodes, tuple(first.words())
        )


def _group(content: Mapping[str, Any]) -> PlannedGroup:
    own = dict(content)
    own |= {"spec": RunSpec(**own["spec"])}
    own |= {name: tuple(own[name]) for name in ("seeds", "words")}
    return PlannedGroup(**own)


def _old_jobs(jobs: Iterable[Any], path: Path) -> list[Job]:
    """Jobs as data alone, whose specifications have to be found out again."""
    try:
        found = [Job.from_json(job) for job in jobs]
        for job in found:
            job.spec()
    except (ValueError, OSError) as error:
        raise UserError(
            f"{path} speaks of a run that is not known here ({error});"
            " repeat the sweep's command in the folder where it was started, which writes it anew"
        ) from error
    return found
