"""Models split over several files, named ``<stem>-00001-of-0000N.gguf``.

The first part carries the metadata; every part has its own table of tensors and says which
part it is (``split.no``, from 0), of how many (``split.count``), and how many tensors there
are in all (``split.tensors.count``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from ..errors import ModelFormatError, SourceError
from .cursor import MAX_TENSORS
from .reader import GgufFile, TensorInfo, read_header, read_header_async
from .source import AsyncSource, Source, open_source

MAX_PARTS = 4096
_PART = re.compile(r"-(\d{5})-of-(\d{5})(?=\.gguf(?:[?#]|$))", re.IGNORECASE)


def split_count(file: GgufFile) -> int:
    """How many files the model consists of; 1 if it is not split."""
    return max(_whole(file, "split.count", 1, MAX_PARTS), 1)


def _whole(file: GgufFile, key: str, default: int, limit: int) -> int:
    value = file.metadata.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= limit:
        raise ModelFormatError(
            f"{key} in {file.parts[0].name} is {str(value)[:40]!r}, not a number up to {limit}.",
            hint="Download the file again.",
        )
    return value


def part_name(name: str, part: int, count: int) -> str:
    """The name, path or address of part ``part`` (from 0), given that of any part."""
    if not _PART.search(name):
        raise SourceError(
            f"{name} is part of a model in {count} files, but it is not named like one.",
            hint=f"Name the files <name>-00001-of-{count:05d}.gguf and so on.",
            code="split_name",
        )
    return _PART.sub(f"-{part + 1:05d}-of-{count:05d}", name)


def other_parts(file: GgufFile, name: str) -> list[str]:
    """Names of the parts that belong to a first part; empty if the model is one file.

    Raises ModelFormatError if this is not the first part.
    """
    count = split_count(file)
    if count == 1:
        return []
    number = _whole(file, "split.no", 0, MAX_PARTS)
    if number != 0:
        raise ModelFormatError(
            f"{name} is not the first of the model's {count} files (split.no is {number}).",
            hint=f"Open {part_name(name, 0, count)} instead.",
        )
    return [part_name(name, part, count) for part in range(1, count)]


def merge_parts(files: Sequence[GgufFile]) -> GgufFile:
    """One table over all parts, in order; metadata is the first part's.

    Raises ModelFormatError if the parts do not belong together.
    """
    first, count = files[0], len(files)
    tensors: dict[str, TensorInfo] = {}
    for part, file in enumerate(files):
        name = file.parts[0].name
        number = _whole(file, "split.no", 0, MAX_PARTS)
        if split_count(file) != count or number != part:
            raise ModelFormatError(
                f"{name} has split.no {number} and split.count {split_count(file)};"
                f" {part} and {count} were expected.",
                hint="Put the parts of one model, and only those, in one folder.",
            )
        for info in file.tensors.values():
            if info.name in tensors:
                raise ModelFormatError(
                    f"The tensor {info.name} is in part {tensors[info.name].part} and again"
                    f" in {name}.",
                    hint="Download all parts again.",
                )
            tensors[info.name] = replace(info, part=part)
    expected = _whole(first, "split.tensors.count", len(tensors), MAX_TENSORS)
    if count > 1 and expected != len(tensors):
        raise ModelFormatError(
            f"split.tensors.count is {expected}, but the {count} parts hold {len(tensors)}"
            " tensors.",
            hint="Download all parts again.",
        )
    return replace(
        first,
        tensors=tensors,
        n_bytes=sum(file.n_bytes for file in files),
        parts=tuple(file.parts[0] for file in files),
    )


def open_parts(
    first: str | os.PathLike[str] | bytes | Source,
    open_part: Callable[[str], Source] | None = None,
) -> tuple[GgufFile, list[Source]]:
    """Open a model of one or several files: the merged header, and a source per part.

    ``open_part`` opens a further part by its name; by default, from where the first one is.
    Raises SourceError naming a part that is missing.
    """
    sources = [open_source(first)]
    try:
        files = [read_header(sources[0])]
        names = other_parts(files[0], sources[0].name)
        for part, name in enumerate(names, 1):
            try:
                sources.append((open_part or open_source)(name))
            except SourceError as error:
                raise _missing(error, name, part, len(names) + 1) from error
            files.append(read_header(sources[-1]))
        return merge_parts(files), sources
    except BaseException:
        for source in sources:
            if source is not first:  # the caller's own stays the caller's to close
                source.close()
        raise


async def open_parts_async(
    first: AsyncSource, open_part: Callable[[str], Awaitable[AsyncSource]] | None = None
) -> tuple[GgufFile, list[AsyncSource]]:
    """``open_parts`` over awaited sources; without ``open_part``, a split model is refused."""
    sources = [first]
    try:
        files = [await read_header_async(first)]
        names = other_parts(files[0], first.name)
        for part, name in enumerate(names, 1):
            try:
                sources.append(await (open_part or _refuse)(name))
            except SourceError as error:
                raise _missing(error, name, part, len(names) + 1) from error
            files.append(await read_header_async(sources[-1]))
        return merge_parts(files), sources
    except BaseException:
        for source in sources[1:]:  # the first is the caller's to close
            await source.close()
        raise


async def _refuse(name: str) -> AsyncSource:
    raise SourceError(f"{name} was not given.", code="not_found")


def _missing(error: SourceError, name: str, part: int, count: int) -> SourceError:
    if error.code != "not_found":
        return error
    return SourceError(
        f"Part {part + 1} of {count} is missing: {name}.",
        hint="Put all parts of the model beside the first one.",
        code="not_found",
    )


def is_part_name(name: str) -> bool:
    """Whether a file is named like a part of a split model."""
    return _PART.search(name) is not None
