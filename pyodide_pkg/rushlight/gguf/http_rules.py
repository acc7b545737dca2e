"""What an answer from a web server means, for every source that reads by Range requests."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import SourceError
from .sniff import check_magic

# Nineteen digits: what a 64-bit size has at most; Python refuses to read thousands of them.
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,19})-([0-9]{1,19})/([0-9]{1,19})\Z")
_LENGTH = re.compile(r"[0-9]{1,99}\Z")
_MAX_UNKNOWN = 1 << 62

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


def checked_address(url: str) -> str:
    """An http or https address as it can be requested: percent-encoded, its host in ASCII.

    Raises SourceError for anything else.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname or "", parts.port
        ascii_host = host if host.isascii() else host.encode("idna").decode("ascii")
        path, query = (
            urllib.parse.quote(part, safe=_SAFE, errors="surrogateescape")
            for part in (parts.path, parts.query)
        )
    except ValueError as error:
        raise bad_address(url, error) from error
    if parts.scheme.lower() not in ("http", "https"):
        raise SourceError(
            f"Cannot read {url}: only http:// and https:// addresses are supported.",
            code="unsupported_scheme",
        )
    if not host or any(c.isspace() for c in ascii_host):
        raise bad_address(url, "it names no host")
    netloc = f"[{ascii_host}]" if ":" in ascii_host else ascii_host
    netloc += f":{port}" if port is not None else ""
    user, at, _ = parts.netloc.rpartition("@")
    return urllib.parse.urlunsplit((parts.scheme, user + at + netloc, path, query, ""))


_SAFE = "%/:=&?~#+!$,;'@()*[]"


def bad_address(url: str, reason: object) -> SourceError:
    """The error for an address that nothing can be asked at."""
    return SourceError(
        f"{url} is not a web address: {reason}.", hint="Check the address.", code="bad_address"
    )


def status_error(url: str, status: int, reason: str) -> SourceError:
    """The error for a status that is neither 200 nor 206."""
    code = _CODES.get(status, "unavailable" if status >= 500 else "http_error")
    what, hint = f"the server answered {status} {reason}".rstrip(), _HINTS[code]
    if status in (301, 302, 303, 307, 308):
        what = f"the server answered {status}, a redirect in a circle or to no web address"
        hint = "Open the address in a browser, and use the one that the download starts at."
    elif status < 300:
        what += ", which brings no file"
    return SourceError(f"{url}: {what}.", hint=hint, code=code)


@dataclass(frozen=True)
class Version:
    """Which version of a file an answer comes from, as far as the server says."""

    etag: str = ""
    modified: str = ""

    @staticmethod
    def of(headers: Mapping[str, str]) -> Version:
        """The version that an answer's headers name."""
        return Version(headers.get("etag") or "", headers.get("last-modified") or "")

    def check(self, url: str, other: Version) -> None:
        """Raise SourceError if a later answer is surely from another version."""
        for before, after in ((self.etag, other.etag), (self.modified, other.modified)):
            if before and after and before != after:
                raise SourceError(
                    f"{url}: the file changed on the server, from {before} to {after}.",
                    hint="Load the model again.",
                    code="changed",
                )


def check_encoding(url: str, encoding: str | None) -> None:
    """Raise SourceError if a body is compressed: its bytes are not the file's."""
    if encoding and encoding.strip().lower() != "identity":
        raise SourceError(
            f"{url}: the server sent the file compressed ({encoding}).",
            hint="Download the file and open it from disk.",
            code="bad_encoding",
        )


def content_length(field: str | None) -> int | None:
    """The number in a ``Content-Length``; None if there is none that can be right."""
    return int(field) if field and _LENGTH.match(field.strip()) else None


def check_whole(url: str, head: bytes, length: int | None, room: int, media_type: str = "") -> None:
    """Refuse a reply with the whole file before it is saved.

    ``head`` are its first bytes, ``length`` its size if known, ``room`` what can be stored.
    Raises ModelFormatError if it is no model file, SourceError if it is too large.
    """
    if media_type.split(";")[0].strip().lower() == "text/html" and head[:4] != b"GGUF":
        head = b"<html"
    check_magic(head, max(len(head), length if length is not None else _MAX_UNKNOWN))
    check_room(url, max(len(head), length or 0), room)


def check_room(url: str, n_bytes: int, room: int) -> None:
    """Raise SourceError if ``n_bytes`` of a whole file do not fit into ``room``."""
    if n_bytes > room:
        raise SourceError(
            f"{url}: the server sends the whole file only, and {n_bytes} bytes of it do not fit"
            f" into the {max(room, 0)} that are free here.",
            hint="Free disk space, or use a server that supports Range requests.",
            code="no_room",
        )


def size_from_range(url: str, field: str, offset: int, n: int, known_size: int) -> int:
    """The file's size out of a ``Content-Range``; raises if it is not the range asked for.

    ``known_size`` -1 means that nothing was known before.
    """
    match = _CONTENT_RANGE.match(field)
    if match and int(match[1]) == offset:
        size = int(match[3])
        check_size(url, size, known_size)
        if int(match[2]) < size:
            return size
    raise SourceError(
        f"{url}: the server answered a request for bytes {offset} to"
        f" {offset + n - 1} with the range {field!r}.",
        hint="Download the file and open it from disk.",
        code="bad_range",
    )


def check_size(url: str, size: int, known_size: int) -> None:
    """Raise SourceError if a file's size is not what it was (-1: not known before)."""
    if known_size not in (-1, size):
        raise SourceError(
            f"{url}: the file's size changed from {known_size} to {size} bytes.",
            hint="Load the model again.",
            code="changed",
        )


def short_body(url: str, wanted: int, got: int) -> SourceError:
    """The error for a body that ended early."""
    return SourceError(
        f"{url}: {wanted} bytes were promised, {got} came.",
        hint="The connection broke; try again.",
        code="short_read",
    )


def stalled(url: str, n_bytes: int, seconds: float) -> SourceError:
    """The error for a body that comes far too slowly."""
    return SourceError(
        f"{url}: only {n_bytes} bytes came in {seconds:.0f} seconds.",
        hint="Try again later, or download the file and open it from disk.",
        code="stalled",
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
