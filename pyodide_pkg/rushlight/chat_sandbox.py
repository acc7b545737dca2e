"""Run a chat template from an untrusted file: jinja2's sandbox, plus limits on work and size.

jinja2's sandbox keeps a template away from Python's internals but lets it loop and grow text
without end. Here every loop, call, filter, literal and joined text is charged to a ``Budget``:
the template's syntax tree is rewritten so that none of them can be reached around it.

Imported on first use only: jinja2 takes 0.4 s to import in Pyodide.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from types import GeneratorType
from typing import Any

from jinja2 import nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from .errors import TemplateError

MAX_STEPS = 300_000
MAX_TEXT = 4_000_000
"""Characters of one value, and of the whole output."""
MAX_ITEMS = 100_000
MAX_DEPTH = 100
MAX_INT_BITS = 4096
MAX_ARGUMENT = 10_000
MAX_SECONDS = 5.0

FILTERS = frozenset(
    """abs batch capitalize count d default dictsort e escape first float groupby indent int items
    join last length list lower map max min reject rejectattr replace reverse round safe select
    selectattr sort string title tojson trim unique upper""".split()
)
TEXT_METHODS = frozenset(
    """capitalize casefold count endswith find format index isalnum isalpha isascii isdecimal
    isdigit islower isnumeric isspace istitle isupper join lower lstrip partition removeprefix
    removesuffix replace rfind rindex rpartition rsplit rstrip split splitlines startswith strip
    swapcase title upper""".split()
)


class Budget:
    """What one rendering may still use. Each method raises TemplateError when it is used up."""

    def __init__(self) -> None:
        self._steps = MAX_STEPS
        self._output = MAX_TEXT
        self._deadline = time.monotonic() + MAX_SECONDS

    def spend(self, steps: int = 1) -> None:
        """Charge for work."""
        self._steps -= steps
        if self._steps < 0 or time.monotonic() > self._deadline:
            raise limit_error(f"runs for more than {MAX_STEPS} steps or {MAX_SECONDS:g} seconds")

    def write(self, n_chars: int) -> None:
        """Charge for output."""
        self._output -= n_chars
        if self._output < 0:
            raise limit_error(f"writes more than {MAX_TEXT} characters")

    def admit(self, value: Any) -> Any:
        """Return a new value if it is small when written out in full; generators become lists."""
        if isinstance(value, GeneratorType):
            value = self._listed(value)
        self._measure(value, [MAX_TEXT, MAX_ITEMS], 0)
        return value

    def _listed(self, items: Any) -> list[Any]:
        found = []
        for item in items:
            self.spend()
            found.append(item)
        return found

    def _measure(self, value: Any, left: list[int], depth: int) -> None:
        if isinstance(value, str):
            left[0] -= len(value)
        elif isinstance(value, int):
            if value.bit_length() > MAX_INT_BITS:
                raise limit_error("computes a number that is too large")
        elif isinstance(value, (list, tuple, dict, set)):
            left[1] -= len(value)
            if depth > MAX_DEPTH or left[1] < 0:
                raise limit_error("makes a list that is too large")
            parts = [*value.keys(), *value.values()] if isinstance(value, dict) else value
            for part in parts:
                self._measure(part, left, depth + 1)
        if left[0] < 0:
            raise limit_error(f"makes a text of more than {MAX_TEXT} characters")


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """The environment chat templates expect (that of Hugging Face transformers), with limits."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,
            cache_size=0,
            extensions=["jinja2.ext.loopcontrols", GenerationTag],
            finalize=_finalize,
        )
        self.budget = Budget()
        originals: dict[str, Any] = {**self.filters, "tojson": tojson}
        self.filters = {name: _limited(name, originals[name]) for name in FILTERS}
        self.filters.update(_COUNTERS)
        for name in ("lipsum", "cycler", "joiner"):
            del self.globals[name]
        self.globals.update(raise_exception=raise_exception, strftime_now=strftime_now)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        counted: nodes.Template = _Counting().visit(tree)
        counted.set_environment(self)
        return counted

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Charge for every call; text methods are checked before they make anything large."""
        __self.budget.spend()
        if isinstance(__obj, LoopContext) and args:
            args = (_count(__self.budget, args[0]), *args[1:])
        _check_text_method(__obj, args)
        _check_integers(args, kwargs, 2**31)
        return __self.budget.admit(super().call(__context, __obj, *args, **kwargs))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Refuse wide fields in ``str.format``, which jinja2 wraps before ``call`` sees it."""
        text = getattr(value, "__self__", None)
        if isinstance(text, str) and getattr(value, "__name__", "").startswith("format"):
            if re.search(r"\d{3}|:[^}]*\{", text):
                raise limit_error("formats text with a width that is too large")
        return super().wrap_str_format(value)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Refuse arithmetic that makes something large."""
        self.budget.spend()
        if operator == "*":
            for text, n in ((left, right), (right, left)):
                if isinstance(text, (str, list, tuple)) and isinstance(n, int):
                    _check_length(len(text) * n)
        elif operator == "**" and not (abs(left) <= 10**6 and abs(right) <= 64):
            raise limit_error("computes a number that is too large")
        elif operator == "%" and isinstance(left, str) and re.search(r"\*|\d{3}", left):
            raise limit_error("formats text with a width that is too large")
        return self.budget.admit(super().call_binop(context, operator, left, right))


class GenerationTag(Extension):
    """``{% generation %}…{% endgeneration %}``: marks replies for training; here only its body."""

    tags = {"generation"}  # noqa: RUF012 (jinja2 declares it so)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return the body of the block."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def limit_error(what: str) -> TemplateError:
    """Return the error for a template that asks for too much."""
    return TemplateError(
        f"The model's chat template {what}.",
        hint="Use another conversion of this model; this template cannot be run safely.",
        code="template_limit",
    )


def raise_exception(message: str) -> None:
    """What templates call to refuse a conversation."""
    raise TemplateError(
        f"The model's chat template refused the conversation: {message}",
        hint="Change the messages as it says; often it wants no system message, or strict turns.",
        code="template_refused",
    )


def strftime_now(form: str) -> str:
    """The local time in ``form``."""
    if len(form) > 200 or re.search(r"%[-_0^#+]*\d", form):
        raise limit_error("formats a date with a width that is too large")
    return datetime.now().strftime(form)


def tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as Hugging Face's templates expect it: no HTML escapes."""
    if indent is not None and not (isinstance(indent, int) and 0 <= indent <= 16):
        raise limit_error(f"asks for JSON indented by {indent!r}")
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


