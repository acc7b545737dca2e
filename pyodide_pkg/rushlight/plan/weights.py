"""Tensors of the file as device slots: which planes, which chunks of rows, which uploads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import DeviceError, UnsupportedTypeError
from ..gguf.quants import plane_layout
from ..gguf.reader import GgufFile, TensorInfo
from ..shaders import has_shader
from .plan import Binding, BufferSlot, WeightUpload

ReadTensor = Callable[[str], NDArray[np.float32]]
ROWS_ALIGN = 32
TAIL = "_tail"
"""Ends the name of a quant file for rows that are not whole groups of 16."""
EXPERT_ROWS_ALIGN = 64
"""Where the rows of one expert may be cut: the tile of its prefill kernel."""


@dataclass(frozen=True)
class WeightChunk:
    """Rows ``row_start .. row_start + n_rows`` of a matrix in one slot.

    ``quant`` is the shader file that reads it; ``planes`` the word offsets of its further planes,
    ``table`` of its codebook, if it has one.
    """

    binding: Binding
    quant: str
    row_start: int
    n_rows: int
    n_cols: int
    planes: tuple[int, ...]
    table: int | None = None

    def overrides(self, prefix: str = "W") -> dict[str, float]:
        """Pipeline constants of the quant file under its import prefix."""
        constants: dict[str, float] = {
            f"{prefix}_plane{i}": p for i, p in enumerate(self.planes, 1)
        }
        if self.table is not None:
            constants[f"{prefix}_table"] = self.table
        if self.quant.endswith(TAIL):
            constants[f"{prefix}_cols"] = self.n_cols
        return constants

    @property
    def n_cols_padded(self) -> int:
        """Columns that a product reads: fours, past the row times zero."""
        return -(-self.n_cols // 4) * 4


class WeightStore:
    """Slots and uploads of the tensors that plans ask for; shared by all plans of a model."""

    def __init__(self, file: GgufFile, read_tensor: ReadTensor, max_bytes: int) -> None:
        self.slots: dict[str, BufferSlot] = {}
        self.uploads: list[WeightUpload] = []
        self.constants: dict[str, bytes] = {}
        self.read_tensor = read_tensor
        self._file = file
        self._max_bytes = max_bytes
        self._chunks: dict[str, tuple[WeightChunk, ...]] = {}

    def matrix(self, name: str) -> tuple[WeightChunk, ...]:
        """The chunks of a matrix, planned once.

        Raises UnsupportedTypeError for a type that no kernel can read.
        """
        if name not in self._chunks:
            tensor = self._file.tensors[name]
            quant = quant_file(tensor)
            ranges = self._row_ranges(tensor)
            self._chunks[name] = tuple(
                self._chunk(
                    tensor, quant, name if len(ranges) == 1 else f"{name}#{i}", start, n_rows
                )
                for i, (start, n_rows) in enumerate(ranges)
            )
        return self._chunks[name]

    def vector(self, name: str) -> Binding:
        """A float32 vector: the file's own bytes, or its values as a constant."""
        tensor = self._file.tensors[name]
        if tensor.type.name != "F32":
            if name not in self.constants:
                self.constant(name, self.read_tensor(name))
            return Binding(name)
        if name not in self.slots:
            self._upload(tensor, name, 0, tensor.n_rows if len(tensor.shape) > 1 else 1)
        return Binding(name)

    def constant(self, name: str, values: NDArray[np.float32]) -> Binding:
        """A constant slot with these values."""
        data = np.ascontiguousarray(values, np.float32).tobytes()
        data += bytes(-len(data) % 16)
        self.constants[name] = data
        self.slots[name] = BufferSlot(name, len(data), "constant")
        return Binding(name)

    def zero(self) -> Binding:
        """What stands in for an optional input that is not there."""
        return Binding("zero") if "zero" in self.slots else self.constant("zero", np.zeros(4, "f4"))

    def _row_ranges(self, tensor: TensorInfo) -> list[tuple[int, int]]:
        """First row and number of rows of each chunk; in a stack whole experts, or parts of one."""
        total, each = tensor.n_rows, tensor.shape[-2] if len(tensor.shape) > 1 else 1
        if self._n_bytes(tensor, total) <= self._max_bytes:
            return [(0, total)]
        if len(tensor.shape) < 3:
            return _cut(total, self._most_rows(tensor, ROWS_ALIGN), ROWS_ALIGN)
        if self._n_bytes(tensor, each) <= self._max_bytes:
            return _cut(total, self._most_rows(tensor, each), each)
        parts = _cut(each, self._most_rows(tensor, EXPERT_ROWS_ALIGN), EXPERT_ROWS_ALIGN)
        return [(first + start, n) for first in range(0, total, each) for start, n in parts]

    def _n_bytes(self, tensor: TensorInfo, n_rows: int) -> int:
        blocks = n_rows * (tensor.n_cols // tensor.type.block_size)
        return plane_layout(tensor.type, blocks)[1]

    def _most_rows(self, tensor: TensorInfo, align: int) -> int:
        """The largest multiple of ``align`` rows that one binding holds."""
        table = len(tensor.type.table)
        size = max(1, self._n_bytes(tensor, align) - table)
        most = (self._max_bytes - table) // size * align
        if most <= 0:
            raise DeviceError(
                f"{tensor.name} has rows of {tensor.row_bytes} bytes; {align} of them exceed "
                f"the adapter's largest binding, {self._max_bytes} bytes.",
                hint="Use the CPU backend, or another adapter.",
            )
        return most

    def _chunk(
        self, tensor: TensorInfo, quant: str, slot: str, row_start: int, n_rows: int
    ) -> WeightChunk:
        upload = self._upload(tensor, slot, row_start, n_rows)
        planes = tuple(dest // 4 for _, _, dest in upload.planes[1:])
        table = upload.table_at // 4 if upload.table else None
        return WeightChunk(Binding(slot), quant, row_start, n_rows, tensor.n_cols, planes, table)

    def _upload(self, tensor: TensorInfo, slot: str, row_start: int, n_rows: int) -> WeightUpload:
        fmt = tensor.type
        spans, total = plane_layout(fmt, n_rows * tensor.n_cols // fmt.block_size)
        self.slots[slot] = BufferSlot(slot, total, "weight")
        upload = WeightUpload(
            tensor=tensor.name,
            slot=slot,
            part=tensor.part,
            source_offset=tensor.offset + row_start * tensor.row_bytes,
            source_bytes=n_rows * tensor.row_bytes,
            type_size=fmt.type_size,
            planes=tuple(
                (plane.offset, plane.n_bytes, dest)
                for plane, (dest, _) in zip(fmt.planes, spans, strict=True)
            ),
            table=fmt.table,
            table_at=total - len(fmt.table),
        )
        self.uploads.append(upload)
        return upload


def _cut(n_rows: int, most: int, align: int) -> list[tuple[int, int]]:
    """``n_rows`` in even ranges of at most ``most`` rows, cut at multiples of ``align``."""
    even = -(-n_rows // -(-n_rows // most))
    size = -(-even // align) * align
    return [(start, min(size, n_rows - start)) for start in range(0, n_rows, size)]


def quant_file(tensor: TensorInfo) -> str:
    """The shader file that reads a matrix, without suffix."""
    name = tensor.type.name
    if not tensor.type.planes or not has_shader(f"quants/{name.lower()}.wgsl"):
        raise UnsupportedTypeError(
            f"{tensor.name} has type {name}, which the webgpu backend cannot read.",
            hint="Use a Q4_K_M or Q8_0 file.",
        )
    tail = TAIL if tensor.n_cols % 16 else ""
    return f"quants/{name.lower()}{tail}"
