"""Texts to vectors, with models that read a whole text at once (encoders)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from .errors import ContextFullError, InvalidInputError, UnsupportedModelError
from .graph.ir import Graph

if TYPE_CHECKING:
    from .model import Model

F32 = NDArray[np.float32]
WRITES_NO_TEXT = "writes_no_text"
"""Code of the error for a model that cannot continue a text."""


def require_logits(graph: Graph, hint: str = "") -> None:
    """Raise ``UnsupportedModelError`` unless the model can continue a text."""
    if "logits" not in graph.outputs:
        raise UnsupportedModelError(
            f"This model ({graph.architecture}) is an encoder: it turns a text into numbers for "
            "search and comparison, and writes no text, so it cannot chat.",
            hint=hint
            or "Choose a model that writes text; Model.embed and `rushlight embed` use this one.",
            code=WRITES_NO_TEXT,
        )


def require_output(graph: Graph, name: Literal["embedding", "hidden"]) -> None:
    """Raise ``UnsupportedModelError`` unless the graph has this output of an encoder."""
    if name in graph.outputs:
        return
    if "hidden" in graph.outputs:
        raise UnsupportedModelError(
            f"{graph.architecture}.pooling_type is none, so the file makes no vector of a text.",
            hint="Use a file with pooling, or Model.hidden_states for a vector of each token.",
            code="no_embedding",
        )
    raise UnsupportedModelError(
        f"This model ({graph.architecture}) writes text and makes no embeddings.",
        hint="Choose an encoder, such as a bert file.",
        code="no_embedding",
    )


async def embed_texts(
    model: Model, texts: str | Sequence[str], *, normalise: bool = True, truncate: bool = False
) -> F32:
    """A vector for each text, float32 [n, n_embd]; see ``Model.embed``."""
    require_output(model.graph, "embedding")
    if isinstance(texts, str):
        texts = [texts]
    state = model.executor.new_state()
    rows = [
        await _run(model, state, text_ids(model, text, truncate=truncate), "embedding")
        for text in texts
    ]
    if not rows:
        return np.zeros((0, model.config.n_embd), np.float32)
    found = np.concatenate(rows)
    return normalised(found) if normalise else found


async def hidden_states(model: Model, ids: Sequence[int]) -> F32:
    """The last hidden state of each token, float32 [n_tokens, n_embd]."""
    require_output(model.graph, "hidden")
    checked = model.check_ids(ids)
    _check_length(model, len(checked))
    return await _run(model, model.executor.new_state(), checked, "hidden")


async def _run(
    model: Model, state: Any, ids: list[int], want: Literal["embedding", "hidden"]
) -> F32:
    """One text as one chunk from position 0: its tokens all see each other."""
    rows = range(len(ids)) if want == "hidden" else [len(ids) - 1]
    result = await model.executor.forward(state, ids, 0, list(rows), want)
    assert result is not None
    return np.asarray(result, np.float32)


def text_ids(model: Model, text: str, *, truncate: bool = False) -> list[int]:
    """The tokens of a text that fit the model; raises ``ContextFullError`` for more.

    ``truncate`` drops the last tokens of the text instead, and keeps the end token.
    """
    tokenizer = model.tokenizer
    ids = tokenizer.encode(text)
    if not ids:
        raise InvalidInputError("A text to embed has no tokens.", hint="Leave it out.")
    if not truncate:
        _check_length(model, len(ids))
    most = most_tokens(model)
    if len(ids) <= most:
        return ids
    n_end = int(tokenizer.add_eos and tokenizer.eos_id is not None)
    return [*ids[: most - n_end], *ids[len(ids) - n_end :]]


def most_tokens(model: Model) -> int:
    """Tokens of the longest text: it must fit the context and run as one chunk."""
    return min(model.n_ctx, model.n_batch)


def _check_length(model: Model, n_tokens: int) -> None:
    if n_tokens > most_tokens(model):
        raise ContextFullError(
            f"A text of {n_tokens} tokens does not fit: this model reads at most "
            f"{most_tokens(model)} at once (a context of {model.n_ctx}, trained for "
            f"{model.config.n_ctx_train}).",
            hint="Cut the text into parts, or keep only its beginning: truncate=True, --truncate.",
        )


def normalised(vectors: F32) -> F32:
    """Rows divided by their length, so that a dot product is a cosine; rows of zeros stay."""
    lengths = np.sqrt(np.square(vectors, dtype=np.float64).sum(axis=-1, keepdims=True))
    return np.asarray(vectors / np.maximum(lengths, np.finfo(np.float32).tiny), np.float32)
