"""What an answer from a web server means, for every source that reads by Range requests."""

from __future__ import annotations

import re

from ..errors import SourceError

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)$")

_HINTS = {
    "not_found": "Check the address; on Hugging Face it contains /resolve/main/.",
    "forbidden": "The model may be gated: accept its licence on its page, download it while"
    " signed in, and open the local file.",
    "unavailable": "The server is busy or broken; try again later.",
    "out_of_range": "The file is shorter than the server said; start again.",
    "http_error": "Check the address in a browser.",
}
_CODES = {401: "forbidden", 403: "forbidden", 404: "not_found", 410: "not_found"}
_CODES |= {416: "out_of_range", 429: "unavailable"}


def is_web_address(text: object) -> bool:
    """Whether a source was named by an http or https address."""
    return isinstance(text, str) and text.lower().startswith(("http://", "https://"))


def status_error(url: str, status: int, reason: str) -> SourceError:
    """The error for a status that is neither 200 nor 206."""
    code = _CODES.get(status, "unavailable" if status >= 500 else "http_error")
    return SourceError(
        f"{url}: the server answered {status} {reason}.".replace(" .", "."),
        hint=_HINTS[code],
        code=code,
    )


def size_from_range(url: str, field: str, offset: int, n: int, known_size: int) -> int:
    """The file's size out of a ``Content-Range``; raises if it is not the range asked for.

    ``known_size`` -1 means that nothing was known before.
    """
    match = _CONTENT_RANGE.match(field)
    if not match or match[3] == "*" or int(match[1]) != offset:
        raise SourceError(
            f"{url}: the server answered a request for bytes {offset} to"
            f" {offset + n - 1} with the range {field!r}.",
            hint="Download the file and open it from disk.",
            code="bad_range",
        )
    size = int(match[3])
    if known_size not in (-1, size):
        raise SourceError(
            f"{url}: the file's size changed from {known_size} to {size} bytes.",
            hint="Load the model again.",
            code="changed",
        )
    return size


def short_body(url: str, wanted: int, got: int) -> SourceError:
    """The error for a body that ended early."""
    return SourceError(
        f"{url}: {wanted} bytes were promised, {got} came.",
        hint="The connection broke; try again.",
        code="short_read",
    )


def unreachable(url: str, reason: object) -> SourceError:
    """The error for a request that got no answer."""
    return SourceError(
        f"Cannot reach {url}: {reason}.",
        hint="Check the address and the network connection.",
        code="unreachable",
    )


def range_ignored(n_bytes: int) -> str:
    """The note for a server that sends whole files only."""
    return f"The server ignores Range requests, so all {n_bytes} bytes were downloaded first."
