"""Rows of a stored tensor under a name of their own, so that a fused tensor can be read in parts.

``blk.0.attn_qkv.weight[0:96]`` is rows 0 to 95 of that matrix, or values 0 to 95 of a vector.
Rows lie one after the other in the file, so a view is a tensor like any other: nothing is copied
and every backend can read it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .reader import TensorInfo

VIEW = re.compile(r"(?P<tensor>.+)\[(?P<start>\d{1,9}):(?P<stop>\d{1,9})\]")


def view_name(tensor: str, start: int, stop: int) -> str:
    """The name of rows ``start`` to ``stop - 1`` of a tensor."""
    return f"{tensor}[{start}:{stop}]"


def view_parts(name: str) -> tuple[str, int, int] | None:
    """Tensor, first and past-the-last row that a view's name says; None for a plain name."""
    match = VIEW.fullmatch(name)
    return (match["tensor"], int(match["start"]), int(match["stop"])) if match else None


def view_shape(shape: tuple[int, ...], start: int, stop: int) -> tuple[int, ...] | None:
    """The shape of these rows, in numpy order; None if the tensor has no such rows."""
    return (stop - start, *shape[1:]) if 0 <= start < stop <= shape[0] else None


class TensorTable(dict[str, "TensorInfo"]):
    """A file's tensors by name; a view's name gives the view, without being listed."""

    def __missing__(self, name: str) -> TensorInfo:
        parts = view_parts(name)
        info = self.get(parts[0]) if parts else None
        shape = view_shape(info.shape, *parts[1:]) if info and parts else None
        if info is None or parts is None or shape is None or len(shape) > 2:
            raise KeyError(name)
        row = info.row_bytes if len(shape) > 1 else info.type.row_bytes(1)
        offset = info.offset + parts[1] * row
        return replace(info, name=name, shape=shape, offset=offset, n_bytes=shape[0] * row)
