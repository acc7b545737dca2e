"""Tells a GGUF file from the other things people end up with under that name."""

from __future__ import annotations

import struct

from ..errors import ModelFormatError

_CONVERT = "Use the model's GGUF file, or convert this one with llama.cpp's convert_hf_to_gguf.py."
_BIG_ENDIAN = "Convert it with gguf-convert-endian, or download the usual little-endian file."


def check_magic(head: bytes, size: int) -> int:
    """The GGUF version (2 or 3) of a file that starts with ``head``.

    Raises ModelFormatError that says what the file is instead.
    """
    if size == 0:
        raise ModelFormatError("The file is empty.", hint="Download it again.")
    if head[:4] != b"GGUF":
        raise _not_gguf(head, size)
    if size < 24:
        raise ModelFormatError(
            f"The file ends inside the header: it has {size} bytes.",
            hint="The file is truncated; download it again.",
        )
    (version,) = struct.unpack_from("<I", head, 4)
    if version & 0xFFFF == 0:
        # Big-endian writers keep the magic's byte order and swap everything after it.
        raise ModelFormatError("This is a big-endian GGUF file (at byte 4).", hint=_BIG_ENDIAN)
    if version == 1:
        raise ModelFormatError(
            "This is a GGUF version 1 file (at byte 4); versions 2 and 3 can be read.",
            hint="Download a current conversion of the model.",
        )
    if version not in (2, 3):
        raise ModelFormatError(
            f"The GGUF version is {version} (at byte 4); versions 2 and 3 can be read.",
            hint="Use a newer Rushlight, or download the file again if it should be version 3.",
        )
    return int(version)


def _not_gguf(head: bytes, size: int) -> ModelFormatError:
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<!doctype", b"<html", b"<head", b"<?xml")):
        return ModelFormatError(
            "This is a web page, not a model file.",
            hint="Use the direct download address (on Hugging Face: /resolve/main/, not /blob/).",
        )
    if text.startswith(b"version https://git-lfs"):
        return ModelFormatError(
            "This is a Git LFS pointer, not the model file itself.",
            hint="Fetch it with `git lfs pull`, or download the file by its address.",
        )
    if head[:4] == b"FUGG":
        return ModelFormatError("This is a big-endian GGUF file (at byte 0).", hint=_BIG_ENDIAN)
    if head[:4] in (b"lmgg", b"fmgg", b"tjgg", b"algg"):
        return ModelFormatError(
            "This is a GGML file from before GGUF.", hint="Download a GGUF file of the model."
        )
    if len(head) >= 9 and head[8:9] == b"{" and struct.unpack_from("<Q", head)[0] < size:
        return ModelFormatError("This is a safetensors file, not a GGUF file.", hint=_CONVERT)
    if head[:2] == b"PK":
        return ModelFormatError(
            "This is a zip archive (perhaps a PyTorch checkpoint), not a GGUF file.", hint=_CONVERT
        )
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05":
        return ModelFormatError("This is a PyTorch or pickle file, not a GGUF file.", hint=_CONVERT)
    if head[:2] == b"\x1f\x8b":
        return ModelFormatError("This is a gzip file, not a GGUF file.", hint="Unpack it first.")
    if text[:1] in (b"{", b"["):
        return ModelFormatError(
            "This is a JSON file, not a GGUF file.",
            hint="Check the address: a server may have sent an error instead of the model.",
        )
    return ModelFormatError(
        f"This is not a GGUF file: it starts with {_as_hex(head[:4])} (at byte 0).",
        hint="Choose a GGUF file, or download this one again.",
    )


def _as_hex(head: bytes) -> str:
    shown = head.hex(" ") or "nothing"
    return f'"{head.decode("ascii")}"' if head and head.isascii() and head.isalnum() else shown
