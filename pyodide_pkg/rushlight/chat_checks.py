"""What a chat template may call, and with what: checked before anything large is made or slow.

Every check is against the *result* or the *work* that the operands allow at worst, because
Python's own text methods refuse nothing: ``"a".ljust(10**10)``, or a backward search, which
takes the product of both lengths.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from typing import Any

from jinja2.exceptions import SecurityError
from jinja2.runtime import LoopContext

from .chat_budget import MAX_ITEMS, MAX_TEXT, Size, limit_error

MAX_ARGUMENT = 10_000
MAX_WORK = 50_000_000
"""Character comparisons of one operation."""
MAX_NAME = 100
"""Characters of an attribute's name."""
_FIELD_CHARS = 450
"""The most that a number takes in a format of at most two digits."""

FILTERS = frozenset(
    """abs batch capitalize count d default dictsort e escape first float groupby indent int items
    join last length list lower map max min reject rejectattr replace reverse round safe select
    selectattr sort string sum title tojson trim unique upper""".split()
)
TEXT_METHODS = frozenset(
    """capitalize casefold count endswith find format index isalnum isalpha isascii isdecimal
    isdigit islower isnumeric isspace istitle isupper join lower lstrip partition removeprefix
    removesuffix replace rfind rindex rpartition rsplit rstrip split splitlines startswith strip
    swapcase title upper""".split()
)
MAPPING_METHODS = frozenset("copy get items keys values".split())
LIST_METHODS = frozenset("copy count index".split())

_QUADRATIC = frozenset("rfind rindex rpartition rsplit strip lstrip rstrip".split())
_BY_ITEM = frozenset(
    """batch groupby join list map max min reject rejectattr select selectattr sort sum
    unique""".split()
)
_BY_NAME = frozenset("groupby max min sort sum unique".split())


def check_call(method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse methods outside the lists above, and text methods that would be slow or huge."""
    owner = getattr(method, "__self__", None)
    name = getattr(method, "__name__", "")
    if owner is not None and not isinstance(owner, LoopContext):
        if name not in _methods_of(owner):
            raise SecurityError(
                f"the method {name!r} of {type(owner).__name__} is not available to chat templates"
            )
    if isinstance(owner, str):
        _check_text_method(owner, name, args, kwargs)
    check_integers(args, kwargs, 2**31)


def _methods_of(owner: Any) -> frozenset[str]:
    if isinstance(owner, str):
        return TEXT_METHODS
    if isinstance(owner, Mapping):
        return MAPPING_METHODS
    return LIST_METHODS if isinstance(owner, (list, tuple, range)) else frozenset()


def _check_text_method(text: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if name in _QUADRATIC:
        for needle in (*args, *kwargs.values()):
            check_work(len(text), needle)
    elif name == "replace" and len(args) > 1:
        check_length(len(text) + text.count(str(args[0])) * len(str(args[1])))
    elif name == "join" and args:
        check_length(len(text) * _length(args[0]))


def check_filter(name: str, value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse a filter whose result would be far larger than what it is given, or slow."""
    if name not in ("default", "d"):
        check_integers(args, kwargs, MAX_ARGUMENT)
    if name in _BY_ITEM and _length(value) > MAX_ITEMS:  # a text counts by its letters
        raise limit_error("makes a list that is too large")
    names = args if name in _BY_NAME else args[:1] if name in ("selectattr", "rejectattr") else ()
    for argument in (*names, *args[1:2] * (name == "join"), kwargs.get("attribute")):
        if isinstance(argument, str) and len(argument) > MAX_NAME:
            raise limit_error(f"passes a name of more than {MAX_NAME} characters")
    if name in _GROWTH:
        _GROWTH[name](value, args, kwargs)


def _check_replace(value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    text = str(value)
    old = str(args[0] if args else kwargs.get("old", ""))
    new = str(args[1] if len(args) > 1 else kwargs.get("new", ""))
    check_length(len(text) + text.count(old) * len(new))


def _check_join(value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    separator = str(args[0] if args else kwargs.get("d", ""))
    check_length(len(separator) * _length(value))


def _check_indent(value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    width = args[0] if args else kwargs.get("width", 4)
    n_width = len(width) if isinstance(width, str) else int(width)
    check_length((len(str(value).splitlines()) + 1) * (n_width + 1))


def _check_batch(value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    check_length(_length(value) + int(args[0] if args else kwargs.get("linecount", 0)))


def _check_trim(value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    for needle in (*args, *kwargs.values()):
        check_work(len(str(value)), needle)


def _check_sum(value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Adding up lists copies the first of them again for each."""
    if _length(value) * Size(value).items > MAX_WORK:
        raise limit_error("adds up too many lists")


def _check_tojson(value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    size = Size(value)
    indent = args[1] if len(args) > 1 else kwargs.get("indent")
    if indent is not None and not (isinstance(indent, int) and 0 <= indent <= 16):
        raise limit_error("asks for JSON indented by more than 16")
    separators = args[2] if len(args) > 2 else kwargs.get("separators")
    n_separator = 2 if separators is None else max(len(s) for s in separators)
    indented = (size.depth + 1) * (indent or 0)
    check_length(size.chars + size.items * (n_separator + indented))


_GROWTH = {
    "replace": _check_replace,
    "join": _check_join,
    "indent": _check_indent,
    "batch": _check_batch,
    "trim": _check_trim,
    "sum": _check_sum,
    "tojson": _check_tojson,
}


def check_product(left: Any, right: Any) -> None:
    """Refuse a multiplication that repeats a text or list too often."""
    for repeated, n in ((left, right), (right, left)):
        if isinstance(repeated, (str, bytes, list, tuple)) and isinstance(n, int):
            check_length(len(repeated) * n)


def check_power(base: Any, exponent: Any) -> None:
    """Refuse a power that is too large a number."""
    if not (abs(base) <= 10**6 and abs(exponent) <= 64):
        raise limit_error("computes a number that is too large")


def check_percent(text: str, values: Any) -> None:
    """Refuse ``text % values`` with wide fields, or too long a result."""
    if re.search(r"\*|\d{3}", text):
        raise limit_error("formats text with a width that is too large")
    _check_fields(len(text), text.count("%"), values)


def check_format(text: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse ``str.format`` with wide or nested fields, or too long a result."""
    for _, field, spec, _ in string.Formatter().parse(text):
        if re.search(r"\d{3}", f"{field} {spec}") or "{" in (spec or ""):
            raise limit_error("formats text with a width that is too large")
    _check_fields(len(text), text.count("{"), [args, kwargs])


def _check_fields(n_chars: int, n_fields: int, values: Any) -> None:
    size = Size(values)
    check_length(n_chars + n_fields * (size.chars + 4 * size.items + _FIELD_CHARS))


def check_length(n: int) -> None:
    """Refuse a text or list of ``n`` parts."""
    if n > MAX_TEXT:
        raise limit_error(f"makes a text or list of more than {MAX_TEXT} parts")


def check_work(n_chars: int, needle: Any) -> None:
    """Refuse to look for a text in ``n_chars`` the slow way."""
    if isinstance(needle, str) and n_chars * len(needle) > MAX_WORK:
        raise limit_error("searches a text in a way that takes too long")


def check_integers(args: tuple[Any, ...], kwargs: dict[str, Any], high: int) -> None:
    """Refuse whole numbers above ``high``."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, int) and abs(value) > high:
            raise limit_error(f"passes a number above {high}")


def _length(value: Any) -> int:
    return len(value) if hasattr(value, "__len__") else MAX_ITEMS
