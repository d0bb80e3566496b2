"""The azure-functions library's own converters, with the worker's generic one where the library has none."""

from __future__ import annotations

import _strptime  # type: ignore[import-not-found]  # no stubs; see speed_up_times
from functools import lru_cache
from typing import Any

import azure.functions as func
from azure.functions import meta
from azure.functions.meta import Datum

__all__ = ["Datum", "GenericConverter", "converter_for", "has_implicit_output", "has_trigger_support"]

_NO_IMPLICIT_OUTPUT = "durableClient"
TIME_FORMATS = 64
#: The latest time .NET knows, as the library cuts it before it parses it.
NEVER = "9999-12-31T23:59:59.999999"
_registry: Any = func.get_binding_registry()  # type: ignore[no-untyped-call]  # the library is only partly typed


def speed_up_times() -> None:
    """Let Python keep more parsed time formats than five.

    The library tries thirteen formats on each of a message's times, so that with the usual cache none of them is
    ever found in it: three quarters of the cost of a Service Bus trigger. And the expiry of a message that never
    expires is the same text each time; the library's answer to it is remembered.
    """
    if getattr(_strptime, "_CACHE_MAX_SIZE", TIME_FORMATS) < TIME_FORMATS:
        _strptime._CACHE_MAX_SIZE = TIME_FORMATS
    library: Any = meta
    original = library.try_parse_datetime_with_formats
    if getattr(original, "remembers", False):
        return
    answers: dict[tuple[str, ...], Any] = {}

    def remembering(text: str, formats: list[str]) -> Any:
        if text != NEVER:
            return original(text, formats)
        key = tuple(formats)
        if key not in answers:
            answers[key] = original(text, formats)
        return answers[key]

    remembering.remembers = True  # type: ignore[attr-defined]  # so that a second host does not wrap it again
    library.try_parse_datetime_with_formats = remembering


class GenericConverter:
    """What the worker uses for `str` and `bytes` parameters and for bindings the library does not know."""

    @classmethod
    def has_trigger_support(cls) -> bool:
        return False

    @classmethod
    def check_input_type_annotation(cls, pytype: type) -> bool:
        return issubclass(pytype, (str, bytes))

    @classmethod
    def check_output_type_annotation(cls, pytype: type) -> bool:
        return issubclass(pytype, (str, bytes, bytearray))

    @classmethod
    def encode(cls, obj: Any, *, expected_type: type | None) -> Datum:
        match obj:
            case str():
                return Datum(obj, "string")
            case bytes() | bytearray():
                return Datum(bytes(obj), "bytes")
            case None:
                return Datum(None, None)
            case dict():
                return Datum(obj, "dict")
            case list():
                return Datum(obj, "list")
            case int():
                return Datum(obj, "int")
            case float():
                return Datum(obj, "double")
        raise NotImplementedError

    @classmethod
    def decode(cls, data: Datum | None, *, trigger_metadata: Any) -> Any:
        if data is None or data.type is None:
            return None
        if data.type in ("string", "bytes", "json"):
            return data.value
        raise ValueError(f"unexpected type of data received for the generic binding: {data.type!r}")


@lru_cache(maxsize=128)
def converter_for(binding: str) -> Any:
    """The converter that serves a binding type."""
    return _registry.get(binding) or GenericConverter


def has_implicit_output(binding: str) -> bool:
    """Whether a binding's return value needs no `$return` binding."""
    converter = converter_for(binding)
    if converter is GenericConverter:
        return binding != _NO_IMPLICIT_OUTPUT
    return bool(getattr(converter, "has_implicit_output", lambda: False)())


@lru_cache(maxsize=128)
def has_trigger_support(binding: str) -> bool:
    """Whether a binding's converter is given the trigger metadata."""
    return bool(converter_for(binding).has_trigger_support())
