"""Tiny but valid vocabularies: SentencePiece-style (`llama`) and byte-level BPE (`gpt2`)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from gguf import GGUFWriter, TokenType

CORPUS = (
    "the rushlight gave a small steady light and the people of the house read by it in the evening "
    "there is nothing that the wind can do to the light when the door of the house is shut and "
    "then the reader turns another page and the rain on the roof is heard no more than that "
    "a good book and a low flame were company enough for any long winter night in those old days "
    "when rushes cut from the meadow were peeled and dipped in kitchen fat to burn until midnight"
)

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
    "message['content'] + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


@dataclass(frozen=True)
class Vocab:
    """What the `tokenizer.ggml.*` keys of one file say."""

    model: str
    pre: str
    tokens: list[str]
    types: list[TokenType]
    special: dict[str, int]  # "bos" | "eos" | "eot" | "unk" | "pad" -> id
    add_bos: bool
    scores: list[float] = field(default_factory=list)
    merges: list[str] = field(default_factory=list)
    add_space_prefix: bool | None = None
    chat_template: str | None = None

    def plain_ids(self) -> list[int]:
        """Ids that a prompt of ordinary text could hold."""
        return [i for i, kind in enumerate(self.types) if kind == TokenType.NORMAL]

    def stop_ids(self) -> set[int]:
        """Ids that end a reply."""
        return {self.special[name] for name in ("eos", "eot") if name in self.special}


def byte_symbols() -> list[str]:
    """The printable stand-in of each byte in byte-level BPE."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    table = {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}
    return [table[b] for b in range(256)]


def learn_merges(space: str, n_pieces: int) -> list[tuple[str, str]]:
    """Most frequent adjacent pairs of CORPUS, words led by `space`, in order of merging."""
    words = [[space, *word] for word in CORPUS.split()]
    merges: list[tuple[str, str]] = []
    made: set[str] = set()
    while len(made) < n_pieces:
        pairs = Counter(pair for word in words for pair in pairwise(word))
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        made.add("".join(best))
        for word in words:
            i = 0
            while i < len(word) - 1:
                if (word[i], word[i + 1]) == best:
                    word[i : i + 2] = ["".join(best)]
                i += 1
    return merges


def _spm(head: list[tuple[str, TokenType]], n_vocab: int, **kwargs: object) -> Vocab:
    entries = [*head, *((f"<0x{b:02X}>", TokenType.BYTE) for b in range(256))]
    letters = [symbol for symbol, _ in Counter("▁".join(CORPUS.split())).most_common(12)]
    merged = dict.fromkeys("".join(pair) for pair in learn_merges("▁", 150))
    pieces = [piece for piece in merged if set(piece) <= {*letters}]
    # SentencePiece writes merged pieces first, best score first, then the single characters.
    plain = [*pieces[: n_vocab - len(entries) - len(letters)], *letters]
    entries += [(piece, TokenType.NORMAL) for piece in plain]
    scores = [0.0] * (len(entries) - len(plain)) + [-float(i) for i in range(len(plain))]
    assert len(entries) == n_vocab
    tokens, types = [text for text, _ in entries], [kind for _, kind in entries]
    return Vocab("llama", "default", tokens, types, scores=scores, **kwargs)  # type: ignore[arg-type]


def _bpe(pre: str, n_vocab: int, controls: list[str], **kwargs: object) -> Vocab:
    n_pieces = n_vocab - 256 - len(controls)
    merges = learn_merges("Ġ", n_pieces)
    pieces = dict.fromkeys("".join(pair) for pair in merges)
    tokens = [*byte_symbols(), *pieces, *controls]
    types = [TokenType.NORMAL] * (256 + n_pieces) + [TokenType.CONTROL] * len(controls)
    assert len(tokens) == n_vocab == len(set(tokens))
    special = {name: tokens.index(text) for name, text in kwargs.pop("named").items()}  # type: ignore[attr-defined]
    lines = [" ".join(pair) for pair in merges]
    return Vocab("gpt2", pre, tokens, types, special, merges=lines, **kwargs)  # type: ignore[arg-type]


def make_vocab(kind: str) -> Vocab:
    """The vocabulary named `kind`: llama | gemma | llama3 | qwen2 | qwen2-chat."""
    control = TokenType.CONTROL
    if kind == "llama":
        head = [("<unk>", TokenType.UNKNOWN), ("<s>", control), ("</s>", control)]
        return _spm(head, 291, special={"unk": 0, "bos": 1, "eos": 2}, add_bos=True)
    if kind == "gemma":
        names = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
        special = {"pad": 0, "eos": 1, "bos": 2, "unk": 3, "eot": 5}
        head = [(name, control) for name in names]
        return _spm(head, 291, special=special, add_bos=True, add_space_prefix=False)
    if kind == "llama3":
        names = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"]
        named = dict(zip(("bos", "eos", "eot"), names, strict=True))
        return _bpe("llama-bpe", 391, names, named=named, add_bos=True)
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    named = {"bos": names[0], "pad": names[0], "eos": names[0], "eot": names[2]}
    template = CHATML if kind == "qwen2-chat" else None
    return _bpe("qwen2", 299, names, named=named, add_bos=False, chat_template=template)


def write_vocab(writer: GGUFWriter, vocab: Vocab) -> None:
    """Write the `tokenizer.*` keys."""
    writer.add_tokenizer_model(vocab.model)
    writer.add_tokenizer_pre(vocab.pre)
    writer.add_token_list(vocab.tokens)
    if vocab.scores:
        writer.add_token_scores(vocab.scores)
    writer.add_token_types(vocab.types)
    if vocab.merges:
        writer.add_token_merges(vocab.merges)
    adders = {
        "bos": writer.add_bos_token_id,
        "eos": writer.add_eos_token_id,
        "eot": writer.add_eot_token_id,
        "unk": writer.add_unk_token_id,
        "pad": writer.add_pad_token_id,
    }
    for name, token_id in vocab.special.items():
        adders[name](token_id)
    writer.add_add_bos_token(vocab.add_bos)
    if vocab.add_space_prefix is not None:
        writer.add_add_space_prefix(vocab.add_space_prefix)
    if vocab.chat_template:
        writer.add_chat_template(vocab.chat_template)
