"""Run: what is played and what is kept of it, and the name that follows from both."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

from contrastive_ucb.runs.problem import Problem


@dataclass(frozen=True)
class Run:
    """One algorithm on one task with seeds 0, 1, ...; what is kept of it is named here too."""

    name: str
    task: str
    label: str  # the value that tells it from the other runs of its sweep
    problem: Problem
    seeds: int
    curves: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()
    stops: bool = False  # as soon as all seeds have solved the task

    def identity(self) -> dict[str, Any]:
        """All that determines what is measured, but for the code.

        Settings that are at their defaults are left out: a new one that nobody uses changes
        nothing, and two runs that say the same in other words are one.
        """
        plain = replace(self.problem, agent_settings={})
        own, usual = (problem.spec(0).config for problem in (self.problem, plain))
        changed = {k: v for k, v in own["agent"].items() if v != usual["agent"][k]}
        return {
            "env": own["env"],
            "algo": self.problem.algo,
            "settings": changed,
            "rounds": own["rounds"],
            "seeds": self.seeds,
            "curves": sorted(self.curves),
            "probes": sorted(self.probes),
            "stops": self.stops,
        }

    def key(self, code: str) -> str:
        """The same as a short name; `code` stands for the program that measures."""
        content = json.dumps([self.identity(), code], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()[:16]
