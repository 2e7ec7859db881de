"""The command `longmemeval`: verbs, and how errors are shown."""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from types import FrameType
from typing import NoReturn

import typer

from longmemeval import __version__
from longmemeval.cli.output import OutputError, discard_output, err, has_printed, hiding_secrets, out, printable
from longmemeval.cli.panels import with_default
from longmemeval.cli.verb_table import AllVerbs
from longmemeval.core.files import is_broken_link, remove_unfinished
from longmemeval.core.interruption import request_end
from longmemeval.core.secrets.redaction import register_address
from longmemeval.errors import HarnessError

# Ctrl-C, SIGTERM and SIGHUP: the first ends the work in good order, the second at once; neither shows a traceback.

Handler = Callable[[int, FrameType | None], object]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that request the end; the exit code is 128 plus the number of the signal, as in shells."""
INTERRUPTED = 128 + signal.SIGINT

_GOOD_ORDER_S = 3.0
"""Seconds that the work may take to end in good order; a memory that computes in the event loop blocks it."""
_AT_ONCE_S = 1.0
_SHOW_CURSOR = "\x1b[?25h"

_number: int = signal.SIGINT
"""The signal that was received."""


def handle_interrupts(instead_of: Handler = signal.default_int_handler) -> None:
    """Handle `SIGNALS` in this process, except those that it was told to ignore.

    Args:
        instead_of: the handler until now.
    """
    for number in SIGNALS:
        if signal.getsignal(number) in (instead_of, signal.SIG_DFL):
            signal.signal(number, _first)


_continue: list[str] = []
_kept_note = ["Finished work is kept"]


def continue_with(*command: str, with_provider: bool = False) -> None:
    """Set the command line to print if the work is interrupted: the given one would start again.

    Args:
        command: the line; none if the given one continues the work.
        with_provider: True if batches continue at the provider meanwhile.
    """
    _continue[:] = command
    if with_provider:
        _kept_note[:] = ["Finished work is kept, and sent batches stay with the provider until they are fetched"]


def leave() -> NoReturn:
    """Report that the work was interrupted, and end the process at once.

    Files on disk are complete at every moment, and Python's own shutdown is not needed: it would only wait for threads,
    or report them. Child processes are ended from outside (`core/guard.py`).
    """
    for number in (*SIGNALS, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    remove_unfinished()
    by = "" if _number == signal.SIGINT else f" by {signal.Signals(_number).name}"
    with suppress(OSError):  # The terminal may be gone.
        err.print(f"Interrupted{by}. {_kept_note[0]}" + ("." if _continue else ". Rerun the same command to continue."))
        err.next(*((line, "continue") for line in _continue))
        for stream in (out.file, sys.stdout, sys.stderr):
            stream.flush()
    os._exit(128 + _number)


def _first(number: int, frame: FrameType | None) -> None:
    global _number
    _number = number
    for signal_number in SIGNALS:
        if signal.getsignal(signal_number) is _first:
            signal.signal(signal_number, _second)
    request_end()
    event_loop = sys.modules.get("longmemeval.core.event_loop")
    if event_loop is None or not event_loop.cancel_work():
        raise KeyboardInterrupt
    signal.signal(signal.SIGALRM, _overdue)
    signal.setitimer(signal.ITIMER_REAL, _GOOD_ORDER_S, _AT_ONCE_S)


_overdue_before = False


def _overdue(number: int, frame: FrameType | None) -> None:
    """Stop work that does not end in good order: first by an exception, then without one."""
    global _overdue_before
    if not sys.modules["longmemeval.core.event_loop"].is_at_work():
        signal.setitimer(signal.ITIMER_REAL, 0)
        return
    if _overdue_before:
        leave()
    _overdue_before = True
    raise KeyboardInterrupt


def _second(number: int, frame: FrameType | None) -> None:
    if sys.stderr.isatty():
        # A progress bar hides the cursor and has no chance to show it again.
        sys.stderr.write(_SHOW_CURSOR)
    leave()


# Report that a command is working if it has nothing to show yet.

SILENT_AT_MOST_S = 1.7
"""Seconds until a command that has printed nothing reports that it is working; two with its start."""
_PATIENCE_IN_A_PIPE = 5
"""The factor on it where standard error is a pipe or a file."""


@contextmanager
def heartbeat(has_printed: Callable[[], bool]) -> Iterator[None]:
    """Report on standard error that the command is working if nothing is printed for `SILENT_AT_MOST_S`.

    Later where standard error is no terminal: what a quick command prints stays as it is. This covers the time before
    the first progress bar: imports, reading data, recomputing figures. With `--progress json` or `off` nothing is
    reported.

    Args:
        has_printed: returns whether anything was printed so far.
    """
    ended = Event()

    def watch() -> None:
        patience = 1 if err.console.is_terminal else _PATIENCE_IN_A_PIPE
        if ended.wait(SILENT_AT_MOST_S * patience) or has_printed():
            return
        from longmemeval.pipeline.progress import how_far

        far = how_far()
        # If standard error is closed or full, the command itself reports it.
        with suppress(OSError, ValueError):
            if far is not None:
                sys.stderr.write(f"{far or 'Loading …'}\n")
                sys.stderr.flush()

    Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


app = typer.Typer(
    name="longmemeval",
    help="Measure the memory systems of LLM agents: prepare once, run, grade, compare.",
    pretty_exceptions_enable=False,
    cls=AllVerbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="longmemeval demo",
)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Options before the verb; `--debug` is read by `main`."""


