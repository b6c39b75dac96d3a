"""`cucb algos`: the deep agents and the settings in which they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from contrastive_ucb.cli.options import Json, emit, parse


@dataclass(frozen=True)
class Algos:
    """List the agents of `cucb train --algo` and the settings in which they differ.

    `cucb train ENV --set KEY=VALUE` changes any setting.
    """

    env: str = "Pong"
    """The environment whose settings are shown; those of MinAtar and DeepSea differ."""
    json: Json = False


def run(arguments: Sequence[str]) -> None:
    options = parse(Algos, arguments, "cucb algos")

    from contrastive_ucb.agents.deep.presets import ALGORITHMS
    from contrastive_ucb.envs.registry import canonical_name, frame_shape_of
    from contrastive_ucb.report.agent_table import differing_settings, rows, text_table

    name = canonical_name(options.env)
    settings = differing_settings(frame_shape_of(name), name)
    about = [["agent", "what it is", "source"]]
    about += [[algo, info.what, info.source] for algo, info in ALGORITHMS.items()]
    lines = [
        text_table(about, numbers=False),
        f"differences on {name} (SimPLe and PPO have other settings):",
        text_table(rows(settings)),
        "all except simple and ppo accept the UCB bonus: cucb train Pong --algo der --set"
        " bonus.scale=1; ppo has intrinsic rewards: --set intrinsic.bonus=contrastive",
    ]
    agents = {
        algo: {"what": info.what, "source": info.source, "settings": settings.get(algo, {})}
        for algo, info in ALGORITHMS.items()
    }
    emit({"env": name, "algos": agents}, options.json, "\n\n".join(lines))
