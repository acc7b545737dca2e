r"""Which pattern cuts text into words, by the name in ``tokenizer.ggml.pre``.

Each pattern is the one that the models' own ``tokenizer.json`` publishes, in the spelling of
``unicode_classes``; the names and what they imply are llama.cpp's. A family has one or more
steps: each cuts the words of the step before, and text between matches is kept as words too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_SPACES_LAST = r"\s+(?!\S)|\s+"
_ENGLISH = r"'(?:[sStTmMdD\p{longs}]|[rR][eE]|[vV][eE]|[lL][lL])"
"""Contractions in any case; without regard to case, the long s is an s too."""
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_LINES = r"\s*[\r\n]+"

_GPT2 = r"'(?:[stmd]|re|ve|ll)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|" + _SPACES_LAST
_LLAMA3 = "|".join([_ENGLISH, _WORD, r"\p{N}{1,3}", _SIGNS, _LINES, _SPACES_LAST])
_QWEN2 = _LLAMA3.replace("{1,3}", "")

_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def _cased(suffix: str, numbers: str, *, without: str = "", signs_end: str = r"[\r\n/]*") -> str:
    """Words that end before a capital: upper case letters, then lower case ones."""
    upper, lower = _UPPER, _LOWER
    if without:
        upper, lower = (part.replace("}", f"-{without}}}") for part in (upper, lower))
    lead = r"[^\r\n\p{L}\p{N}]?"
    words = [f"{lead}{upper}*{lower}+{suffix}", f"{lead}{upper}+{lower}*{suffix}"]
    signs = r" ?[^\s\p{L}\p{N}]+" + signs_end
    return "|".join([*words, numbers, signs, _LINES, _SPACES_LAST])


_GPT4O = _cased(f"(?:{_ENGLISH})?", r"\p{N}{1,3}")
_ASCII_SIGN = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"
_DEEPSEEK3 = "|".join(
    [
        _ASCII_SIGN + r"[A-Za-z]+",
        r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+",
        r" ?[\p{P}\p{S}]+[\r\n]*",
        _LINES,
        _SPACES_LAST,
    ]
)
_KANA_HAN = "一-龥぀-ゟ゠-ヿ"
_WORDS_BEFORE_COMMAS = r" ?[^(\s|.,!?\p{commas}]+"
_LINE_RUNS = r"[^\n]+|\n+"
_LONG_S = {"longs": "ſ"}


@dataclass(frozen=True)
class Family:
    """The steps of a pattern, and the classes of characters that are its own.

    The matches of step ``in_threes`` are cut into threes from their right end. Published patterns
    say that by looking ahead to the end of the number from each digit, which takes quadratic time.
    """

    steps: tuple[str, ...]
    extras: Mapping[str, str] = field(default_factory=dict)
    in_threes: int = -1


FAMILIES: Mapping[str, Family] = {
    "gpt-2": Family((_GPT2,)),
    "llama-bpe": Family((_LLAMA3,), _LONG_S),
    "qwen2": Family((_QWEN2,), _LONG_S),
    "qwen35": Family(
        (
            "|".join(
                [
                    _ENGLISH,
                    r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+",
                    r"\p{N}",
                    r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*",
                    _LINES,
                    _SPACES_LAST,
                ]
            ),
        ),
        _LONG_S,
    ),
    "smollm": Family((r"\p{N}", _GPT2)),
    "default": Family((r"[\p{P}$+<=>^~|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
    "falcon": Family((r"[\p{P}$+<=>^~|`]+", _GPT2, "[0-9][0-9][0-9]")),
    "tekken": Family((_cased("", r"\p{N}"),)),
    "gpt-4o": Family((_GPT4O,), _LONG_S),
    "tiny_aya": Family(
        (r"(?<!\d)\d++(?![\p{L}\p{M}\p{N}_\p{connectors}])", _GPT4O),
        {**_LONG_S, "connectors": "‿⁀⁔︳︴﹍-﹏＿"},
        in_threes=0,
    ),
    "kimi-k2": Family(
        (
            r"[\p{Han}]+|"
            + _cased(f"(?:{_ENGLISH})?", r"\p{N}{1,3}", without="Han", signs_end=r"[\r\n]*"),
        ),
        {
            **_LONG_S,
            "Han": "⺀-⺙⺛-⻳⼀-⿕々〇〡-〩〸-〻㐀-䶿一-鿿\uf900-\ufa6d\ufa70-\ufad9𖿢𖿣𖿰𖿱"
            "\U00020000-\U0002a6df\U0002a700-\U0002b739\U0002b740-\U0002b81d"
            "\U0002b820-\U0002cea1\U0002ceb0-\U0002ebe0\U0002ebf0-\U0002ee5d"
            "\U0002f800-\U0002fa1d\U00030000-\U0003134a\U00031350-\U000323af",
        },
    ),
    "deepseek-v3": Family((r"\p{N}{1,3}", r"\p{kana}+", _DEEPSEEK3), {"kana": _KANA_HAN}),
    "spark2_5": Family(
        (
            r"\p{N}{1,3}",
            r"\p{kana}+",
            _DEEPSEEK3.replace(r"[\p{P}\p{S}]+[\r\n]*", r"[\p{P}\p{S}]+").replace(
                _LINES, r"[\r\n]"
            ),
            r"\p{N}",
        ),
        {"kana": _KANA_HAN},
    ),
    "deepseek-coder": Family(
        (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"\p{east}+", r"\p{N}"),
        {"east": "一-龥ࠀ-一가-\ud7ff"},
    ),
    "deepseek-llm": Family(
        (
            r"[\r\n]",
            r"\s?[A-Za-z\p{cased}]+",
            r"\s?[!-/:-~\p{marks}]+",
            r"\s+\Z",
            r"\p{east}+",
            r"\p{N}+",
        ),
        {
            "cased": "µÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚ"
            "Ḁ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝ\u1f5f-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌ\u1fd0-\u1fd3\u1fd6-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄ"
            "Ⰰ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃",
            "marks": "！-／：-～‘-‟　-。",
            "east": "一-龥ࠀ-一가-\ud7ff",
        },
    ),
    "youtu": Family(
        (
            r"\p{korean}+|\p{signs}+|\p{bopomofo}+|\p{kana}+",
            _cased(f"(?:{_ENGLISH})?", r"\p{N}"),
        ),
        {
            **_LONG_S,
            "korean": "가-힣ㄱ-ㆎ",
            "signs": "！…“”‘’—：；，、-〿︰-﹏",
            "bopomofo": "ㄅ-ㄯ",
            "kana": _KANA_HAN,
        },
    ),
    "bloom": Family((_WORDS_BEFORE_COMMAS,), {"commas": "…。，、।۔،"}),
    "viking": Family((_WORDS_BEFORE_COMMAS, r"\p{N}"), {"commas": "…。，、।۔،"}),
    "chameleon": Family(
        (
            "<sentinel:[0-9]+>",
            "IMGIMG[A-I]{1,4}Z",
            r"[\t\n]|    |  ",
            r"\p{N}",
            r"[\p{P}!-/:-@\[-`{-~]",
            _GPT2,
        )
    ),
    "superbpe": Family((r"\p{N}+", r"(?=(?:\d{3})++(?!\d))")),
    "bailingmoe": Family((_QWEN2.replace(_LINES, r"\s*[\r\n]"),), _LONG_S),
    "seed-coder": Family(
        (_QWEN2.replace(_SIGNS, r" ?[^\s\p{L}\p{N}\r\n]+"),),
        _LONG_S,
    ),
    "ufakzeka": Family((_QWEN2.removeprefix(_ENGLISH + "|"),)),
    "jais-2": Family(
        (
            _LLAMA3.removesuffix(_SPACES_LAST)
            + "|".join(rf"\s{{{n}}}(?!\S)" for n in ("512", "256", "128", "64", "32", "16", "8"))
            + r"|\s{4}(?!\S)|\s{1,2}(?!\S)|\s",
        ),
        _LONG_S,
    ),
    "afmoe": Family(
        (r"\p{N}+", r"\p{asian}+", _DEEPSEEK3),
        {
            "asian": "一-鿿㐀-䶿\uf900-\ufaff぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-\u0e7f\u0e80-\u0eff"
            "ក-\u17ffက-႟ꩠ-ꩿꧠ-꧿가-\ud7afᄀ-ᇿ"
        },
        in_threes=0,
    ),
    "exaone-moe": Family(
        (
            "|".join(
                [
                    _ENGLISH,
                    r"[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+",
                    r"\p{N}",
                    r" ?[^\s\p{L}\p{N}]+[\r\n/]?",
                    r"\s*[\r\n]",
                    _SPACES_LAST,
                ]
            ),
        ),
        _LONG_S,
    ),
    "minicpm5": Family((r"\p{N}{1,3}", _LLAMA3.replace("{1,3}", "+")), _LONG_S),
    "laguna": Family((_LINE_RUNS, _QWEN2), _LONG_S),
    "lines": Family((_LINE_RUNS,)),
    "whitespace": Family((r"\S+",)),
}

_NAMES = {
    "default": "default",
    "gpt-2": "gpt-2 phi-2 mpt olmo jais exaone4 trillion granite-docling mellum modern-bert "
    "gigachat a.x-4.0 jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code roberta-bpe",
    "llama-bpe": "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano "
    "dbrx smaug-bpe glm4 chatglm-bpe",
    "qwen2": "qwen2 stablelm2 deepseek-r1-qwen hunyuan solar-open megrez kormo f2llmv2 grok-2",
    "smollm": "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2",
    "deepseek-v3": "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
    "gpt-4o": "gpt-4o llama4 kanana2 talkie minimax-m2 granite-embed-multi-97m",
    "tiny_aya": "tiny_aya cohere2moe",
    "bailingmoe": "bailingmoe bailingmoe2 llada-moe",
    "bloom": "bloom poro-chat gpt3-finnish",
    "lines": "gemma4 granite-embed-multi-311m sarvam-moe",
}
FAMILY_OF: Mapping[str, str] = {
    **{name: name for name in FAMILIES if name != "lines"},
    **{name: family for family, names in _NAMES.items() for name in names.split()},
}

_LLAMA3_NAMES = frozenset(
    "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano".split()
)
WHOLE_WORDS = _LLAMA3_NAMES | {"tekken", "minicpm5", "youtu", "granite-embed-multi-97m"}
"""Names whose vocabularies take a word that is a token whole, before any merge."""
ADDS_BOS = _LLAMA3_NAMES | {"tekken", "chameleon", "gemma4", "granite-embed-multi-311m"}
"""Names that begin a text with the begin token where the file does not say."""
SPACE_MARKS = frozenset(_NAMES["lines"].split())
"""Names whose merges run over characters with U+2581 for a space, as in SentencePiece."""
RAW_TEXT = SPACE_MARKS | {"whitespace"}
"""Names whose symbols are characters rather than the byte alphabet; others are ``<0xAB>``."""
