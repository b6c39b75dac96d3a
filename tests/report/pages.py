"""Every kind of page, from small synthetic runs, and a parser of their structure."""

from html.parser import HTMLParser
from pathlib import Path
from unittest.mock import patch

from report.runs import write_atari, write_demo, write_everything

from contrastive_ucb.cli import main
from contrastive_ucb.envs.atari import ATARI_100K
from contrastive_ucb.report import demo

PAGES = ("report", "table", "figure-mean", "figure-aggregates", "demo")
VOID = {"meta", "link", "br", "img", "input"}


class Outline(HTMLParser):
    """The elements and the text of a page; every element must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def make_page(name: str, folder: Path) -> Path:
    """Write the page `name` with the command that a user would type."""
    out, runs = folder / f"{name}.html", folder / f"{name}-runs"
    if name == "report":
        write_everything(runs)
        assert main(["report", str(runs), "--out", str(out)]) == 0
    elif name == "demo":
        write_demo(runs)
        with patch.object(demo, "save_png"):
            demo.write_demo_page(runs, out)
    elif name == "figure-mean":  # published numbers only
        assert main(["reproduce", name, "--out", str(out)]) == 0
    else:  # one agent with runs of all games, or two with runs of some
        whole = name == "figure-aggregates"
        agents = {"spr-ucb": 0.6} if whole else {"spr": 0.4, "spr-ucb": 0.6}
        games = ATARI_100K if whole else ATARI_100K[::3]
        write_atari(runs, agents, games, seeds=2, returns=())
        assert main(["reproduce", name, "--runs", str(runs), "--out", str(out)]) == 0
    return out
