"""The split patterns of byte-level BPE families, as their tokenizer.json publishes them.

In the syntax of the pattern engine of Hugging Face tokenizers; the engine's own translation of
them is ``rushlight.tokenizer.patterns``, and the frozen ids hold the two together.
"""

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s+(?!\S)|\s+"
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
LEAD = r"[^\r\n\p{L}\p{N}]?"
DEEPSEEK3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
    r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|" + SPACES
)
KANA_HAN = "[一-龥぀-ゟ゠-ヿ]+"
EAST = "[一-龥ࠀ-一가-\ud7ff]+"
CASED = (
    "[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚ"
    "Ḁ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝ\u1f5f-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌ\u1fd0-\u1fd3\u1fd6-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄ"
    "Ⰰ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"
)


def cased(suffix: str, numbers: str, but: str = "", signs_end: str = r"[\r\n/]*") -> str:
    """The words-before-capitals pattern of GPT-4o, Tekken and their kin."""
    upper, lower = f"[{UPPER}{but}]", f"[{LOWER}{but}]"
    return (
        f"{LEAD}{upper}*{lower}+{suffix}|{LEAD}{upper}+{lower}*{suffix}|{numbers}|"
        rf" ?[^\s\p{{L}}\p{{N}}]+{signs_end}|\s*[\r\n]+|" + SPACES
    )


GPT4O = cased(CONTRACTIONS + "?", r"\p{N}{1,3}")

# The split patterns of each family, as its tokenizer.json publishes them.
PATTERNS = {
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "gpt-2": [GPT2],
    "llama-bpe": [LLAMA3],
    "qwen2": [QWEN2],
    "smollm": [r"\p{N}", GPT2],
    "qwen35": [
        CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|"
        r"\s*[\r\n]+|" + SPACES
    ],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
    "tekken": [cased("", r"\p{N}")],
    "gpt-4o": [GPT4O],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O],
    "kimi-k2": [
        r"[\p{Han}]+|"
        + cased(CONTRACTIONS + "?", r"\p{N}{1,3}", but=r"&&[^\p{Han}]", signs_end=r"[\r\n]*")
    ],
    "deepseek-v3": [r"\p{N}{1,3}", KANA_HAN, DEEPSEEK3],
    "spark2_5": [
        r"\p{N}{1,3}",
        KANA_HAN,
        DEEPSEEK3.replace(r"\p{S}]+[\r\n]*", r"\p{S}]+").replace(r"\s*[\r\n]+", r"[\r\n]"),
        r"\p{N}",
    ],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EAST, r"\p{N}"],
    "deepseek-llm": [
        r"[\r\n]",
        r"\s?" + CASED,
        r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
        r"\s+$",
        EAST,
        r"\p{N}+",
    ],
    "youtu": [
        "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|" + KANA_HAN,
        cased(CONTRACTIONS + "?", r"\p{N}"),
    ],
    "bloom": [r" ?[^(\s|[.,!?…。，、।۔،])]+"],
    "viking": [r" ?[^(\s|[.,!?…。，、।۔،])]+", r"\p{N}"],
    "chameleon": [
        "<sentinel:[0-9]+>",
        "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
        r"([\t\n]|    |  )",
        r"\p{N}",
        r"[\p{P}!-/:-@\[-`{-~]",
        GPT2,
    ],
    "superbpe": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"],
    "bailingmoe": [
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|"
        r"\s*[\r\n]|" + SPACES
    ],
    "seed-coder": [
        CONTRACTIONS
        + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|"
        + SPACES
    ],
    "ufakzeka": [QWEN2.removeprefix(CONTRACTIONS + "|")],
    "jais-2": [
        LLAMA3.removesuffix(SPACES)
        + r"\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|"
        r"\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}"
    ],
    "afmoe": [
        r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
        "[一-鿿㐀-䶿\uf900-\ufaff぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-\u0e7f\u0e80-\u0effក-\u17ffက-႟ꩠ-ꩿꧠ-꧿가-\ud7afᄀ-ᇿ]+",
        DEEPSEEK3,
    ],
    "exaone-moe": [
        CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|"
        r" ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|" + SPACES
    ],
    "minicpm5": [r"\p{N}{1,3}", LLAMA3.replace("{1,3}", "+")],
    "laguna": [r"[^\n]+|[\n]+", QWEN2],
}
WHOLE_WORDS = ("llama-bpe", "tekken", "minicpm5", "youtu")
