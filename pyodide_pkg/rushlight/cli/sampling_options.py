"""How the next token is drawn, as options of ``rushlight run``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from ..errors import InvalidInputError
from ..sampling import PENALTY_WINDOW, SamplingParams

LAST = f"the last {PENALTY_WINDOW} tokens"

TemperatureOption = Annotated[
    float | None,
    typer.Option(help="0 is greedy [default: 0 for plain text, 0.7 with a chat template]."),
]
TopKOption = Annotated[int | None, typer.Option(help="0 is off [default: 40].")]
TopPOption = Annotated[float | None, typer.Option(help="1 is off [default: 0.9].")]
MinPOption = Annotated[float | None, typer.Option(help="0 is off [default: 0.05].")]
RepetitionOption = Annotated[
    float | None, typer.Option(help=f"Divides the logits of {LAST}; 1 is off.")
]
PresenceOption = Annotated[
    float | None, typer.Option(help=f"Is taken off the logits of {LAST}; 0 is off.")
]
FrequencyOption = Annotated[
    float | None, typer.Option(help=f"The same, once for each time a token is in {LAST}.")
]
BiasOption = Annotated[
    list[str] | None,
    typer.Option(metavar="ID=V", help="Add V to the logit of token ID; repeatable."),
]
SeedOption = Annotated[int | None, typer.Option(help="Repeat a run exactly.")]


def given_sampling(logit_bias: Sequence[str] | None, **options: Any) -> dict[str, Any]:
    """The fields of ``SamplingParams`` that were given, checked before a model is loaded."""
    given = {name: value for name, value in options.items() if value is not None}
    if logit_bias:
        given["logit_bias"] = dict(_read_bias(text) for text in logit_bias)
    SamplingParams(**given)
    return given


def _read_bias(text: str) -> tuple[int, float]:
    token, _, value = text.partition("=")
    try:
        return int(token), float(value)
    except ValueError:
        raise InvalidInputError(
            f"--logit-bias is {text!r}.", hint="Give ID=V, such as 42=-5: a token's id, a number."
        ) from None
