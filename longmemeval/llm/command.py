"""A program as a chat model: the prompt on its standard input or as an argument, the reply on its standard output."""

import asyncio
import os
import shlex
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

from msgspec import structs

from longmemeval.core import guard
from longmemeval.core.secrets.parameters import public_words
from longmemeval.core.secrets.redaction import redact, without_secrets
from longmemeval.errors import FatalModelError, ModelError, TransientModelError
from longmemeval.llm.http.client import Caller
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatReply, ChatRequest
from longmemeval.llm.providers import split_spec
from longmemeval.llm.rates import Permit, TokenEstimate, gate_for
from longmemeval.llm.thoughts import split_thoughts
from longmemeval.records import Usage

_PROMPT = "{prompt}"
"""Place of the prompt among the words of a command; without it, the prompt goes to standard input."""
_SHOWN_LOG = 500
"""Last characters of standard error that an error shows."""
_FIRST_FAILURES = 3
"""Failures after which a program that has never replied is not started again."""
_ENDING_S = 2.0
"""Seconds allowed for a killed program to end."""


def command_words(spec: str) -> list[str]:
    """Return the words of a program's command: no shell is involved.

    Words that name existing files become absolute, since the program runs in an empty folder.

    Raises:
        FatalModelError: the command cannot be read, contains a secret, or its program is not installed.
    """
    _, line = split_spec(spec)
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise FatalModelError(
            f"The command cannot be read: {error}", where=redact(spec), fix="Check its quotes"
        ) from None
    if not words:
        raise FatalModelError(f"{spec!r} names no program", fix='Write the command, as in --model "command:claude -p"')
    if public_words(words) != words or redact(line) != line:
        raise FatalModelError(
            "The command contains a secret, which runs would record",
            where=redact(f"command:{shlex.join(public_words(words))}"),
            fix="Put it into an environment variable, which the program inherits",
        )
    if shutil.which(words[0]) is None:
        raise FatalModelError(f"Program '{words[0]}' not found", where=spec, fix="Install it, or give its whole path")
    return [str(Path(word).absolute()) if Path(word).is_file() else word for word in words]


class CommandModel:
    """A program that answers one prompt per start; its tokens and cost are unknown.

    It runs in an empty folder, with our environment. It gets the texts of the messages and nothing else: no
    temperature, no limit of tokens, no tools.

    Args:
        spec: such as `command:claude -p` or `command:ask --text {prompt}`.
        options: time limit and retries.

    Raises:
        FatalModelError: see `command_words`.
    """

    def __init__(self, spec: str, options: ModelOptions) -> None:
        self.spec = self.name = spec
        self.gate = gate_for(spec, "", "", options.rates)
        self._words = command_words(spec)
        self._first_failures = 0
        self._has_replied = False
        self._caller = Caller(spec, self, options, None)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Run the program until it has replied or another start is useless; see `RemoteChatModel`.

        Raises:
            TransientModelError: every start failed, by its exit code or the time limit.
            ModelError: the prompt cannot be passed on.
            FatalModelError: the program cannot be started, or its first starts all failed.
            EndpointDownError: no start has succeeded for too long.
        """
        if request.tools:
            raise FatalModelError(f"{self.spec} is a program, which cannot call tools", fix="Choose another --reading")
        prompt = _text_of(request)
        called = await self._caller.call(lambda seconds, turn: self._reply(prompt, seconds, turn), TokenEstimate())
        return structs.replace(called.reply, usage=called.usage, attempts=called.attempts, latency_ms=called.latency_ms)

    async def _reply(self, prompt: str, seconds: float, turn: Permit) -> ChatReply:
        as_argument = any(_PROMPT in word for word in self._words)
        words = [word.replace(_PROMPT, prompt) for word in self._words]
        with tempfile.TemporaryDirectory(prefix="longmemeval-", ignore_cleanup_errors=True) as folder:
            said, logged, code = await self._run(words, "" if as_argument else prompt, folder, seconds)
        if code:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            log = redact(logged.decode(errors="replace")).strip()[-_SHOWN_LOG:]
            # Programs such as `claude -p` say on standard output what is wrong.
            log = log or redact(said.decode(errors="replace")).strip()[-_SHOWN_LOG:]
            what = f"The program {how}{f': {log}' if log else ''}"
            self._first_failures += not self._has_replied
            if self._first_failures >= _FIRST_FAILURES and not self._has_replied:
                raise FatalModelError(what, where=self.spec, fix="Try the command by itself, then rerun this one")
            raise TransientModelError(what, where=self.spec)
        self._has_replied = True
        content = said.decode(errors="replace").strip()
        whole = without_secrets(content)
        text, reasoning = split_thoughts(whole)
        usage = Usage.of_call(0, 0, None)
        return ChatReply(text, "stop", usage, redacted=whole != content, reasoning=reasoning)

    async def _run(self, words: list[str], text: str, folder: str, seconds: float) -> tuple[bytes, bytes, int]:
        """Run the program in `folder`; return its standard output, its standard error and its exit code."""
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=folder,
                env=guard.marked(os.environ),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            if text == "" and any(len(word) > _PLAIN_ARGUMENT for word in words):
                fix = f"Leave out {_PROMPT}: the prompt then goes to standard input"
                raise ModelError(f"The prompt is too long for an argument: {error}", where=self.spec, fix=fix) from None
            raise FatalModelError(f"The program cannot be started: {error}", where=self.spec) from None
        guard.watch(process.pid, self.spec)
        replied = False
        try:
            async with asyncio.timeout(seconds):
                said, logged = await process.communicate(text.encode(errors="replace"))
            replied = True
        except TimeoutError:
            raise TransientModelError(f"The program gave no reply in {seconds:,.3g} s", where=self.spec) from None
        finally:
            if not replied:  # Another process may hold its output open.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                with suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), _ENDING_S)
            guard.release(process.pid)
        return said, logged, process.returncode or 0


_PLAIN_ARGUMENT = 100_000
"""Characters that fit one argument on any system (Linux allows 131,071 bytes)."""


def _text_of(request: ChatRequest) -> str:
    """Return the prompt: the only message, or all of them, each under its role."""
    if len(request.messages) == 1:
        return request.messages[0].content
    return "\n\n".join(f"[{message.role}]\n{message.content}" for message in request.messages)