# Otherwise pydantic reads the entry points of all installed packages, and no verb works if one of them is damaged.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def main() -> None:
    """Run the command line; the process exits with the codes of the design: 0 to 4, 128 and a signal."""
    handle_interrupts()
    for argument in sys.argv[1:]:
        register_address(argument)
    try:
        with hiding_secrets(), heartbeat(has_printed):
            _main()
    except BrokenPipeError:
        # The reader of the output is gone (`| head`): discard the rest silently.
        discard_output()
        sys.exit(1)
    except OutputError as error:
        with suppress(OSError):
            err.print(
                f"[bold red]Error:[/] Standard output cannot be written: {error.strerror}. Finished work is kept."
            )
            sys.stderr.flush()
        discard_output()
        sys.exit(1)


def _main() -> None:
    try:
        app(args=list(with_default(sys.argv[1:])), prog_name="longmemeval")
    except HarnessError as error:
        _fail(str(error), error.exit_code)
    except OutputError:
        raise
    except OSError as error:
        _fail(_describe_refusal(error), 2)
    except KeyboardInterrupt:
        leave()
    except SystemExit as end:
        if end.code == INTERRUPTED:
            leave()
        raise
    except Exception:
        # Print it here, where secrets are hidden: the traceback of a bug may quote its input.
        traceback.print_exc()
        sys.exit(1)


def _describe_refusal(error: OSError) -> str:
    """Describe what the operating system refused, and the remedy."""
    # If one file replaces another, the second name is the requested one.
    name = error.filename2 or error.filename
    place = f" ({name})" if name else ""
    if isinstance(error, IsADirectoryError):
        return f"A file was expected, but this is a folder{place}. Name a file."
    if name and is_broken_link(Path(str(name))):
        return f"The link is broken{place}. Restore its target."
    if isinstance(error, NotADirectoryError | FileExistsError):
        remedy = "Remove it, or name other folders with --data-dir, --prepared-dir and --results-dir."
        return f"A folder was expected, but this is a file{place}. {remedy}"
    return f"{error.strerror or error}{place}. Finished work is kept. Fix this and rerun the command."


def _fail(message: str, code: int) -> None:
    err.print(f"[bold red]Error:[/] {printable(message)}")
    if "--debug" in sys.argv[1:]:
        traceback.print_exc()
    sys.exit(code)
