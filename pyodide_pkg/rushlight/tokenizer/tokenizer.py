"""The tokenizer of a model file: text to ids and back."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from ..errors import InvalidInputError, TokenizerError
from .bpe import BpeModel
from .detokenize import Detokenizer
from .pretokenize import find_pre_tokenizer
from .special import SpecialTokens
from .spm import SpmModel
from .vocab import (
    KEY,
    TOKEN_CONTROL,
    TOKEN_UNKNOWN,
    TOKEN_USER_DEFINED,
    Vocab,
    read_flag,
    read_text,
    read_token_id,
    read_vocab,
)
from .wordpiece import WordPieceModel

_LITERAL_TYPES = frozenset({TOKEN_UNKNOWN, TOKEN_CONTROL, TOKEN_USER_DEFINED})


class Tokenizer:
    """Text ↔ token ids for one vocabulary; make one with ``load_tokenizer``.

    ``bos_id`` and ``eos_id`` are None when the file has none; ``eos_ids`` holds every id that
    ends generation; ``add_bos`` and ``add_eos`` say what ``encode(add_special=True)`` adds.
    """

    def __init__(
        self,
        kind: str,
        vocab: Vocab,
        model: SpmModel | BpeModel | WordPieceModel,
        *,
        pre: str | None,
        add_bos: bool,
        add_eos: bool,
    ) -> None:
        self.kind = kind
        self.pre = pre
        self.n_vocab = vocab.n_vocab
        self.bos_id = vocab.special.get("bos")
        self.eos_id = vocab.special.get("eos")
        self.eos_ids = vocab.eos_ids
        self.add_bos = add_bos
        self.add_eos = add_eos
        self._vocab = vocab
        self._model = model
        self._strip_space = kind == "bert" or (kind == "llama" and vocab.add_space_prefix)
        self._bytes: dict[int, bytes] = {}

    def encode(self, text: str, add_special: bool = True, parse_special: bool = False) -> list[int]:
        """Token ids of ``text``.

        ``add_special`` adds begin/end tokens where the file asks for them. ``parse_special``
        reads control tokens such as ``<|im_start|>`` in the text as themselves: only for text
        that we wrote (chat templates), never for what a person typed. Lone surrogates become
        U+FFFD. Raises InvalidInputError for what is not text.
        """
        if not isinstance(text, str):
            raise InvalidInputError(f"What to encode is {type(text).__name__}, not text.")
        ids: list[int] = []
        if add_special and self.add_bos and self.bos_id is not None:
            ids.append(self.bos_id)
        finder = self._all_special if parse_special else self._user_defined
        starts_text = True
        for part in finder.split(_whole_code_points(text)):
            if isinstance(part, int):
                ids.append(part)
                starts_text = True
            else:
                ids.extend(self._model.encode(part, starts_text=starts_text))
                starts_text = False
        if add_special and self.add_eos and self.eos_id is not None:
            ids.append(self.eos_id)
        return ids

    def decode(self, ids: Iterable[int], skip_special: bool = False) -> str:
        """The text of ``ids``; invalid UTF-8 becomes U+FFFD.

        ``skip_special`` leaves out control tokens. Raises InvalidInputError for a bad id.
        """
        stream = self.detokenizer(skip_special)
        return "".join([*map(stream.push, ids), stream.flush()])

    def detokenizer(self, skip_special: bool = False, *, continues: bool = False) -> Detokenizer:
        """A streaming ``decode``.

        ``continues`` keeps a leading space that a vocabulary with a space prefix would lose: use
        it for generated tokens whose text follows other text.
        """
        strip_space = self._strip_space and not continues
        return Detokenizer(
            self.token_bytes, self.is_special if skip_special else _never, strip_space
        )

    def token_bytes(self, token_id: int) -> bytes:
        """The UTF-8 bytes of one token, maybe part of a code point; special tokens as text."""
        known = self._bytes.get(token_id)
        if known is not None:
            return known
        token_id = self._check_id(token_id)
        if self._vocab.type_of(token_id) in _LITERAL_TYPES:
            piece = self._vocab.tokens[token_id].encode("utf-8", "replace")
        else:
            piece = self._model.token_bytes(token_id)
        self._bytes[token_id] = piece
        return piece

    def token_text(self, token_id: int) -> str:
        """The token as the vocabulary spells it (space marks and byte letters included)."""
        return self._vocab.tokens[self._check_id(token_id)]

    def token_id(self, text: str) -> int | None:
        """The id of the token spelled ``text`` in the vocabulary, if there is one."""
        return self._vocab.ids.get(text)

    def is_special(self, token_id: int) -> bool:
        """Whether the token is a control or unknown token rather than text."""
        token_type = self._vocab.type_of(self._check_id(token_id))
        return token_type in (TOKEN_CONTROL, TOKEN_UNKNOWN)

    def _check_id(self, token_id: int) -> int:
        try:
            number = operator.index(token_id)
        except TypeError:
            raise InvalidInputError(f"Token id {token_id!r} is not a whole number.") from None
        if not 0 <= number < self.n_vocab:
            raise InvalidInputError(
                f"Token id {number} is outside the vocabulary (n_vocab = {self.n_vocab})."
            )
        return number

    @cached_property
    def _user_defined(self) -> SpecialTokens:
        return SpecialTokens(self._vocab.of_types(TOKEN_USER_DEFINED))

    @cached_property
    def _all_special(self) -> SpecialTokens:
        return SpecialTokens(self._vocab.of_types(*_LITERAL_TYPES))


def load_tokenizer(metadata: Mapping[str, Any], pre: str | None = None) -> Tokenizer:
    """The tokenizer that GGUF ``metadata`` (``tokenizer.ggml.*``) describes.

    ``pre`` overrides the file's pre-tokenizer name. Raises TokenizerError, naming the key, when a
    table is missing or mis-sized or when the kind or pre-tokenizer is unknown.
    """
    kind = read_text(metadata, "model")
    if kind == "llama":
        return _load_spm(metadata)
    if kind in ("gpt2", "gemma4"):
        return _load_bpe(metadata, kind, pre)
    if kind == "bert":
        return _load_wordpiece(metadata)
    if kind is None:
        raise TokenizerError(
            f"{KEY}model is missing, so the file has no tokenizer.",
            hint="Use a GGUF file that was converted with its tokenizer.",
        )
    raise TokenizerError(
        f"{KEY}model is {kind!r}, a kind of tokenizer that is not supported.",
        hint="Supported kinds: llama (SentencePiece-style), gpt2 (byte-level BPE), gemma4 (BPE "
        "over characters) and bert (WordPiece).",
    )


def _load_spm(metadata: Mapping[str, Any]) -> Tokenizer:
    if metadata.get(KEY + "scores") is None:
        raise TokenizerError(f"{KEY}scores is missing; a llama vocabulary cannot work without it.")
    vocab = read_vocab(metadata, defaults={"bos": 1, "eos": 2, "unknown": 0})
    add_bos = read_flag(metadata, "add_bos_token", default=True)
    add_eos = read_flag(metadata, "add_eos_token", default=False)
    return _checked(
        Tokenizer("llama", vocab, SpmModel(vocab), pre=None, add_bos=add_bos, add_eos=add_eos)
    )


def _load_wordpiece(metadata: Mapping[str, Any]) -> Tokenizer:
    """Files name the begin and end tokens of this kind in several ways, or not at all."""
    vocab = read_vocab(metadata, defaults={"bos": 101, "eos": 102, "unknown": 100})
    for name, keys in {"bos": ("cls",), "eos": ("seperator", "separator")}.items():
        for key in keys:  # GGUF spells the key of the separator "seperator"
            token_id = read_token_id(metadata, key)
            if token_id is not None and 0 <= token_id < vocab.n_vocab:
                vocab.special[name] = token_id
    lowercase = read_flag(metadata, "normalizer.lowercase", default=True)
    accents = read_flag(metadata, "normalizer.strip_accents", default=lowercase)
    model = WordPieceModel(vocab, lowercase=lowercase, strip_accents=accents)
    add_bos = read_flag(metadata, "add_bos_token", default=True)
    add_eos = read_flag(metadata, "add_sep_token", default=True)
    return _checked(Tokenizer("bert", vocab, model, pre=None, add_bos=add_bos, add_eos=add_eos))


def _load_bpe(metadata: Mapping[str, Any], kind: str, pre: str | None) -> Tokenizer:
    name = pre or ("gemma4" if kind == "gemma4" else read_text(metadata, "pre")) or "default"
    pre_tokenizer = find_pre_tokenizer(name)
    merges = metadata.get(KEY + "merges")
    if merges is None:
        raise TokenizerError(
            f"{KEY}merges is missing; a {kind} vocabulary cannot work without it.",
            hint="Convert the model again with its merges.",
        )
    if (
        not isinstance(merges, Sequence)
        or isinstance(merges, (str, bytes))
        or not set(map(type, merges)) <= {str}
    ):
        raise TokenizerError(f"{KEY}merges is not a list of texts.")
    vocab = read_vocab(metadata, defaults={})
    bos_by_name = pre_tokenizer.add_bos and "bos" in vocab.special
    add_bos = read_flag(metadata, "add_bos_token", default=bos_by_name)
    add_eos = read_flag(metadata, "add_eos_token", default=False)
    model = BpeModel(vocab, merges, pre_tokenizer)
    return _checked(Tokenizer(kind, vocab, model, pre=name, add_bos=add_bos, add_eos=add_eos))


def _checked(tokenizer: Tokenizer) -> Tokenizer:
    """Refuse a file that asks for a begin or end token without naming one."""
    for name, wanted, token_id in (
        ("bos", tokenizer.add_bos, tokenizer.bos_id),
        ("eos", tokenizer.add_eos, tokenizer.eos_id),
    ):
        if wanted and token_id is None:
            raise TokenizerError(
                f"{KEY}add_{name}_token is true, but {KEY}{name}_token_id is missing."
            )
    return tokenizer


def _whole_code_points(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _never(_token_id: int) -> bool:
    return False
