"""Freeze tokenizer test data: small vocabularies with the ids a reference gives for nasty text.

    python -m tests.tools.make_tokenizer_vectors [GEMMA_GGUF]

Writes to tests/data/tokenizers:

- ``bpe-<pre>.json.gz``: a byte-level BPE vocabulary trained here with Hugging Face ``tokenizers``
  (Apache-2.0) on the text below, cut by the pattern published for that family, with the ids that
  ``tokenizers`` gives. Qwen2's NFC normalisation is left out: GGUF files do not ask for it.
- ``bpe-gemma4.json.gz``: the same over characters instead of bytes.
- ``wordpiece-cased.json.gz``, ``wordpiece-uncased.json.gz``: WordPiece vocabularies.
- ``classes.json.gz``: the class (kind of letter, mark, kind of number, punctuation, symbol, space)
  that the pattern engine of ``tokenizers`` gives to every code point, as runs.
- ``spm-gemma3.json.gz`` (only with a Gemma 3 file): the tokens of its vocabulary that occur in
  the texts of tests/data/gemma3-270m.json. No other token can take part in encoding them, so
  the ids llama.cpp gave for the whole vocabulary must come out. The same for the texts below,
  whose ids come from llama.cpp by way of node-llama-cpp.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from tests.tools.published_patterns import PATTERNS, WHOLE_WORDS

DATA = Path(__file__).resolve().parents[1] / "data"
OUT = DATA / "tokenizers"
CONTROL, USER_DEFINED = 3, 4
N_VOCAB = 480

TRAINING = """
Once upon a time there was a tokenizer that didn't know where words end. It's, they're, we've,
I'm, you'll, he'd: contractions everywhere, and CAN'T SHOUT either. Numbers like 7, 42, 365, 1984,
10000 and 3.14159 came in threes or one by one. Le cœur a ses raisons que la raison ne connaît
point; über den Wolken muß die Freiheit wohl grenzenlos sein; ¿dónde está la biblioteca?
Широка страна моя родная, много в ней лесов, полей и рек. Η γλώσσα είναι το σπίτι του είναι.
我们从来不知道一个词在哪里结束。 日本語の文章には空白がありません。 한국어 문장은 띄어쓰기가 있습니다.
في البدء كانت الكلمة. בראשית ברא אלהים. हिन्दी में संयुक्ताक्षर होते हैं। ภาษาไทยไม่มีช่องว่าง
def encode(self, text: str) -> list[int]:
    return [self.vocab[piece] for piece in self.split(text) if piece != ""]  # a comment
