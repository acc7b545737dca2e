"""The vocabulary tables of a GGUF file: texts, types, scores and the special ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import TokenizerError

TOKEN_NORMAL = 1
TOKEN_UNKNOWN = 2
TOKEN_CONTROL = 3
TOKEN_USER_DEFINED = 4
TOKEN_UNUSED = 5
TOKEN_BYTE = 6

KEY = "tokenizer.ggml."

MAX_SPECIAL_CHARS = 256
"""Of a control, unknown or user-defined token; published ones have up to about 50."""

# Files name at most one end-of-text id, but chat models end a turn with another token, so tokens
# that end generation are also known by their text.
END_TEXTS = (
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<EOS_TOKEN>",
    "<|END_OF_TURN_TOKEN|>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "[e~[",
    # infill: padding, repository and file separators
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<reponame>",
    "<|file_sep|>",
)
END_KEYS = ("eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep")
_HARMONY_ENDS = ({"<|return|>", "<|call|>"}, {"<|calls|>", "<|flush|>"})


@dataclass(frozen=True)
class Vocab:
    """Token tables and special ids; ``ids`` maps a token's text to its id."""

    tokens: Sequence[str]
    types: npt.NDArray[np.int32] | None
    scores: npt.NDArray[np.float32] | None
    ids: dict[str, int] = field(repr=False)
    special: dict[str, int]
    eos_ids: frozenset[int]
    add_space_prefix: bool

    @property
    def n_vocab(self) -> int:
        """Number of tokens."""
        return len(self.tokens)

    @property
    def unk_id(self) -> int | None:
        """The id for text that no token covers, if the file names one."""
        return self.special.get("unknown")

    def type_of(self, token_id: int) -> int:
        """The token's type, as numbered in the file (normal when the file has no types)."""
        return TOKEN_NORMAL if self.types is None else int(self.types[token_id])

    def of_types(self, *types: int) -> list[tuple[str, int]]:
        """Text and id of every token of one of these types, by id."""
        if self.types is None:
            return []
        return [(self.tokens[i], i) for i in np.flatnonzero(np.isin(self.types, types)).tolist()]


def read_vocab(metadata: Mapping[str, Any], defaults: Mapping[str, int]) -> Vocab:
    """Read and check the tables; ``defaults`` are special ids that the kind implies.

    Raises TokenizerError naming the key that is missing or has the wrong length.
    """
    tokens = _read_tokens(metadata)
    n_vocab = len(tokens)
    scores = _read_numbers(metadata, "scores", n_vocab, np.dtype(np.float32))
    if scores is not None:
        _refuse("scores", np.isnan(scores), scores, "a number")
    types = _read_types(metadata, n_vocab)
    ids = dict(zip(tokens, range(n_vocab), strict=True))
    if len(ids) != n_vocab or "" in ids:
        tokens, ids = _repair_empty(tokens)
    special = _read_special(metadata, n_vocab, defaults)
    types, eos_ids = _find_ends(ids, special, types, tokens)
    _check_special_texts(tokens, types)
    prefix = read_flag(metadata, "add_space_prefix", default=True)
    return Vocab(tokens, types, scores, ids, special, eos_ids, prefix)


