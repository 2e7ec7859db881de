"""Connection options for chat models, and which specs are offline."""

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from msgspec import Struct, structs

from longmemeval.core.arguments import Options, check_fields
from longmemeval.core.defaults import EMBED_BATCH, GIVE_UP_AFTER_S, MAX_ATTEMPTS, TIMEOUT_S
from longmemeval.core.http import is_this_machine
from longmemeval.core.options import LIMITS, MODEL, Flag
from longmemeval.core.secrets.redaction import Fault, fault_of, public_url, register_address
from longmemeval.errors import FatalModelError, HarnessError
from longmemeval.llm.rates import RateLimits

OFFLINE_WAY = "work offline: --model offline/extractive, --judge offline/lexical"
"""Remedy if a model cannot be called, for answers or as a judge."""


class SpendingLimit(Struct, frozen=True):
    """The maximum amount to spend."""

    dollars: float
    elsewhere: float = 0.0
    """US dollars of the limit that other accounts have spent (the other runs of a sweep)."""


ApiBase = Annotated[str | None, Flag(MODEL, "URL", "URL of an OpenAI-compatible endpoint.")]
GiveUpAfter = Annotated[
    float,
    Flag(
        metavar="SECONDS",
        name="--give-up-after",
        minimum=0.1,
        help="Seconds of failed calls before the command ends.",
    ),
]
MaxCost = Annotated[
    SpendingLimit | None,
    Flag(
        LIMITS,
        "USD",
        "Spending limit in US dollars, earlier attempts included.",
        name="--max-cost",
        minimum=0.0,
        read=float,
        made=SpendingLimit,
    ),
]
Concurrency = Annotated[int, Flag(MODEL, "N", "Maximum concurrent model calls.", minimum=1)]
Votes = Annotated[int, Flag(MODEL, "N", "Odd number of votes; the majority counts.", minimum=1)]
QueryModel = Annotated[
    str | None,
    Flag(
        metavar="MODEL",
        help="Chat model for decompose=model and time_range_by=model.",
    ),
]


ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
CONNECTION = ("api_base", "timeout_s", "max_attempts", "give_up_after_s")
"""Fields of `ModelOptions` that decide how a model is reached, as verbs offer them."""
GENERATION = (
    *("temperature", "top_p", "model_seed", "reasoning_effort", "reasoning_budget", "max_tokens"),
    "model_option",
)
"""Fields of `ModelOptions` that decide replies; the others decide how the model is reached."""
_OURS = frozenset(("messages", "model", "n", "stream", "tools", "tool_choice", "max_tokens", "max_completion_tokens"))
"""Fields of a request that the harness alone sets."""
_OWN_OPTIONS = frozenset(("temperature", "top_p", "seed", "reasoning_effort"))


