"""The rules a graph document keeps; run after building, after each rewrite, and on foreign files.

=====  ==========================================================================
rule   meaning
=====  ==========================================================================
G01    the op is defined
G02    every attribute is one the op defines, with the right type
G03    every required attribute is given
G04    every input port is one the op defines, and required ports are given
G05    every output port is one the op defines
G06    a value is written once
G07    a value is read only after a node wrote it
G08    every value is read, or is an output of the graph
G09    shapes agree with the op's shape rule
G10    a weight port names a declared weight, a state port a declared state
G11    a declared weight exists in the file, with the declared shape
G12    graph outputs name values that exist
=====  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import GraphError, UnsupportedOpError
from ..gguf.views import view_parts, view_shape
from ..ops import OPS
from ..ops.opdef import OpDef
from .ir import GRAPH_INPUTS, Graph, Node, Shape


def verify(graph: Graph, tensors: Mapping[str, tuple[int, ...]] | None = None) -> dict[str, Shape]:
    """Check every rule and return each value's shape.

    ``tensors`` maps the file's tensor names to numpy-order shapes; without it rule G11 is left
    out. Raises ``GraphError`` citing the rule and the node.
    """
    if tensors is not None:
        _check_weights(graph, tensors)
    shapes: dict[str, Shape] = {name: shape for name, (_, shape) in GRAPH_INPUTS.items()}
    shapes |= {name: weight.shape for name, weight in graph.weights.items()}
    shapes |= {name: state.shape for name, state in graph.state.items()}
    read: set[str] = set(graph.outputs.values())
    for index, node in enumerate(graph.nodes):
        op = _check_node(index, node)
        for port, value in node.inputs.items():
            _check_input(graph, shapes, index, node, op, port, value)
            read.add(value)
        _infer_node(shapes, index, node, op)
    for name, value in graph.outputs.items():
        if value not in shapes:
            raise GraphError(f"G12: output {name!r} names {value!r}, which no node writes.")
    _check_all_read(graph, read)
    return shapes


def output_cols(graph: Graph) -> dict[str, int]:
    """Length of a row of each output; all are float32, a row per wanted one."""
    shapes = verify(graph)
    found = {name: shapes[value][-1] for name, value in graph.outputs.items()}
    return {name: n for name, n in found.items() if isinstance(n, int)}


def _where(index: int, node: Node) -> str:
    return f"node {index} ({node.op})"


def _check_node(index: int, node: Node) -> OpDef:
    where = _where(index, node)
    if node.op not in OPS:
        raise UnsupportedOpError(
            f"G01: {where}: the op {node.op!r} is not defined.",
            hint=f"Known ops: {', '.join(sorted(OPS))}.",
        )
    op = OPS[node.op]
    for name, value in node.attrs.items():
        if name not in op.attrs:
            raise GraphError(f"G02: {where}: {op.name} has no attribute {name!r}.")
        spec = op.attrs[name]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = number if spec.type is float else isinstance(value, spec.type)
        if not fits or (spec.choices and value not in spec.choices):
            wanted = " or ".join(spec.choices) or spec.type.__name__
            raise GraphError(f"G02: {where}: {name} is {value!r}, not {wanted}.")
    missing = [k for k, s in op.attrs.items() if s.default is None and k not in node.attrs]
    if missing:
        raise GraphError(f"G03: {where}: attribute {missing[0]!r} is missing.")
    for port in node.inputs:
        if port not in op.inputs and port not in op.optional:
            raise GraphError(f"G04: {where}: {op.name} has no input {port!r}.")
    absent = [port for port in op.inputs if port not in node.inputs]
    if absent:
        raise GraphError(f"G04: {where}: input {absent[0]!r} is missing.")
    if set(node.outputs) != set(op.outputs):
        raise GraphError(f"G05: {where}: outputs are {sorted(node.outputs)}, not {op.outputs}.")
    return op


def _check_input(
    graph: Graph,
    shapes: Mapping[str, Shape],
    index: int,
    node: Node,
    op: OpDef,
    port: str,
    value: str,
) -> None:
    if port in op.weights and value not in graph.weights:
        raise GraphError(f"G10: {_where(index, node)}: {port} names {value!r}, not a weight.")
    if value not in shapes:
        raise GraphError(
            f"G07: {_where(index, node)}: {port} reads {value!r} before it is written."
        )
    if port in op.state and value.split("@")[0] not in graph.state:
        raise GraphError(f"G10: {_where(index, node)}: {port} names {value!r}, not a state.")


def _infer_node(shapes: dict[str, Shape], index: int, node: Node, op: OpDef) -> None:
    known = {port: shapes[node.inputs[port]] for port in (*op.inputs, *op.optional)
             if port in node.inputs}  # fmt: skip
    try:
        inferred = op.infer(known, op.full_attrs(node.attrs))
    except GraphError as error:
        raise GraphError(f"G09: {_where(index, node)}: {error.message}.") from error
    except (ValueError, TypeError, AssertionError, IndexError, KeyError) as error:
        raise GraphError(
            f"G09: {_where(index, node)}: input shapes {known} do not fit {op.name}."
        ) from error
    for port, value in node.outputs.items():
        if value in shapes:
            raise GraphError(f"G06: {_where(index, node)}: {value!r} is written twice.")
        shapes[value] = inferred[port]


def _check_weights(graph: Graph, tensors: Mapping[str, tuple[int, ...]]) -> None:
    for name, weight in graph.weights.items():
        tensor, *rows = view_parts(name) or (name,)
        if tensor not in tensors:
            raise GraphError(
                f"G11: the model needs the tensor {tensor!r}, which the file lacks.",
                hint="The file may be truncated or converted for another engine.",
            )
        shape: tuple[int, ...] | None = tuple(tensors[tensor])
        if rows:
            shape = view_shape(tensors[tensor], *rows)
        if shape != weight.shape:
            raise GraphError(
                f"G11: tensor {tensor!r} has shape {tuple(tensors[tensor])}, "
                f"but the model needs {name} of {weight.shape}."
            )


def _check_all_read(graph: Graph, read: set[str]) -> None:
    for index, node in enumerate(graph.nodes):
        op = OPS[node.op]
        for port, value in node.outputs.items():
            # A state's last version is read by the next call.
            if value not in read and port not in op.state:
                raise GraphError(f"G08: {_where(index, node)}: nobody reads {value!r}.")
    for name in graph.weights:
        if name not in read:
            raise GraphError(f"G08: nobody reads the weight {name!r}.")