class _Counting(NodeTransformer):
    """Puts a counter into everything that repeats or makes a value."""

    def __init__(self) -> None:
        self._depth = 0

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        self._depth += 1
        if self._depth > 2 * MAX_DEPTH:
            raise limit_error("is nested too deeply")
        super().generic_visit(node, *args, **kwargs)
        self._depth -= 1
        return node

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 (jinja2 dispatches by name)
        self.generic_visit(node)
        assert isinstance(node.iter, nodes.Expr)
        node.iter = _filter(node.iter, "count items")
        node.body.insert(0, _tick(node.body, node.lineno))
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.body.insert(0, _tick(node.body, node.lineno))
        return node

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.body.insert(0, _tick(node.body, node.lineno))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filter(nodes.List(node.nodes, lineno=node.lineno), "join parts")

    def visit_List(self, node: nodes.List) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filter(node, "admit value")

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filter(node, "admit value")

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filter(node, "admit value") if node.ctx == "load" else node


def _filter(value: nodes.Expr, name: str) -> nodes.Filter:
    return nodes.Filter(value, name, [], [], None, None, lineno=value.lineno)


def _tick(body: list[nodes.Node], lineno: int) -> nodes.Node:
    """Return a statement that charges one step and the literal text of ``body``."""
    n_chars = sum(len(data.data) for n in body for data in n.find_all(nodes.TemplateData))
    value = nodes.Const(n_chars, lineno=lineno)
    return nodes.ExprStmt(_filter(value, "count text"), lineno=lineno)