class ModelOptions(Options, frozen=True):
    """Options for the calls of a chat model: what decides its replies (`GENERATION`), its connection, and patience."""

    api_base: ApiBase = None
    """Address of the endpoint, such as http://localhost:8000/v1; None: the provider's own."""
    timeout_s: Annotated[float, Flag(metavar="SECONDS", name="--timeout", minimum=0.1)] = TIMEOUT_S
    """Time limit for each attempt of a model call."""
    max_attempts: Annotated[int, Flag(metavar="N", minimum=1)] = MAX_ATTEMPTS
    """Attempts per model call, including the first."""
    max_wait_s: float = 60.0
    """Longest wait between two attempts, in seconds; a server's Retry-After may be longer."""
    give_up_after_s: GiveUpAfter = GIVE_UP_AFTER_S
    """Seconds of failures without a success, whatever the call, after which the endpoint counts as dead."""
    embed_batch: Annotated[int, Flag(metavar="N", minimum=1)] = EMBED_BATCH
    """Maximum texts in one call of an embedding server.

    A server that refuses a call is sent smaller ones.
    """
    rates: RateLimits = RateLimits()
    """Requests and tokens per minute; waiting for them counts neither as latency nor towards giving up."""
    temperature: Annotated[float | None, Flag(metavar="T", minimum=0.0, maximum=2.0)] = None
    """Temperature of the model [default: the prompt's own, 0]."""
    top_p: Annotated[float | None, Flag(metavar="P", minimum=0.0, maximum=1.0)] = None
    """Share of probability that the model samples from."""
    model_seed: Annotated[int | None, Flag(metavar="N")] = None
    """Seed that is sent to the model."""
    reasoning_effort: Annotated[ReasoningEffort | None, Flag(metavar="EFFORT")] = None
    """none, minimal, low, medium, high, xhigh or max."""
    reasoning_budget: Annotated[int | None, Flag(metavar="TOKENS", minimum=0)] = None
    """Tokens for reasoning, on top of the visible reply."""
    max_tokens: Annotated[int | None, Flag(metavar="TOKENS", minimum=1)] = None
    """Longest visible reply, in place of the prompt's own limit."""
    model_option: Annotated[tuple[str, ...], Flag(metavar="KEY=VALUE")] = ()
    """Field that only the provider knows; repeatable.

    A value that is JSON is sent as such, anything else as text.
    """

    def __post_init__(self) -> None:
        if isinstance(self.api_base, str):  # Anything else is refused later (`check_fields`).
            register_address(self.api_base)
        for text in self.model_option:
            _pair(text)

    @property
    def more(self) -> dict[str, Any]:
        """The fields of `model_option` with their values.

        Raises:
            HarnessError: one has no value, or the harness itself sets it.
        """
        return dict(map(_pair, self.model_option))

    @property
    def given(self) -> dict[str, Any]:
        """The fields of a request that these options set, but those of `more` and the reasoning budget."""
        values = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "seed": self.model_seed,
            "reasoning_effort": self.reasoning_effort,
        }
        return {name: value for name, value in values.items() if value is not None}

    @property
    def recorded(self) -> dict[str, Any]:
        """What decides replies, as runs, judges and caches record it; empty if no such option is given."""
        limits = {"reasoning_budget": self.reasoning_budget, "max_tokens": self.max_tokens}
        found = self.given | {name: value for name, value in limits.items() if value is not None}
        if not self.model_option:
            return found
        from longmemeval.core.secrets.parameters import public

        return found | {"model_options": public(self.more)}

    @property
    def calls(self) -> "ModelOptions":
        """The options that decide replies alone."""
        return ModelOptions(**{name: getattr(self, name) for name in GENERATION})

    def deciding(self, given: Mapping[str, Any]) -> "ModelOptions":
        """Return the options with others of those that decide replies, as a file gives them.

        Raises:
            HarnessError: one is unknown, or has the wrong type.
        """
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in given.items()
        }
        chosen = ModelOptions(**values)
        check_fields(chosen)
        return structs.replace(self, **{name: getattr(chosen, name) for name in GENERATION})

    @property
    def connection(self) -> "ModelOptions":
        """The options without those that decide replies, for another model that is reached in the same way."""
        defaults = ModelOptions()
        return structs.replace(self, **{name: getattr(defaults, name) for name in GENERATION})


