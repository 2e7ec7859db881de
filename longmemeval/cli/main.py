"""The command `longmemeval`: verbs, and how errors are shown."""

import os
import sys
import traceback
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

import typer

from longmemeval import __version__
from longmemeval.cli.interrupts import INTERRUPTED, handle_interrupts, leave
from longmemeval.cli.never_silent import never_silent
from longmemeval.cli.output import OutputError, discard_output, err, has_printed, hiding_secrets, printable
from longmemeval.cli.published import with_default
from longmemeval.cli.verb_table import AllVerbs
from longmemeval.core.files import leads_nowhere
from longmemeval.core.secrets.redaction import register_address
from longmemeval.errors import HarnessError

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
        with hiding_secrets(), never_silent(_typed(), has_printed):
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


def _typed() -> str:
    """Return the command as it was typed, up to its first option."""
    words = list(takewhile(lambda word: not word.startswith("-"), sys.argv[1:]))
    return " ".join(["longmemeval", *words[:1]])


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
        return f"A folder is where a file should be written{place}. Name a file."
    if name and leads_nowhere(Path(str(name))):
        return f"A broken link is where a file or folder should be{place}. Restore its target."
    if isinstance(error, NotADirectoryError | FileExistsError):
        remedy = "Remove it, or name other folders with --data-dir, --prepared-dir and --results-dir."
        return f"A file is where a folder should be{place}. {remedy}"
    return f"{error.strerror or error}{place}. Finished work is kept. Fix this and rerun the command."


def _fail(message: str, code: int) -> None:
    err.print(f"[bold red]Error:[/] {printable(message)}")
    if "--debug" in sys.argv[1:]:
        traceback.print_exc()
    sys.exit(code)
