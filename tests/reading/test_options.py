"""An option of reading is one field: whatever records, repeats or compares a run reads the fields."""

import msgspec
import pytest
from msgspec import structs

from longmemeval.core.options import TOP, from_record, options_of, recorded, records_of
from longmemeval.pipeline.compare.comparable import in_words
from longmemeval.pipeline.sweep.file import ReadingEntry
from longmemeval.reading.configuration import configured
from longmemeval.reading.options import ReadingOptions
from longmemeval.results.settings import reading_settings

OTHERS = ReadingOptions(
    method="files",
    history_format="json",
    max_tokens=77,
    steps=3,
    prompt_budget=9000,
    on_overflow="drop-newest",
    context_window=4000,
    abstain_below=0.25,
)
RECORDED = [field for field, mark in records_of(ReadingOptions).items() if mark.place is not None]
"""The options whose values are in run.json; of the others, prompts, the hashes are."""


def plain(options: ReadingOptions) -> dict[str, object]:
    """The settings of a run, as far as they come from reading."""
    places = recorded(options, "reading")
    return places.pop(TOP, {}) | places


def test_every_option_is_another_here() -> None:
    assert all(getattr(OTHERS, field) != getattr(ReadingOptions(), field) for field in RECORDED)
    assert {option.field for option in options_of(ReadingOptions)} == set(records_of(ReadingOptions))
    assert set(records_of(ReadingOptions)) - set(RECORDED) == {"template", "note_template"}


@pytest.mark.parametrize("field", RECORDED)
def test_an_option_is_recorded_repeated_and_compared(field: str) -> None:
    one = structs.replace(ReadingOptions(), **{field: getattr(OTHERS, field)})
    settings = plain(one)
    assert settings != plain(ReadingOptions())
    assert msgspec.convert(from_record(ReadingOptions, settings, "reading"), ReadingOptions) == one
    mark = records_of(ReadingOptions)[field]
    place = field if mark.place == TOP else f"{mark.place or 'reading'}.{field}"
    assert in_words(place) == mark.words or not mark.words


def test_a_sweep_takes_every_option() -> None:
    assert {option.yaml_name for option in options_of(ReadingOptions)} <= set(ReadingEntry.model_fields)


def test_the_record_is_that_of_what_the_reader_does() -> None:
    reading = configured(OTHERS)
    settings = reading_settings(reading.recorded("reading"))
    assert (settings.method, settings.history_format, settings.template) == ("files", "json", reading.template.sha256)
    assert settings.others["steps"] == 3
    assert reading.recorded("model") == {"max_tokens": 77}
    assert reading.recorded() == {"abstain_below": 0.25}
