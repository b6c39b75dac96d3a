"""The page of `make demo`: low-rank MDPs, the lock, the same for zero-sum games, a deep sea."""

from __future__ import annotations

import platform
from collections.abc import Collection
from importlib.metadata import version
from pathlib import Path

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.files import write_atomically
from contrastive_ucb.report.demo_text import INTRO, NOTES, PEERS
from contrastive_ucb.report.figures import BAND, curves, lock_figure, save_png, to_svg
from contrastive_ucb.report.game_page import game_pages
from contrastive_ucb.report.html import Illustration, Section, page
from contrastive_ucb.report.read import Group, read_groups
from contrastive_ucb.report.sea_page import SEA, sea_page
from contrastive_ucb.report.tables import left_out, solved_text, summary_table

SUITE = "demo"
TITLE = "Contrastive UCB: learning where to look"
TASKS = ("lowrank", "lock", "lowrank-game", "lock-game", SEA)


def write_demo_page(
    root: Path, out: Path, commands: list[str], folders: Collection[Path] | None = None
) -> Path:
    """Write the page to `out` and its figures as PNG beside it; the same runs, the same bytes.

    root       the run store, with the suite "demo" and the tasks of `TASKS`
    commands   what was typed to get here, shown as it is
    folders    the task folders to show (<root>/demo/<agent>/<task>-<hash8>); all by default
    """
    groups = [g for g in read_groups(root, SUITE) if folders is None or g.folder in folders]
    lowrank, lock, game, vault, dived = (_of_task(groups, task, root) for task in TASKS)
    games, sea = game_pages(game, vault), sea_page(dived)
    pictures = {
        "regret": curves(
            lowrank, "average_regret", title="Average regret", ylabel="average gap to $V^*$"
        ),
        "model_error": curves(
            lowrank, "zeta", title="Model error", ylabel="model error $\\zeta_k$"
        ),
        "lock": lock_figure(lock),
        **games.pictures,
        **sea.pictures,
    }
    svgs = {name: to_svg(figure) for name, figure in pictures.items()}
    played = [_lowrank_section(lowrank, svgs), _lock_section(lock, svgs)]
    played += [*games.sections(svgs), sea.section(svgs)]
    present = {group.agent for group in [*lowrank, *lock, *game, *vault, *dived]}
    who = tuple(f"{agent}: {text}" for agent, text in PEERS.items() if agent in present)
    sections = [
        Section("What this is", INTRO),
        Section("Who takes part", notes=who),
        *played,
        Section("How to read this", notes=NOTES),
        Section("Make it yourself", commands=tuple(commands)),
    ]
    text = page(TITLE, sections, _versions())
    out.parent.mkdir(parents=True, exist_ok=True)
    for name, figure in pictures.items():
        save_png(figure, out.parent / f"{name}.png")
    write_atomically(out, text)
    return out


def _of_task(groups: list[Group], task: str, root: Path) -> list[Group]:
    chosen = [group for group in groups if group.task == task]
    if not any(group.finished for group in chosen):
        raise UserError(
            f"no run of {task}-* is finished under {root / SUITE};"
            " run the demo to its end, it goes on where it stopped"
        )
    return chosen


def _lowrank_section(groups: list[Group], svgs: dict[str, str]) -> Section:
    names = ", ".join(group.agent for group in groups)
    regret = Illustration(
        svgs["regret"],
        "Figure 1. Average regret: how much less than V* the policies of rounds 1 to k earn, on"
        " average. The theorem promises contrastive-ucb, run with the theorem's own constants, a"
        " fall like the dotted line or steeper, up to logarithms."
        f" {BAND}",
        f"Average regret over rounds of {names}, on logarithmic axes.",
    )
    error = Illustration(
        svgs["model_error"],
        "Figure 2. Model error ζ: the squared distance (L1) between learnt and true"
        " probabilities of the next state, averaged over the states and actions that the agent's"
        " own data come from, at the worst step. The theory promises contrastive-ucb the"
        f" dotted slope or a steeper one, up to logarithms. {BAND}",
        f"Model error over rounds of {names}, on logarithmic axes.",
    )
    return Section(
        "A low-rank MDP: learning the model, and what it costs",
        (
            "Each seed has a random MDP of its own with 10 states, 3 actions, 4 steps and rank 3,"
            " in which only a few actions of the last step pay. It is an easy one: random actions"
            " reach everything soon, so agents without a bonus do well here, often better than"
            " contrastive-ucb, which spends rounds on making sure. The price of the paper's"
            " sampler, which wastes half of the transitions, shows in the distance to rep-ucb.",
        ),
        figures=(regret, error),
        table=summary_table(groups),
        table_caption=_table_caption("Table 1. The low-rank MDP: means over seeds.", groups),
    )


def _lock_section(groups: list[Group], svgs: dict[str, str]) -> Section:
    told = solved_text(groups)
    figure = Illustration(
        svgs["lock"],
        "Figure 3. Above: what the policy of each round would earn, as a part of V*; a thin line"
        " is a seed, a thick one the mean. Below: a dot is a seed, filled if it opened the lock.",
        f"Value of the policies over rounds, and the seeds that opened the lock: {told}.",
    )
    return Section(
        "The lock: exploring on purpose",
        (
            "The lock has 6 steps, 5 actions and 20 disguises of the dead state; the agents use"
            " exact negatives and have to learn the reward. An agent has opened the lock"
            " when its policy earns at least 95 % of V* in five rounds"
            f" running. Seeds that did: {told}.",
        ),
        (figure,),
        summary_table(groups),
        _table_caption(
            "Table 2. The lock: means over seeds; the median round is that of the seeds that opened"
            " it.",
            groups,
        ),
    )


def _table_caption(title: str, groups: list[Group]) -> str:
    return (
        f"{title} A round counts as optimistic when the agent's own estimate of"
        f" what it can earn is at least V*.{left_out(groups)}"
    )


def _versions() -> str:
    parts = [f"contrastive-ucb {version('contrastive-ucb')}", f"Python {platform.python_version()}"]
    parts += [f"{name} {version(name)}" for name in ("numpy", "torch", "matplotlib")]
    return "Made with " + ", ".join(parts) + "."
