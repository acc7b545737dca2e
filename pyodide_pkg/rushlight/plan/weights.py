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
            rows = self._rows_per_chunk(tensor)
            starts = range(0, tensor.n_rows, rows)
            self._chunks[name] = tuple(
                self._chunk(
                    tensor,
                    quant,
                    name if len(starts) == 1 else f"{name}#{i}",
                    start,
                    min(rows, tensor.n_rows - start),
                )
                for i, start in enumerate(starts)
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

    def _rows_per_chunk(self, tensor: TensorInfo) -> int:
        blocks = tensor.n_cols // tensor.type.block_size

        def n_bytes(rows: int) -> int:
            return plane_layout(tensor.type, rows * blocks)[1]

        if n_bytes(tensor.n_rows) <= self._max_bytes:
            return tensor.n_rows
        table = len(tensor.type.table)
        most = (self._max_bytes - table) // max(1, n_bytes(ROWS_ALIGN) - table) * ROWS_ALIGN
        if most <= 0:
            raise DeviceError(
                f"{tensor.name} has rows of {tensor.row_bytes} bytes; {ROWS_ALIGN} of them exceed "
                f"the adapter's largest binding, {self._max_bytes} bytes.",
                hint="Use the CPU backend, or another adapter.",
            )
        n_chunks = -(-tensor.n_rows // most)
        even = -(-tensor.n_rows // n_chunks)
        return -(-even // ROWS_ALIGN) * ROWS_ALIGN

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
