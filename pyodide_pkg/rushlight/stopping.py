"""End a reply at a stop string, without ever showing a part of one."""

from __future__ import annotations

from collections.abc import Sequence

from .errors import InvalidInputError

MAX_STOP_STRINGS = 64
MAX_STOP_LENGTH = 1024


class StopMatcher:
    """Passes streamed text on, holding back what may be the start of a stop string.

    The stop string that is complete first ends the reply; the result does not depend on how the
    text was cut into pieces. ``trim_start`` drops white space before the first visible character
    (after a prompt that ends in ``Assistant:`` a reply starts with a space).
    """

    def __init__(self, stop_strings: Sequence[str] = (), *, trim_start: bool = False) -> None:
        self._stops = check_stop_strings(stop_strings)
        self._held = ""
        self._trimming = trim_start
        self.stopped = False

    def push(self, text: str) -> tuple[str, bool]:
        """Take the next piece; return (text that may be shown now, whether the reply has ended)."""
        if self.stopped:
            return "", True
        if not self._stops:
            return self._trim(text), False
        buffer = self._held + text
        matches = [(at + len(s), at) for s in self._stops if (at := buffer.find(s)) >= 0]
        if matches:
            self.stopped = True
            self._held = ""
            _, start = min(matches)
            return self._trim(buffer[:start]), True
        n_held = max((_overlap(buffer, s) for s in self._stops), default=0)
        shown = len(buffer) - n_held
        self._held = buffer[shown:]
        return self._trim(buffer[:shown]), False

    def flush(self) -> str:
        """Return what is still held back, once no more text comes."""
        held, self._held = self._held, ""
        return self._trim(held)

    def _trim(self, text: str) -> str:
        if self._trimming:
            text = text.lstrip()
            self._trimming = not text
        return text


def check_stop_strings(stop_strings: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the stop strings as a tuple; raises InvalidInputError for an unusable one."""
    if isinstance(stop_strings, str):
        stop_strings = [stop_strings]
    if not isinstance(stop_strings, list | tuple | type(None)):
        raise InvalidInputError(
            f"The stop strings are {stop_strings!r}.", hint="Give a text or a list of texts."
        )
    stop_strings = stop_strings or ()
    if len(stop_strings) > MAX_STOP_STRINGS:
        raise InvalidInputError(
            f"{len(stop_strings)} stop strings were given; at most {MAX_STOP_STRINGS} are allowed.",
            hint="Give fewer stop strings.",
        )
    for stop in stop_strings:
        if not isinstance(stop, str) or not 0 < len(stop) <= MAX_STOP_LENGTH:
            shown = repr(stop)[:40]
            raise InvalidInputError(
                f"The stop string {shown} must be text of 1 to {MAX_STOP_LENGTH} characters.",
                hint="Leave out empty or very long stop strings.",
            )
    return tuple(dict.fromkeys(stop_strings))


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of ``text`` that starts ``stop`` without being it."""
    for n in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:n]):
            return n
    return 0