for (let i = 0; i < 100; i++) { console.log(`${i}: ${i * i}`); }
<html><body class="x">&nbsp;</body></html> SELECT * FROM t WHERE a >= 10 AND b <> 'c';
😀😃😄 👍🏽 👩‍👩‍👧 🇫🇷 → ≤ ≥ € £ ½ ² Ⅷ ٣٤٥ １２３
"""

NASTY = [
    "",
    " ",
    "  ",
    "\n",
    "\r\n\r\n",
    " \n \n  x",
    "\t\tindent\n\t\t\tmore",
    "trailing   ",
    "   leading",
    "a  b   c    d",
    "Hello, world! It's 'quoted' and they'RE we'Ve I'M you'LL he'D 'tis o'clock''s",
    "'s't're've'm'll'd 'S'T'RE'VE'M'LL'D ' s",
    "1 12 123 1234 12345 1234567890 3.14 1,000,000 0x1F 1e-5 ١٢٣٤ १२३ １２３４ ½ ² Ⅷ ㊿ 一二三",
    "naïve café coöperate Straße ÆØÅ ǅ ﬁ e\u0301 n\u0303 a\u0308\u0323 \u0301alone",
    "中文没有空格，标点在这里。「引用」２０２４年",
    "日本語のテキスト、カタカナとひらがな。ｶﾀｶﾅ",
    "한국어 텍스트 각 \u1100\u1161\u11a8 \u1112\u1161\u11ab",
    "العربية لا تعرف 123 بداية ١٢٣ וגם עברית\u200f\u200e.",
    "हिन्दी क्षत्रिय தமிழ் ภาษาไทย ខ្មែរ မြန်မာ",
    "👩‍👩‍👧‍👦 👍🏽 🇫🇷🇩🇪 ❤️ 🏴\U000e0067\U000e0062\U000e007f 😀text😀",
    "def f(x):\n    if x>=10 and x!=0:\n        return x**2  # done\n\n\n\treturn None\r\n",
    '#include <stdio.h>\nint main(void){printf("%d\\n",1);}//x',
    "https://example.org/a_b-c?d=e&f=%20g#h user@example.com C:\\path\\file.txt",
    "nbsp\u00a0here \u00a0 thin\u2009space ideographic\u3000space\u3000\u3000x ogham\u1680x",
    "line\u2028separator\u2029paragraph\x85next\x0bvertical\x0cform",
    "control \x00\x01\x02\x1b[0m \x1c\x1d\x1e\x1f \x7f \x80\x9f soft\u00adhyphen zero\u200bwidth",
    "bom\ufeffinside replacement\ufffd private\ue000\U0010fffd unassigned\u0378\U000e0080",
    "____ ---- **** ==== ~~~~ ```` ^^^^ $$$$ ++++ |||| <<<>>> «»„“”‘’ … – — ‽ ·",
    "€100 £5 ¥20 ₿ ∑∫√∞≈≠ ←→⇒ ©®™ °C ¬ ¦ §",
    "\U0001d54f\U0001d7d8 \U00020000\U0002a6d6 \U00010330 \U0001f600\u20e3 a\U000e0100",
    "mixed123abc456 abc123 a1b2c3 1st 2nd x² H₂O v1.2.3-rc4",
    "\n\n\n\nmany\n\n\nnewlines \n \n\t\n end\n",
    "the the  the   the\n the\n\nthe",
    "CamelCaseWORDSInOneÉcoleHTMLParser ÜberGROẞ iPhone15Pro ǅungla aBcD EFGh",
    "he'\u017f it'\u017fS <sentinel:12> IMGIMGABCZ IMGIMGabZ 1234567 123456 0123456789012 a1234567b",
    "豈更\uf900\ufa6d 〆々〇 ㄅㄆㄇ ㄱㄴ 뢰 ｱｲ ຂ້ອຍ ភាសា မြန် ꧠ ‿ ＿ 12\u203f345",
    "I\u2019m curly\u2019s don\u2018t",
]

SPECIAL = ["<|begin|>", "<|im_start|>", "<|im_end|>"]
ADDED = ["<tool>", "</tool>", "    "]
WITH_SPECIAL = [
    "<|begin|><|im_start|>user\nHi!<|im_end|>\n<|im_start|>assistant\n",
    "a<|im_end|>b <|im_end|> c<|im_end",
    '<tool>{"x": 1}</tool>    indented        twice',
]


def random_texts(count: int = 40) -> list[str]:
    """Text drawn from all sorts of characters, the same on every run."""
    rng = random.Random(20240229)
    pools = [
        "abcdefgh TSMD'srevl",
        "0123456789 ²½Ⅷ٣१",
        " \t\n\r\x0b\u00a0\u2003\u3000\u2028",
        ".,;:!?-_()[]{}<>$+=^~|`@#%&*/\\\"'",
        "éñüßžд文かカ한عע\u0301\u0308\u200d\ufe0f😀👍🏽€→",
    ]
    texts = []
    for _ in range(count):
        parts = []
        for _ in range(rng.randint(5, 40)):
            pool = rng.choice(pools)
            parts.append("".join(rng.choice(pool) for _ in range(rng.randint(1, 5))))
        texts.append("".join(parts))
    return texts


def pre_tokenizer_of(name: str) -> Any:
    """The pre-tokenizer as the family's tokenizer.json has it."""
    steps: list[Any] = [
        pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in PATTERNS[name]
    ]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([*steps, byte_level])


