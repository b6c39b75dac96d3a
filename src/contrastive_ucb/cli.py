"""The command `cucb`: finds the command, and turns errors into one line and exit code 2."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

COMMANDS = {
    "solve": "run Contrastive UCB (on games ULCB) or a peer on an MDP or zero-sum game",
    "train": "train SPR-UCB or a peer in Atari, MinAtar, DeepSea or any Gymnasium game",
    "algos": "the agents that 'train' knows, as a table of their differences",
    "eval": "play episodes with what a run of 'train' has learnt",
    "play": "watch what a run of 'train' has learnt: scores, bonus of each step, video",
    "reproduce": "the paper's table and figures: published numbers, and beside them what was run",
    "report": "one page about a folder of runs: curves, scores, intervals, what is missing",
    "demo": "Contrastive UCB next to its peers in a few minutes, ending with a page of figures",
    "sweep": "all runs of an experiment or a grid of your own, several at once",
    "status": "what state the runs of a folder are in: progress, score, time left",
    "verify": "the facts of the theory: what the paper proves, measured against its marks",
}

HELP = f"""usage: cucb COMMAND ...

Contrastive UCB: contrastive self-supervised learning in online reinforcement learning.

commands:
{chr(10).join(f"  {name:9} {text}" for name, text in COMMANDS.items())}

`cucb COMMAND --help` explains a command. All commands take --json (the summary as one JSON object,
the last line of stdout) and --debug (a traceback where there would be a one-line error).
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 is success, 2 a wrong input, 130 an interruption."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    given = [word for word in given if word != "--debug"]
    # Small matrices gain nothing from threads, and lose much on a busy machine.
    for library in ("MKL", "OMP"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    if not given or given[0] in ("-h", "--help"):
        print(HELP, end="")
        return 0
    try:
        if given[0] == "--version":
            print(import_module("contrastive_ucb").__version__)
            return 0
        if given[0] not in COMMANDS:
            close = get_close_matches(given[0], COMMANDS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "try 'cucb --help'"
            raise ValueError(f"no command is called {given[0]!r}; {hint}")
        import_module(f"contrastive_ucb.commands.{given[0]}").run(given[1:])
    except KeyboardInterrupt:
        goes_on = "a repeated 'solve', 'train', 'sweep' or 'demo' goes on from here"
        print(f"cucb: stopped; {goes_on}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0  # somebody closed our stdout, for example `cucb ... | head`
    except MemoryError as error:
        if debug:
            raise
        print(f"cucb: out of memory ({error}); use fewer states, seeds or steps", file=sys.stderr)
        return 2
    except (ValueError, ArithmeticError, OSError) as error:
        if debug:
            raise
        print(f"cucb: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