def read_flag(metadata: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """A yes-or-no entry; ``default`` when the file leaves it out.

    Raises TokenizerError when it is something else.
    """
    value = metadata.get(KEY + name)
    if value is None:
        return default
    if isinstance(value, (bool, np.bool_, int)) and value in (0, 1):
        return bool(value)
    raise TokenizerError(f"{KEY}{name} is {_brief(value)}, not true or false.")


def read_token_id(metadata: Mapping[str, Any], name: str) -> int | None:
    """The ``<name>_token_id`` entry, in the vocabulary or not; None when the file leaves it out.

    Raises TokenizerError when it is not a whole number.
    """
    value = metadata.get(f"{KEY}{name}_token_id")
    if value is None:
        return None
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    raise TokenizerError(
        f"{KEY}{name}_token_id is {_brief(value)}, not a whole number.",
        hint="The file is damaged or was converted wrongly; fetch or convert it again.",
    )


def read_text(metadata: Mapping[str, Any], name: str) -> str | None:
    """A text entry, or None when the file leaves it out; TokenizerError when it is no text."""
    value = metadata.get(KEY + name)
    if value is None or isinstance(value, str):
        return value
    raise TokenizerError(f"{KEY}{name} is {_brief(value)}, not text.")


def _brief(value: object) -> str:
    """A value as an error message can show it."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _read_tokens(metadata: Mapping[str, Any]) -> Sequence[str]:
    tokens = metadata.get(KEY + "tokens")
    if tokens is None:
        raise TokenizerError(
            f"{KEY}tokens is missing, so the file has no vocabulary.",
            hint="Use a GGUF file that was converted with its tokenizer.",
        )
    if not isinstance(tokens, Sequence) or isinstance(tokens, (str, bytes)) or not len(tokens):
        raise TokenizerError(f"{KEY}tokens is not a list of texts.")
    if not set(map(type, tokens)) <= {str}:
        raise TokenizerError(f"{KEY}tokens holds something that is not text.")
    return tokens


def _read_numbers(
    metadata: Mapping[str, Any], name: str, n_vocab: int, dtype: np.dtype[Any]
) -> npt.NDArray[Any] | None:
    values = metadata.get(KEY + name)
    if values is None:
        return None
    try:
        array = np.asarray(values).astype(dtype, copy=False)
    except (TypeError, ValueError, OverflowError):
        raise TokenizerError(f"{KEY}{name} is not a list of numbers.") from None
    if array.ndim != 1 or len(array) < n_vocab:
        raise TokenizerError(
            f"{KEY}{name} has {array.size} entries, but {KEY}tokens has {n_vocab}.",
            hint="The file is damaged or was converted wrongly; fetch or convert it again.",
        )
    return array[:n_vocab]


def _read_types(metadata: Mapping[str, Any], n_vocab: int) -> npt.NDArray[np.int32] | None:
    values = _read_numbers(metadata, "token_type", n_vocab, np.dtype(np.float64))
    if values is None:
        return None
    whole = np.isin(values, range(TOKEN_BYTE + 1))
    _refuse("token_type", ~whole, values, f"a type from 0 to {TOKEN_BYTE}")
    return values.astype(np.int32)


def _refuse(
    name: str, is_wrong: npt.NDArray[np.bool_], values: npt.NDArray[Any], want: str
) -> None:
    """Raise TokenizerError naming the first entry that is wrong, if one is."""
    if is_wrong.any():
        at = int(is_wrong.argmax())
        raise TokenizerError(
            f"{KEY}{name}[{at}] is {values[at]:g}, not {want}.",
            hint="The file is damaged or was converted wrongly; fetch or convert it again.",
        )


def _repair_empty(tokens: Sequence[str]) -> tuple[list[str], dict[str, int]]:
    """Give empty tokens a text of their own; refuse tokens that appear twice."""
    named = [text or f"[EMPTY_{i}]" for i, text in enumerate(tokens)]
    ids: dict[str, int] = {}
    for i, text in enumerate(named):
        first = ids.setdefault(text, i)
        if first != i:
            raise TokenizerError(f"{KEY}tokens has {text!r} twice: ids {first} and {i}.")
    return named, ids


def _read_special(
    metadata: Mapping[str, Any], n_vocab: int, defaults: Mapping[str, int]
) -> dict[str, int]:
    special = {name: token_id for name, token_id in defaults.items() if token_id < n_vocab}
    for name in ("bos", "unknown", "padding", *END_KEYS):
        token_id = read_token_id(metadata, name)
        # Out-of-range ids occur in published files; the kind's default then stands.
        if token_id is not None and 0 <= token_id < n_vocab:
            special[name] = token_id
    return special


def _check_special_texts(tokens: Sequence[str], types: npt.NDArray[np.int32] | None) -> None:
    """Refuse special tokens as long as a page: text is searched for one of each length."""
    if types is None:
        return
    for i in np.flatnonzero((types >= TOKEN_UNKNOWN) & (types <= TOKEN_USER_DEFINED)).tolist():
        if len(tokens[i]) > MAX_SPECIAL_CHARS:
            raise TokenizerError(
                f"{KEY}tokens[{i}] is a special token of {len(tokens[i])} characters;"
                f" at most {MAX_SPECIAL_CHARS} are allowed.",
                hint="The file is damaged or was converted wrongly; fetch or convert it again.",
            )


def _find_ends(
    ids: Mapping[str, int],
    special: Mapping[str, int],
    types: npt.NDArray[np.int32] | None,
    tokens: Sequence[str],
) -> tuple[npt.NDArray[np.int32] | None, frozenset[int]]:
    """Ids that end generation; tokens known by their text become control tokens."""
    by_text = {text: ids[text] for text in END_TEXTS if text in ids}
    ends = {special[name] for name in END_KEYS if name in special} | set(by_text.values())
    keep: dict[str, int] = {}
    for pair in _HARMONY_ENDS:
        # There "<|end|>" separates messages of one reply.
        if "<|end|>" in by_text and pair <= by_text.keys():
            keep["<|end|>"] = TOKEN_USER_DEFINED
    if "<|tool_response>" in by_text and "</s>" in by_text:
        keep["</s>"] = TOKEN_NORMAL
    ends -= {by_text[text] for text in keep}
    if by_text:
        types = np.full(len(tokens), TOKEN_NORMAL, np.int32) if types is None else types.copy()
        types[list(by_text.values())] = TOKEN_CONTROL
        for text, token_type in keep.items():
            types[by_text[text]] = token_type
    return types, frozenset(ends)
