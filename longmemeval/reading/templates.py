"""Prompt templates as data: shipped files or the user's own, checked and hashed."""

from functools import cache
from importlib import resources
from pathlib import Path
from string import Formatter

from msgspec import Struct

from longmemeval.core.files import sha256_text
from longmemeval.core.text_files import read_text, reading
from longmemeval.errors import HarnessError, nearest

READER_FIELDS = ("history", "question_date", "question")
NOTE_FIELDS = ("session_date", "session", "question_date", "question")


class Template(Struct, frozen=True):
    """A prompt with placeholders, by name (`{history}`) or, like the official ones, in order (`{}`)."""

    text: str
    sha256: str
    fields: tuple[str, ...]

    def fill(self, values: dict[str, str]) -> str:
        """Fill in the values in one pass, so that braces in them stay as they are."""
        ordered = [values[name] for name in self.fields]
        return self.text.format(*ordered, **values)


def template_of(text: str) -> Template:
    """Return a reader's prompt whose placeholders have been checked, all of them named."""
    return Template(text, sha256_text(text), READER_FIELDS)


def load_template(shipped: str, file: Path | None, fields: tuple[str, ...]) -> Template:
    """Load a template, from `file` if given, else the shipped one.

    Args:
        shipped: name of a file under `reading/templates`, without suffix.
        file: the user's file; None: use the shipped one.
        fields: allowed placeholders; a template with only `{}` has one for each of them, in this order.

    Raises:
        HarnessError: unreadable file, an unknown placeholder, or none for the question or its date.
    """
    if file is None:
        text = (resources.files("longmemeval.reading") / "templates" / f"{shipped}.txt").read_text(encoding="utf-8")
        return Template(text, sha256_text(text), fields)
    with reading("The template", file):
        text = read_text(file)
    return checked_template(text, fields, str(file))


def checked_template(text: str, fields: tuple[str, ...], where: str) -> Template:
    """Return a user's template, checked.

    Args:
        fields: as for `load_template`.
        where: its name in errors.

    Raises:
        HarnessError: an unknown placeholder, or none for the question or its date.
    """
    _check(text, fields, where)
    return Template(text, sha256_text(text), fields)


def is_shipped(template: Template) -> bool:
    """Return whether a template is one of this package."""
    return shipped_template(template.sha256) is not None


@cache
def shipped_template(sha256: str) -> Template | None:
    """Return the reader's or note template of this package with that hash; None if there is none."""
    for file in (resources.files("longmemeval.reading") / "templates").iterdir():
        if file.name.endswith(".txt"):
            text = file.read_text(encoding="utf-8")
            if sha256_text(text) == sha256:
                return Template(text, sha256, NOTE_FIELDS if file.name == "note.txt" else READER_FIELDS)
    return None


def _check(text: str, fields: tuple[str, ...], where: str) -> None:
    places = _places(text, where)
    unnamed = places.count("")
    if unnamed and (unnamed != len(fields) or unnamed != len(places)):
        raise HarnessError(
            f"The template has {unnamed} unnamed and {len(places) - unnamed} named placeholders",
            where=where,
            fix=f"Name all of them, or write {len(fields)} unnamed ones for {', '.join(fields)} in this order",
        )
    if unnamed:
        return
    for name in places:
        if name not in fields:
            what = f"The template has an unknown placeholder '{name}'"
            raise HarnessError(what, where=where, fix=nearest(name, fields))
    for name in ("question", "question_date"):
        if name not in places:
            raise HarnessError(
                f"The template does not show {{{name}}}",
                where=where,
                fix="Add the placeholder: the model must always see the question and its date",
            )


def _places(text: str, where: str) -> list[str]:
    """Return the names of a template's placeholders in order, empty for unnamed ones."""
    try:
        parts = list(Formatter().parse(text))
    except ValueError as error:
        raise HarnessError(
            f"The template cannot be parsed: {error}", where=where, fix="Write {{ and }} for literal braces"
        ) from error
    for _, name, specification, conversion in parts:
        if specification or conversion:
            raise HarnessError(
                f"The placeholder '{name}' of the template specifies a format",
                where=where,
                fix=f"Write {{{name}}}; for literal braces write {{{{ and }}}}",
            )
    return [name for _, name, _, _ in parts if name is not None]
