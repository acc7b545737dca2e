"""Freeze tokenizer test data: small vocabularies with the ids a reference gives for nasty text.

    python tests/tools/make_tokenizer_vectors.py [GEMMA_GGUF]

Writes to tests/data/tokenizers:

- ``bpe-<pre>.json.gz``: a byte-level BPE vocabulary trained here with Hugging Face ``tokenizers``
  (Apache-2.0) on the text below, cut by the pattern published for that family, with the ids that
  ``tokenizers`` gives. Qwen2's NFC normalisation is left out: GGUF files do not ask for it.
- ``classes.json.gz``: the class (letter, number, punctuation, space) that the pattern engine of
  ``tokenizers`` gives to every code point, as runs.
- ``spm-gemma3.json.gz`` (only with a Gemma 3 file): the tokens of its vocabulary that occur in
  the texts of tests/data/gemma3-270m.json. No other token can take part in encoding them, so
  the ids llama.cpp gave for the whole vocabulary must come out.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

DATA = Path(__file__).resolve().parents[1] / "data"
OUT = DATA / "tokenizers"
CONTROL, USER_DEFINED = 3, 4
N_VOCAB = 640

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

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
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)

    def split(pattern: str) -> Any:
        return pre_tokenizers.Split(Regex(pattern), behavior="isolated")

    steps = {
        "llama-bpe": [split(LLAMA3), byte_level],
        "qwen2": [split(QWEN2), byte_level],
        "gpt-2": [gpt2],
        "smollm": [pre_tokenizers.Digits(individual_digits=True), gpt2],
        "default": [
            split(r"[\p{P}\$\+<=>\^~\|]+"),
            split(GPT2),
            split(r"\p{N}+"),
            split("[0-9][0-9][0-9]"),
            byte_level,
        ],
    }
    return pre_tokenizers.Sequence(steps[name])


def make_bpe(name: str) -> dict[str, Any]:
    """Train one vocabulary and record what the reference does with the texts."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=name == "llama-bpe"))
    tokenizer.pre_tokenizer = pre_tokenizer_of(name)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=N_VOCAB, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([TRAINING, *NASTY[::2], TRAINING], trainer)
    if name == "llama-bpe":
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
    for pattern, name in ((r"\p{L}", "L"), (r"\p{N}", "N"), (r"\p{P}", "P"), (r"\s", "S")):
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
    joined = "\0".join(item["text"] for item in texts)
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
        "source": "the tokens of Gemma 3 that occur in gemma3-270m.json, with their ids there",
        "metadata": metadata,
        "ids": kept,
    }


def write(name: str, document: dict[str, Any]) -> None:
    """Write compact JSON, gzipped without a time stamp so that runs give equal files."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    path = OUT / f"{name}.json.gz"
    path.write_bytes(gzip.compress(text.encode("utf-8"), mtime=0))
    print(f"{path.name}: {path.stat().st_size} bytes")


def main() -> None:
    """Write all files; Gemma's only when its file is given."""
    OUT.mkdir(parents=True, exist_ok=True)
    for name in ("default", "gpt-2", "llama-bpe", "qwen2", "smollm"):
        write(f"bpe-{name}", make_bpe(name))
    write("classes", make_classes())
    if len(sys.argv) > 1:
        write("spm-gemma3", make_gemma(sys.argv[1]))


if __name__ == "__main__":
    main()
