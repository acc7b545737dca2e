"""The page's ChatOptions (``worker/protocol.js``) as sampling parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .errors import InvalidInputError, shown_text
from .sampling import SamplingParams

SAMPLING_OPTIONS = {
    "temperature": "temperature",
    "topK": "top_k",
    "topP": "top_p",
    "minP": "min_p",
    "repetitionPenalty": "repetition_penalty",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
    "seed": "seed",
    "logitBias": "logit_bias",
}
OF_ONE_REPLY = ("seed", "logit_bias")
"""Of these, the ones that a model has no default for."""


def changed(default: SamplingParams, options: Mapping[str, Any]) -> SamplingParams:
    """``default`` with what the options say. Raises InvalidInputError for a value out of bounds."""
    given = {ours: options[name] for name, ours in SAMPLING_OPTIONS.items() if name in options}
    if "logit_bias" in given:
        given["logit_bias"] = _logit_bias(given["logit_bias"])
    return replace(default, **given)


def sampling_json(params: SamplingParams) -> dict[str, Any]:
    """The protocol's ``ModelInfo.sampling``."""
    return {
        name: getattr(params, ours)
        for name, ours in SAMPLING_OPTIONS.items()
        if ours not in OF_ONE_REPLY
    }


def _logit_bias(given: Any) -> dict[int, Any]:
    """Numbers by token id: JSON made text of the ids."""
    if not isinstance(given, dict):
        raise InvalidInputError(
            f"logitBias is {shown_text(given, 40)}.", hint="Give numbers by token id."
        )
    bias = {}
    for token, value in given.items():
        if not (token.isascii() and token.isdigit() and len(token) <= 10):
            raise InvalidInputError(
                f"logitBias names {shown_text(token, 40)!r}, which is no token id.",
                hint="Give numbers by token id.",
            )
        bias[int(token)] = value
    return bias
