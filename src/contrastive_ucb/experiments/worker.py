"""One job in a process of its own, with one thread:

    python -m contrastive_ucb.experiments.worker ROOT JOB.json [CHECKPOINT_SECONDS]

With - for JOB.json the job is the first line of stdin. Such a worker saves and stops when stdin
ends: by then whoever started it has closed it, or is dead.

log.txt   in the run folder: what the run said, of all tries
FAILED    why the last try failed; it goes away when the next one begins

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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.files import write_atomically
from contrastive_ucb.experiments.job import Job, run_job
from contrastive_ucb.experiments.store import FULL, RunBusyError, RunFolder, way_out_of

DONE, FAILED, BUSY, STOPPED = 0, 1, 75, 130  # exit codes; 75 is EX_TEMPFAIL
MARK, LOG = "FAILED", "log.txt"  # files of the run folder
THREADS = {f"{name}_NUM_THREADS": "1" for name in ("MKL", "OMP", "OPENBLAS")}
GRACE_SECONDS = 60  # to save in, once stdin has ended


def main(arguments: Sequence[str]) -> int:
    """Do the job; an error is one line on stderr."""
    os.environ.update(THREADS)  # before torch is imported
    if not 2 <= len(arguments) <= 3:
        print(f"usage: python -m {__spec__.name} ROOT JOB.json", file=sys.stderr)
        return FAILED
    root, source, *every = arguments
    try:
        job = _read_job(source)
        return work(job, Path(root), float(every[0]) if every else None)
    except KeyboardInterrupt:
        return STOPPED
    except RunBusyError as error:
        print(error, file=sys.stderr)
        return BUSY
    except Exception as error:
        print(one_line(error), file=sys.stderr)
        return FAILED


def work(job: Job, root: Path, checkpoint_seconds: float | None = None) -> int:
    """Do the job with everything it says in its log; whether it was done or failed."""
    folder = RunFolder(job.spec(), root)
    if folder.finished:
        folder.summary()  # an error, should it be damaged
        return DONE
    try:
        with folder:  # a folder that is not ours, or of another run, is left as it is
            (folder.path / MARK).unlink(missing_ok=True)
        with _said_to(folder.path / LOG):
            try:
                print(job.command(root), file=sys.stderr)
                run_job(job, root, progress=True, checkpoint_seconds=checkpoint_seconds, say=_say)
            except Exception:
                traceback.print_exc()
                raise
    except RunBusyError:
        raise
    except Exception as error:
        mark_failed(folder.path, one_line(error))
        raise
    return DONE


def mark_failed(folder: Path, error: str) -> None:
    """Leave a note of what went wrong, where the folder can be written to."""
    note = {"error": error, "log": LOG}  # beside it, wherever the folder will be
    try:
        write_atomically(folder / MARK, json.dumps(note) + "\n")
    except OSError:
        print(f"and {folder / MARK} cannot be written", file=sys.stderr)


def one_line(error: BaseException) -> str:
    """What the error says; what is no message for people has its type before it."""
    said = " ".join(str(error).split())
    if isinstance(error, OSError) and error.errno in FULL:
        return f"{said}; {way_out_of(error)}"
    plain = isinstance(error, (ValueError, ArithmeticError, OSError)) and said
    return said if plain else f"{type(error).__name__}: {said}"


def _read_job(source: str) -> Job:
    """The job in a file, or in the first line of stdin, which is watched from then on."""
    if source == "-":
        text = _first_line()
        threading.Thread(target=_stop_with_stdin, daemon=True).start()
    else:
        text = Path(source).read_text(encoding="utf-8")
    try:
        return Job.from_json(json.loads(text))
    except json.JSONDecodeError as error:
        raise UserError(f"{source} is not valid JSON ({error})") from error


def _first_line() -> str:
    """Read without a buffer: a thread that waits in Python's own would hold up the exit."""
    read = b""
    while not read.endswith(b"\n") and (more := os.read(0, 1 << 16)):
        read += more
    return read.decode()


def _stop_with_stdin() -> None:
    """As if Ctrl-C were pressed at the end of stdin: the run is saved, then the process ends."""
    while os.read(0, 1 << 16):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(GRACE_SECONDS)
    os._exit(STOPPED)


@contextmanager
def _said_to(log: Path) -> Iterator[None]:
    """stdout and stderr go to the end of the file, also what libraries write."""
    kept = [os.dup(number) for number in (1, 2)]
    with log.open("a", buffering=1) as file, redirect_stdout(file), redirect_stderr(file):
        for number in (1, 2):
            os.dup2(file.fileno(), number)
        try:
            yield
        finally:
            for number, before in zip((1, 2), kept, strict=True):
                os.dup2(before, number)
                os.close(before)


def _say(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    # A process in the background may have been told to ignore it, and one of Ray has it blocked.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    sys.exit(main(sys.argv[1:]))
