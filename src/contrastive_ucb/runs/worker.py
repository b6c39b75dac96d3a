"""One job in its own process, by default with one thread:

    python -m contrastive_ucb.runs.worker ROOT JOB [CHECKPOINT_SECONDS]

JOB is a job as JSON. The worker saves and stops when its stdin is closed, which also happens when
the process that started it dies.

SIGINT, SIGTERM and SIGHUP have the same effect.

Exit codes: 0 finished, 1 failed, 75 another process works on the run, 130 stopped.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from contrastive_ucb.core.errors import EnvironmentFault
from contrastive_ucb.core.runtime import STOPS, Received, stopped_by_signals
from contrastive_ucb.runs.grid import Job
from contrastive_ucb.runs.problem import Problem
from contrastive_ucb.runs.store import (
    FAILED,
    FULL,
    LOG,
    RunBusyError,
    RunFolder,
    mark_failed,
    remedy_of,
)

EXIT_DONE, EXIT_FAILED, EXIT_BUSY, EXIT_STOPPED = 0, 1, 75, 130  # 75 is EX_TEMPFAIL
THREADS = {f"{name}_NUM_THREADS": "1" for name in ("MKL", "OMP", "OPENBLAS")}
GRACE_SECONDS = 60  # for saving, after stdin was closed


def main(arguments: Sequence[str], received: Received | None = None) -> int:
    """Run the job with its output in the log of its (first) folder; an error is one line.

    received  the signal that was received last
    """
    os.environ.update(THREADS)  # before torch is imported
    root, every = Path(arguments[0]), float(arguments[2]) if arguments[2:] else None
    folders: list[Path] = []
    try:
        job = Job.from_json(json.loads(arguments[1]))
        folders = job.folders(root)
        with RunFolder(job.spec(), root):  # an error if it is busy or belongs to another run
            for path in folders:
                (path / FAILED).unlink(missing_ok=True)
        with _output_to(folders[0] / LOG):
            say(job.command(root))
            run_job(job, root, progress=True, checkpoint_seconds=every, say=say)
    except KeyboardInterrupt:
        return EXIT_STOPPED
    except RunBusyError as error:
        print(error, file=sys.stderr)
        return EXIT_BUSY
    except Exception as error:
        if received and received.is_set():  # libraries replace exceptions
            return EXIT_STOPPED
        for path in folders:
            if path.is_dir():
                mark_failed(path, one_line(error))
        print(one_line(error), file=sys.stderr)
        return EXIT_FAILED
    return EXIT_DONE


def run_job(
    job: Job,
    root: Path,
    *,
    progress: bool = False,
    checkpoint_seconds: float | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Run or resume the job in this process, unless it is finished; returns its summary."""
    from contrastive_ucb.core.runtime import choose_device, keep_freed_memory, threads
    from contrastive_ucb.runs.loop import solve, train

    options: dict[str, Any] = {"progress": progress, "say": say}
    if checkpoint_seconds is not None:
        options["checkpoint_seconds"] = checkpoint_seconds
    if isinstance(job.task, Problem):
        return solve(job.task, job.seeds, root, **options)[0]
    options |= {"eval_episodes": job.eval_episodes, "device": choose_device(job.device)}
    keep_freed_memory()
    with threads(job.threads):
        return train(job.task, root, **options)


def one_line(error: BaseException) -> str:
    """The message of an error in one line; unexpected errors have their type before it."""
    message = " ".join(str(error).split())
    if isinstance(error, OSError) and error.errno in FULL:
        return f"{message}; {remedy_of(error)}"
    is_plain = isinstance(error, (ValueError, ArithmeticError, OSError)) and message
    return message if is_plain else f"{type(error).__name__}: {message}"


def say(line: str) -> None:
    print(line, file=sys.stderr)


@contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Append stdout and stderr to the file, including what libraries write, and the traceback."""
    saved = [os.dup(number) for number in (1, 2)]
    with log.open("a", buffering=1) as file, redirect_stdout(file), redirect_stderr(file):
        for number in (1, 2):
            os.dup2(file.fileno(), number)
        try:
            yield
        except EnvironmentFault:
            raise  # its traceback is in the log already
        except Exception:
            traceback.print_exc()
            raise
        finally:
            for number, before in zip((1, 2), saved, strict=True):
                os.dup2(before, number)
                os.close(before)


def _stop_with_stdin() -> None:
    """Interrupt the run when stdin is closed, as a signal does: it saves, then the process ends."""
    while os.read(0, 1 << 16):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(GRACE_SECONDS)
    os._exit(EXIT_STOPPED)


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)  # Ray's processes block SIGINT
    with stopped_by_signals(lambda number: EXIT_STOPPED) as received:
        threading.Thread(target=_stop_with_stdin, daemon=True).start()
        ended = main(sys.argv[1:], received)
    sys.exit(ended)