# Their names hold a space where a template could name them, so that none can.
@pass_context
def _tick_filter(context: Context, n_chars: int) -> None:
    budget = _budget(context)
    budget.spend()
    budget.write(n_chars)


@pass_context
def _count_filter(context: Context, items: Any) -> Any:
    return _count(_budget(context), items)


@pass_context
def _concat_filter(context: Context, parts: list[Any]) -> Any:
    budget = _budget(context)
    budget.spend()
    return budget.admit("".join(str(budget.admit(part)) for part in parts))


@pass_context
def _admit_filter(context: Context, value: Any) -> Any:
    budget = _budget(context)
    budget.spend()
    return budget.admit(value)


_COUNTERS: dict[str, Callable[..., Any]] = {
    "count text": _tick_filter,
    "count items": _count_filter,
    "join parts": _concat_filter,
    "admit value": _admit_filter,
}


@pass_context
def _finalize(context: Context, value: Any) -> Any:
    """Charge for what is written."""
    budget = _budget(context)
    budget.spend()
    text = value if isinstance(value, str) else str(budget.admit(value))
    budget.write(len(text))
    return text


def _budget(context: Context) -> Budget:
    assert isinstance(context.environment, ChatEnvironment)
    return context.environment.budget


def _count(budget: Budget, items: Any) -> Any:
    """Charge for going over ``items``, which come back with a known length."""
    if isinstance(items, Undefined):
        return items
    if not hasattr(items, "__len__"):
        items = budget.admit(budget._listed(items))
    budget.spend(len(items))
    return items


def _limited(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the filter with its arguments checked and its result charged."""
    kind = getattr(getattr(original, "jinja_pass_arg", None), "name", "")

    @pass_context
    def limited(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
        budget = _budget(context)
        budget.spend()
        if isinstance(value, GeneratorType):
            value = budget.admit(value)
        if name not in ("default", "d"):
            _check_integers(args, kwargs, MAX_ARGUMENT)
        _check_growth(name, value, args, kwargs)
        first: Mapping[str, tuple[Any, ...]] = {
            "context": (context,),
            "eval_context": (context.eval_ctx,),
            "environment": (context.environment,),
        }
        return budget.admit(original(*first.get(kind, ()), value, *args, **kwargs))

    return limited


def _check_growth(name: str, value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse a filter whose result would be far larger than what it is given."""
    if name == "replace":
        old, new = [*args, kwargs.get("old", ""), kwargs.get("new", "")][:2]
        _check_length(str(value).count(str(old)) * len(str(new)))
    elif name == "join":
        separator = str([*args, kwargs.get("d", "")][0])
        _check_length(len(separator) * (len(value) if hasattr(value, "__len__") else MAX_ITEMS))
    elif name == "indent":
        width = [*args, kwargs.get("width", 4)][0]
        n_width = len(width) if isinstance(width, str) else int(width)
        _check_length((str(value).count("\n") + 1) * n_width)
    elif name == "batch":
        _check_length(int([*args, kwargs.get("linecount", 0)][0]))


def _check_text_method(method: Any, args: tuple[Any, ...]) -> None:
    text = getattr(method, "__self__", None)
    if not isinstance(text, str):
        return
    name = getattr(method, "__name__", "")
    if name not in TEXT_METHODS:
        raise SecurityError(f"the text method {name!r} is not available to chat templates")
    if name == "replace" and len(args) > 1:
        _check_length(text.count(str(args[0])) * len(str(args[1])))
    elif name == "join" and args:
        n = len(args[0]) if hasattr(args[0], "__len__") else MAX_ITEMS
        _check_length(len(text) * n)


def _check_length(n: int) -> None:
    if n > MAX_TEXT:
        raise limit_error(f"makes a text or list of more than {MAX_TEXT} parts")


def _check_integers(args: tuple[Any, ...], kwargs: dict[str, Any], high: int) -> None:
    for value in (*args, *kwargs.values()):
        if isinstance(value, int) and abs(value) > high:
            raise limit_error(f"passes a number above {high}")
