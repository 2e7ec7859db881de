"""Call tools as a model without language would: search once, then read the files that were found first."""

import json
import re

from longmemeval.llm.protocol import ChatRequest, ToolCall

_FILE = re.compile(r"[\w-]+\.txt\b")
_READ = 3
"""Maximum number of files to read."""


def next_calls(request: ChatRequest) -> tuple[ToolCall, ...]:
    """Return the tool calls that reply to a request; none if it is answered from the files read so far."""
    if not request.tools or request.must_answer:
        return ()
    names = [str(tool["function"]["name"]) for tool in request.tools]
    search, read = (next((name for name in names if verb in name), "") for verb in ("search", "read"))
    results = [message.content for message in request.messages if message.role == "tool"]
    if not results:
        return (ToolCall("call_0", search, json.dumps({"query": request.question})),)
    files = list(dict.fromkeys(_FILE.findall(results[0])))[:_READ] if len(results) == 1 else []
    return tuple(
        ToolCall(f"call_{number}", read, json.dumps({"name": name})) for number, name in enumerate(files, start=1)
    )