def generation_of(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `ModelOptions` that `ModelOptions.recorded` has recorded."""
    values = {("model_seed" if name == "seed" else name): value for name, value in recorded.items()}
    more = values.pop("model_options", None) or {}
    return values | (
        {"model_option": tuple(f"{name}={json.dumps(value)}" for name, value in more.items())} if more else {}
    )


def _pair(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise HarnessError(f"The model option '{name}' has no value", fix="Write --model-option KEY=VALUE")
    if name in _OURS | _OWN_OPTIONS:
        own = "model-seed" if name == "seed" else name.replace("_", "-")
        fix = f"Use --{own}" if name in _OWN_OPTIONS else "Leave it out: the harness sets it"
        raise HarnessError(f"'{name}' is no option of the provider alone", where="--model-option", fix=fix)
    return name, _value(value)


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


# Options after a model's name, for models that a command names beside the one that its own options are for.

_OPTIONS_FOLLOW = re.compile(r",(?=[A-Za-z_][\w-]*=)")


def takes_options(spec: str) -> bool:
    """Return whether a model is called with options: no offline model is, and no program."""
    return not is_offline(spec) and not spec.startswith("command:")


def split_options(spec: str) -> tuple[str, tuple[str, ...]]:
    """Return a model's name, and the options after it: of `openai/gpt-5-mini,reasoning_effort=low`, that one."""
    if not takes_options(spec):
        return spec, ()
    name, *options = _OPTIONS_FOLLOW.split(spec)
    return name, tuple(options)


def named(spec: str, reached: ModelOptions = ModelOptions()) -> tuple[str, ModelOptions]:
    """Return the model that `spec` names, and `reached` with the options after its name.

    Raises:
        HarnessError: one of them is misspelt, or has the wrong type.
    """
    name, texts = split_options(spec)
    if not texts:
        return spec, reached
    own, more = dict[str, Any](), list[str]()
    for text in texts:
        key, _, value = text.partition("=")
        field = "model_seed" if key == "seed" else key.replace("-", "_")
        if field in GENERATION[:-1]:
            own[field] = _value(value)
        elif near := get_close_matches(field, GENERATION, 1, 0.8):
            raise HarnessError(f"Unknown option '{key}' of a model", where=name, fix=f"Write '{near[0]}'")
        else:
            more.append(text)
    try:
        return name, reached.deciding({**own, "model_option": more})
    except HarnessError as error:
        raise HarnessError(error.what, where=name, fix=error.fix) from error


def with_options(spec: str, options: ModelOptions = ModelOptions()) -> str:
    """Return a model with `options` and its own after its name, its own before others, in one order.

    Raises:
        HarnessError: as for `named`, or one holds a secret, which recipes would show.
    """
    from longmemeval.core.secrets.parameters import public

    name, texts = split_options(spec)
    _, whole = named(",".join((name, *_texts(options), *texts)))
    if public(whole.more) != whole.more:
        what = "Options after a model's name are recorded, and one of them is a secret"
        raise HarnessError(what, where=name, fix="Write KEY=env:VARIABLE")
    return ",".join((name, *_texts(whole)))


def _texts(options: ModelOptions) -> list[str]:
    values = {name: value for name in GENERATION[:-1] if (value := getattr(options, name)) is not None}
    return [f"{name}={_text(value)}" for name, value in (*values.items(), *sorted(options.more.items()))]


def _text(value: object) -> str:
    return value if isinstance(value, str) and _value(value) == value else json.dumps(value, separators=(",", ":"))


def is_offline(spec: str) -> bool:
    """Return whether `spec` names an offline model of the harness, which needs no network and no LiteLLM."""
    return spec.partition("/")[0] == "offline"


def check_endpoint(api_base: str | None, where: str = "--api-base") -> None:
    """Refuse an address that cannot be called.

    Args:
        where: the option or variable that contains it.

    Raises:
        FatalModelError: it is not a web address, or contains parts that calls cannot carry.
    """
    if api_base is None or not (fault := fault_of(api_base)):
        return
    shown, scheme = public_url(api_base), "http" if is_this_machine(f"//{api_base}") else "https"
    if "://" not in api_base:
        user, _, shown = api_base.rpartition("@")
        if not fault_of(f"{scheme}://{api_base}"):
            usual = "" if "/" in shown else f", usually {scheme}://{shown}/v1"
            fix = f"Begin it with {scheme}://" if user else f"Write {scheme}://{shown}{usual}"
            fault = Fault("is not a web address", fix)
    raise FatalModelError(f"The endpoint '{shown}' {fault.what}", where=where, fix=fault.fix)
