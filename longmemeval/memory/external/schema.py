"""The published JSON Schema of the memory protocol, generated from its records."""

from typing import Any

import msgspec

from longmemeval.memory.external.messages import (
    PARAMETERS,
    PROTOCOL,
    RESULTS,
    Fault,
    Notification,
    Request,
    Response,
)

_ENVELOPE: dict[str, type[msgspec.Struct]] = {
    "request": Request,
    "response": Response,
    "notification": Notification,
    "fault": Fault,
}


def protocol_schema() -> dict[str, Any]:
    """Return the schema.

    `$defs` has `<method>.params` and `<method>.result` for every method, and the lines of the envelope. The document
    itself accepts the lines of a child process.
    """
    named = {f"{method}.params": record for method, record in PARAMETERS.items()}
    named |= {f"{method}.result": record for method, record in RESULTS.items()}
    named |= _ENVELOPE
    references, components = msgspec.json.schema_components(named.values(), ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"longmemeval memory protocol, version {PROTOCOL}",
        "anyOf": [{"$ref": f"#/$defs/{line}"} for line in ("request", "response", "notification")],
        "$defs": dict(zip(named, references, strict=True)) | components,
    }
