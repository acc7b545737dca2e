"""Run a chat template from an untrusted file: jinja2's sandbox, plus limits on work and memory.

jinja2's sandbox keeps a template away from Python's internals but lets it loop and grow text
without end. Here every loop, call, filter, comparison, literal and joined text is charged to a
``Budget``: the template's syntax tree is rewritten so that none of them can be reached around it.

Imported on first use only: jinja2 takes 0.4 s to import in Pyodide.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from types import GeneratorType
from typing import Any

from jinja2 import nodes, pass_context
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from .chat_budget import MAX_DEPTH, MAX_TEXT, Budget, Size, limit_error
from .chat_checks import (
    FILTERS,
    check_call,
    check_filter,
    check_format,
    check_percent,
    check_power,
    check_product,
)
from .errors import TemplateError, shown_text

MAX_NODES = 30_000
"""Of a template's syntax tree; shipped templates have up to a few thousand."""

_EXISTING = frozenset("count d default first last length max min".split())
"""Filters that return a part of what they are given, or a number."""


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
        self.globals.update(
            namespace=OpaqueNamespace, raise_exception=raise_exception, strftime_now=strftime_now
        )

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        counted: nodes.Template = _Counting().visit(tree)
        counted.set_environment(self)
        return counted

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Charge for every call; methods are checked before they make anything large."""
        budget = __self.budget
        budget.spend()
        if isinstance(__obj, LoopContext) and args:
            args = (_counted(budget, args[0]), *args[1:])
        check_call(__obj, args, kwargs)
        owner = getattr(__obj, "__self__", None)
        if __obj is OpaqueNamespace:  # it copies what it is given
            for given in (*args, kwargs):
                budget.made(given)
        result = super().call(__context, __obj, *args, **kwargs)
        if isinstance(owner, Mapping):
            return budget.admit(result)
        return budget.made(result, with_items=isinstance(owner, str))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Check ``str.format``, which jinja2 wraps before ``call`` sees it."""
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None

        def checked(*args: Any, **kwargs: Any) -> str:
            check_format(value.__self__, args, kwargs)
            return wrapped(*args, **kwargs)

        return checked

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Refuse arithmetic that makes something large."""
        self.budget.spend()
        if operator == "*":
            check_product(left, right)
        elif operator == "**":
            check_power(left, right)
        elif operator == "%" and isinstance(left, str):
            check_percent(left, right)
        return self.budget.made(super().call_binop(context, operator, left, right))


class OpaqueNamespace(Namespace):
    """A ``namespace`` that is written as a word: it may hold itself, or others, many times over."""

    def __repr__(self) -> str:
        return "<Namespace>"


class GenerationTag(Extension):
    """``{% generation %}…{% endgeneration %}``: marks replies for training; here only its body."""

    tags = {"generation"}  # noqa: RUF012 (jinja2 declares it so)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return the body of the block."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def raise_exception(message: object = "") -> None:
    """What templates call to refuse a conversation."""
    Size(message)
    raise TemplateError(
        f"The model's chat template refused the conversation: {shown_text(message, 300)}",
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
        self._nodes = 0

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        self._depth += 1
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise limit_error(f"has more than {MAX_NODES} parts")
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
        return _filter(node, "make value")

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filter(node, "make value")

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filter(node, "make value") if node.ctx == "load" else node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        is_slice = isinstance(node.arg, nodes.Slice) and node.ctx == "load"
        return _filter(node, "make value") if is_slice else node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filter(node, "count step")

    def visit_Test(self, node: nodes.Test) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filter(node, "count step")


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
    return _counted(_budget(context), items)


@pass_context
def _step_filter(context: Context, value: Any) -> Any:
    _budget(context).spend()
    return value


@pass_context
def _concat_filter(context: Context, parts: list[Any]) -> Any:
    budget = _budget(context)
    budget.spend()
    texts, n_chars = [], 0
    for part in parts:
        texts.append(part if isinstance(part, str) else str(budget.admit(part)))
        n_chars += len(texts[-1])
        if n_chars > MAX_TEXT:
            raise limit_error(f"makes a text of more than {MAX_TEXT} characters")
    return budget.made("".join(texts))


@pass_context
def _make_filter(context: Context, value: Any) -> Any:
    budget = _budget(context)
    budget.spend()
    return budget.made(value)


_COUNTERS: dict[str, Callable[..., Any]] = {
    "count text": _tick_filter,
    "count items": _count_filter,
    "count step": _step_filter,
    "join parts": _concat_filter,
    "make value": _make_filter,
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


def _counted(budget: Budget, items: Any) -> Any:
    return items if isinstance(items, Undefined) else budget.counted(items)


def _limited(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the filter with its arguments checked and its result charged."""
    kind = getattr(getattr(original, "jinja_pass_arg", None), "name", "")

    @pass_context
    def limited(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
        budget = _budget(context)
        budget.spend()
        if isinstance(value, GeneratorType):
            value = budget.made(value)
        check_filter(name, value, args, kwargs)
        first: Mapping[str, tuple[Any, ...]] = {
            "context": (context,),
            "eval_context": (context.eval_ctx,),
            "environment": (context.environment,),
        }
        result = original(*first.get(kind, ()), value, *args, **kwargs)
        if name in _EXISTING:
            return budget.admit(result)
        return budget.made(result, with_items=isinstance(value, str))

    return limited
