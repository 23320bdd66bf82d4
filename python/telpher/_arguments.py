"""What callers pass, checked before it goes into a request: whoever passes something else is told what would do."""

from __future__ import annotations

import operator
from typing import Any

_LONGEST = 1 << 62
"""Nanoseconds: 146 years, for whoever says infinity."""


def whole(value: Any) -> int:
    """A whole number of 64 bits. Raises TypeError for fractions and what is no number, ValueError for one that does not fit."""
    number = operator.index(value)
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError("%d does not fit into 64 bits with a sign" % number)
    return number


def nanoseconds(seconds: Any, name: str) -> int:
    """A time, at least 0."""
    try:
        number = seconds + 0.0
    except TypeError:
        raise TypeError("%s is a number of seconds, or None, not %r" % (name, seconds)) from None
    if number != number:
        raise ValueError("%s is a number of seconds, or None, not nan" % name)
    return max(0, int(min(number * 1e9, _LONGEST)))


def limit(seconds: Any, name: str) -> int:
    """As ``nanoseconds``; None: for ever."""
    return _LONGEST if seconds is None else nanoseconds(seconds, name)


def as_bytes(thing: Any, name: str) -> bytes:
    """The bytes of anything that has some. Not ``bytes(thing)``, which makes zeros of a number."""
    if hasattr(thing, "__bytes__"):
        return bytes(thing)
    if isinstance(thing, bytes):  # before Python 3.11 these have no such method
        return thing
    if isinstance(thing, str):
        raise TypeError("%s is bytes, not a str: encode it" % name)
    try:
        return memoryview(thing).tobytes()
    except TypeError:
        raise TypeError("%s is bytes, not %s" % (name, type(thing).__name__)) from None


def as_text(thing: Any, name: str) -> bytes:
    """A str as UTF-8."""
    if not isinstance(thing, str):
        raise TypeError("%s is a str, not %s" % (name, type(thing).__name__))
    return thing.encode()


def as_secret(secret: Any) -> bytes:
    """A secret, whose length the engine checks."""
    return secret.encode() if isinstance(secret, str) else as_bytes(secret, "secret")
