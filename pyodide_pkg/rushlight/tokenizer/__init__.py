"""Text to token ids and back, from the tables a GGUF file carries.

Order of reading: ``vocab`` (tables, special ids) → ``special`` (text cut at special tokens) →
``spm``, ``wordpiece`` or ``bpe`` with ``pretokenize``, ``patterns`` and ``unicode_classes``
(text to symbols) → ``merge`` (symbols to tokens) →
``detokenize`` (ids back to text, also piece by piece) → ``tokenizer`` (the public class).
"""

from .detokenize import Detokenizer
from .tokenizer import Tokenizer, load_tokenizer

__all__ = ["Detokenizer", "Tokenizer", "load_tokenizer"]
