"""The command `cucb`: dispatches to a command and prints errors in one line."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from importlib import import_module

from contrastive_ucb.core.checks import hint
from contrastive_ucb.core.runtime import (
    Stopped,
    set_signal_handlers,
    signal_handlers,
    stopped_by_signals,
)

COMMANDS = {
    "solve": "run Contrastive UCB (ULCB on games) or a peer on an MDP or a zero-sum game",
    "train": "train SPR-UCB or a peer on Atari, MinAtar, DeepSea or any Gymnasium environment",
    "algos": "list the agents of 'train' and the settings in which they differ",
    "eval": "evaluate the agent of a run of 'train'",
    "play": "play episodes with the agent of a run of 'train': scores, bonus per step, video",
    "reproduce": "the paper's table and figures from published numbers and your runs",
    "report": "a page about a folder of runs: curves, scores, intervals, missing runs",
    "demo": "compare Contrastive UCB with its peers in a few minutes, with a page of figures",
    "sweep": "run an experiment or your own grid, several runs at once",
    "status": "state, progress and score of the runs in a folder",
    "verify": "measure the claims of the paper's theory and compare them with their targets",
}

HELP = f"""usage: cucb COMMAND ...

Contrastive UCB: contrastive self-supervised learning in online reinforcement learning.

commands:
{chr(10).join(f"  {name:9} {text}" for name, text in COMMANDS.items())}

`cucb COMMAND --help` describes a command. All commands accept --json (print one JSON object on
stdout and everything else on stderr) and --debug (print a traceback instead of a one-line error).
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Exit codes: 0 success, 2 error; 130, 143 and 129: stopped by a signal."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    # Threads slow small matrices down on a busy machine.
    for library in ("MKL", "OMP"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")

    def stopped(number: int) -> int:
        what = "stopped" if number == signal.SIGINT else str(Stopped(number))
        with suppress(OSError):
            command = shlex.join(["cucb", *words])
            print(f"cucb: {what}; repeat the command to continue: {command}", file=sys.stderr)
        if arguments is None:  # libraries that were interrupted may fail when Python ends
            os._exit(128 + number)
        return 128 + number

    try:
        with stopped_by_signals(stopped) as received:
            try:
                return _run(words)
            except SystemExit:  # after the help was printed
                return 0
            except BrokenPipeError:
                return 0  # stdout was closed, as by `cucb ... | head`
            except KeyboardInterrupt as stop:
                return stopped(getattr(stop, "number", signal.SIGINT))
            except Exception as error:
                if received.is_set():  # libraries replace exceptions, such as by an ImportError
                    return stopped(received.number)
                known = isinstance(error, (ValueError, ArithmeticError, OSError, MemoryError))
                if debug or not known:
                    raise
                message = " ".join(str(error).split())
                if isinstance(error, MemoryError):
                    message = f"out of memory ({message}); use fewer states, seeds or steps"
                print(f"cucb: {message}", file=sys.stderr)
                return 2
    finally:
        if arguments is None:  # the process ends; from now on a signal needs no message
            set_signal_handlers(dict.fromkeys(signal_handlers(), signal.SIG_DFL))


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(HELP, end="")
        return 0
    if words[0] == "--version":
        print(import_module("contrastive_ucb").__version__)
        return 0
    if words[0] not in COMMANDS:
        raise ValueError(f"no command is called {words[0]!r}; {hint(words[0], COMMANDS)}")
    with ExitStack() as context:
        context.enter_context(warnings.catch_warnings())
        warnings.showwarning = _print_once()
        if "--json" in words:
            from contrastive_ucb.cli.options import json_on_stdout

            context.enter_context(json_on_stdout())
        import_module(f"contrastive_ucb.cli.{words[0]}").run(words[1:])
    return 0


def _print_once() -> Callable[..., None]:
    """Print a warning as one line without its place in the code, and each line once."""
    printed: set[str] = set()

    def show(message: Warning | str, *where: object, **more: object) -> None:
        line = f"cucb: {' '.join(str(message).split())}"
        if line not in printed:
            print(line, file=sys.stderr)
        printed.add(line)

    return show