def make_bpe(name: str) -> dict[str, Any]:
    """Train one vocabulary and record what the reference does with the texts."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=name in WHOLE_WORDS))
    tokenizer.pre_tokenizer = pre_tokenizer_of(name)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=N_VOCAB, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([TRAINING, *NASTY[::2], TRAINING], trainer)
    if name in WHOLE_WORDS:
        add_whole_words(tokenizer)
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in SPECIAL])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in ADDED])
    n_vocab = tokenizer.get_vocab_size()
    tokens = [tokenizer.id_to_token(i) for i in range(n_vocab)]
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    types = [CONTROL if t in SPECIAL else USER_DEFINED if t in ADDED else 1 for t in tokens]
    plain = [*NASTY, *random_texts()]
    return {
        "source": f"trained with Hugging Face tokenizers {tokenizers.__version__}",
        "metadata": {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": name,
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": types,
            "tokenizer.ggml.merges": [" ".join(pair) for pair in merges],
            "tokenizer.ggml.bos_token_id": tokens.index("<|begin|>"),
            "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
            "tokenizer.ggml.add_bos_token": False,
        },
        "cases": [[text, tokenizer.encode(text).ids] for text in [*plain, *WITH_SPECIAL]],
    }


def make_marked_bpe() -> dict[str, Any]:
    """A BPE vocabulary over characters with U+2581 for a space, as Gemma 4 has it."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[^\n]+|[\n]+"), behavior="isolated")
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        limit_alphabet=120,
        max_token_length=8,
        show_progress=False,
        special_tokens=["<pad>", "<eos>", "<bos>", "<unk>", *byte_tokens],
    )
    # Whole lines would become tokens of few texts; words with their mark make a fairer table.
    tokenizer.train_from_iterator(re.findall(r" ?\S+|\s+", TRAINING), trainer)
    document = json.loads(tokenizer.to_str())
    vocab = document["model"]["vocab"]
    tokens = sorted(vocab, key=vocab.__getitem__)
    merges = document["model"]["merges"]
    model = models.BPE(
        vocab=vocab,
        merges=[tuple(pair) for pair in merges],
        unk_token="<unk>",
        byte_fallback=True,
        fuse_unk=True,
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    types = [6 if t in byte_tokens else CONTROL if t in tokens[:3] else 1 for t in tokens]
    types[3] = 2
    return {
        "source": f"trained with Hugging Face tokenizers {tokenizers.__version__}",
        "metadata": {
            "tokenizer.ggml.model": "gemma4",
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": types,
            "tokenizer.ggml.merges": [" ".join(pair) for pair in merges],
            "tokenizer.ggml.bos_token_id": 2,
            "tokenizer.ggml.eos_token_id": 1,
            "tokenizer.ggml.unknown_token_id": 3,
            "tokenizer.ggml.add_bos_token": False,
        },
        "cases": [[text, tokenizer.encode(text).ids] for text in [*NASTY, *random_texts()]],
    }


def make_wordpiece(*, is_cased: bool) -> dict[str, Any]:
    """A WordPiece vocabulary, with or without case, as BERT has them."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=not is_cased)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=500, limit_alphabet=110, special_tokens=special, show_progress=False
    )
    tokenizer.train_from_iterator([TRAINING], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokens = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    # The converter of llama.cpp marks word starts instead of continuations.
    spelled = [
        t if t in special else t[2:] if t.startswith("##") and len(t) > 2 else "\u2581" + t
        for t in tokens
    ]
    return {
        "source": f"trained with Hugging Face tokenizers {tokenizers.__version__}",
        "metadata": {
            "tokenizer.ggml.model": "bert",
            "tokenizer.ggml.tokens": spelled,
            "tokenizer.ggml.token_type": [CONTROL if t in special else 1 for t in tokens],
            "tokenizer.ggml.cls_token_id": 2,
            "tokenizer.ggml.seperator_token_id": 3,
            "tokenizer.ggml.unknown_token_id": 1,
            "tokenizer.ggml.normalizer.lowercase": not is_cased,
        },
        "cases": [[text, tokenizer.encode(text).ids] for text in [*NASTY, *random_texts()]],
    }


def add_whole_words(tokenizer: Tokenizer) -> None:
    """Words that no merge reaches, so that taking whole words first shows."""
    document = json.loads(tokenizer.to_str())
    vocab = document["model"]["vocab"]
    for word in ("Ġtokenizer!", "Ġunreachable", "Hello", "Ġworld", "中文没有空格"):
        chars = word if "Ġ" in word or word.isascii() else byte_letters(word)
        vocab.setdefault(chars, len(vocab))
    model = models.BPE(
        vocab=vocab,
        merges=[tuple(pair) for pair in document["model"]["merges"]],
        ignore_merges=True,
    )
    tokenizer.model = model


def byte_letters(word: str) -> str:
    """A word in the byte alphabet."""
    pieces = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return "".join(piece for piece, _ in pieces.pre_tokenize_str(word))


def make_classes() -> dict[str, Any]:
    """Runs of equal class over all code points, as the reference's pattern engine sees them."""
    classes = ["-"] * 0x110000
    groups = {
        "U": r"[\p{Lu}\p{Lt}]", "l": r"\p{Ll}", "o": r"[\p{Lm}\p{Lo}]", "M": r"\p{M}",
        "d": r"\p{Nd}", "n": r"[\p{Nl}\p{No}]", "P": r"\p{P}", "Y": r"\p{S}", "S": r"\s",
    }  # fmt: skip
    for name, pattern in groups.items():
        removed = pre_tokenizers.Split(Regex(pattern), behavior="removed")
        for base in range(0, 0x110000, 0x800):
            if 0xD800 <= base < 0xE000:
                continue
            block = "".join(map(chr, range(base, base + 0x800)))
            kept = {i for _, (a, b) in removed.pre_tokenize_str(block) for i in range(a, b)}
            for i in range(0x800):
                if i not in kept:
                    classes[base + i] = name
    starts = [i for i in range(0x110000) if i == 0 or classes[i] != classes[i - 1]]
    return {
        "source": f"Hugging Face tokenizers {tokenizers.__version__}",
        "runs": [[start, classes[start]] for start in starts],
    }


def make_gemma(path: str) -> dict[str, Any]:
    """The part of Gemma's vocabulary that the texts with known ids can touch."""
    from gguf import GGUFReader

    fields = GGUFReader(path).fields
    metadata = {
        key: field.contents() for key, field in fields.items() if key.startswith("tokenizer.ggml.")
    }
    texts = json.loads((DATA / "gemma3-270m.json").read_text(encoding="utf-8"))["items"]
    nasty = [*NASTY, *random_texts()]
    joined = "\0".join([*(item["text"] for item in texts), *nasty])
    joined += "\0" + joined.replace(" ", "\u2581")
    tokens = metadata["tokenizer.ggml.tokens"]
    types = metadata["tokenizer.ggml.token_type"]
    named = {"<bos>", "<eos>", "<unk>", "<pad>", "<start_of_turn>", "<end_of_turn>"}
    kept = [
        i for i, token in enumerate(tokens) if token in joined or types[i] == 6 or token in named
    ]
    new_id = {old: new for new, old in enumerate(kept)}
    for key in ("tokens", "scores", "token_type"):
        values = metadata["tokenizer.ggml." + key]
        metadata["tokenizer.ggml." + key] = [values[i] for i in kept]
    for key in [key for key in metadata if key.endswith("_token_id")]:
        metadata[key] = new_id[metadata[key]]
    return {
        "source": "the tokens of Gemma 3 that occur in gemma3-270m.json, with their ids there, and "
        "in texts of this generator, with the ids that llama.cpp (node-llama-cpp) gives",
        "metadata": metadata,
        "ids": kept,
        "cases": list(zip(nasty, llama_cpp_ids(path, nasty), strict=True)),
    }


def llama_cpp_ids(model: str, texts: list[str]) -> list[list[int]]:
    """The ids that llama.cpp gives with the model's whole vocabulary."""
    from tests.tools.peers import llama_cpp

    folder = llama_cpp.install()
    script = Path(llama_cpp.__file__).with_name("llama_tokenize.mjs")
    there = shutil.copy(script, folder)  # node looks for modules beside the script
    answer = subprocess.run(
        ["node", there, model], input=json.dumps(texts), capture_output=True, text=True, check=True
    )
    ids: list[list[int]] = json.loads(answer.stdout)
    return ids


def write(name: str, document: dict[str, Any]) -> None:
    """Write compact JSON, gzipped without a time stamp so that runs give equal files."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    path = OUT / f"{name}.json.gz"
    path.write_bytes(gzip.compress(text.encode("utf-8"), mtime=0))
    print(f"{path.name}: {path.stat().st_size} bytes")


def main() -> None:
    """Write all files; Gemma's only when its file is given."""
    OUT.mkdir(parents=True, exist_ok=True)
    for name in PATTERNS:
        write(f"bpe-{name}", make_bpe(name))
    write("bpe-gemma4", make_marked_bpe())
    for name in ("cased", "uncased"):
        write(f"wordpiece-{name}", make_wordpiece(is_cased=name == "cased"))
    write("classes", make_classes())
    if len(sys.argv) > 1:
        write("spm-gemma3", make_gemma(sys.argv[1]))


if __name__ == "__main__":
    main()
