"""``rushlight run``: one prompt, or a chat in the terminal."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import typer

from ..chat import Message, build_prompt, has_chat_template
from ..embedding import require_logits
from ..errors import ContextFullError, EngineError, InvalidInputError, check_count
from ..generate import Generation
from ..gguf.reader import GgufFile
from ..graph.ir import Graph
from ..model import Model
from ..sampling import SamplingParams, default_sampling
from . import EXIT_INTERRUPTED, print_error
from .common import (
    ContextOption,
    DeviceOption,
    FloorFlag,
    KvOption,
    ModelOption,
    ThreadsOption,
    VariantOption,
    load_model,
    say,
)
from .sampling_options import (
    BiasOption,
    FrequencyOption,
    MinPOption,
    PresenceOption,
    RepetitionOption,
    SeedOption,
    TemperatureOption,
    TopKOption,
    TopPOption,
    given_sampling,
)
from .streams import read_stdin

HELP = "/new starts a new conversation, /quit or Ctrl-D ends, Ctrl-C stops a reply."


@dataclass(frozen=True)
class RunOptions:
    """How replies are made and whether the person sees numbers."""

    max_tokens: int
    sampling: SamplingParams
    stop: tuple[str, ...]
    quiet: bool


def run_command(
    model: ModelOption,
    prompt: Annotated[
        str | None,
        typer.Option(
            "--prompt", "-p", metavar="TEXT|-", help="Text to continue; - reads it from stdin."
        ),
    ] = None,
    device: DeviceOption = "auto",
    max_tokens: Annotated[int, typer.Option("-n", "--max-tokens", help="Most new tokens.")] = 256,
    temperature: TemperatureOption = None,
    top_k: TopKOption = None,
    top_p: TopPOption = None,
    min_p: MinPOption = None,
    repetition_penalty: RepetitionOption = None,
    presence_penalty: PresenceOption = None,
    frequency_penalty: FrequencyOption = None,
    logit_bias: BiasOption = None,
    seed: SeedOption = None,
    stop: Annotated[list[str] | None, typer.Option(help="End at this text; repeatable.")] = None,
    ctx: ContextOption = None,
    kv: KvOption = "f16",
    variant: VariantOption = "auto",
    threads: ThreadsOption = 0,
    floor: FloorFlag = False,
    chat: Annotated[
        bool, typer.Option("--chat", help="Take the prompt as a message, not text to continue.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the text.")] = False,
) -> None:
    """Continue a prompt, or chat when no prompt is given.

    The text goes to stdout as it is made; everything else goes to stderr.

        rushlight run -m model.gguf -p "The capital of France is" -n 16

        rushlight run -m model.gguf --chat -p "What is the capital of France?"

        rushlight run -m model.gguf
    """
    sampling = given_sampling(
        logit_bias,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        presence_penalty=presence_penalty,
        frequency_penalty=frequency_penalty,
        seed=seed,
    )
    check_count("max_tokens", max_tokens)
    text = _read_prompt(prompt)
    load = partial(load_model, model, device, n_ctx=ctx, kv_dtype=kv, threads=threads)
    loaded, _ = load(variant=variant, floor=floor, quiet=quiet, before_weights=_check_graph)
    default = _default_sampling(loaded, is_chat=chat or text is None)
    params = replace(default, **sampling)
    options = RunOptions(max_tokens, params, tuple(stop or ()), quiet)
    raise typer.Exit(_run(loaded, text, options, is_chat=chat))


def _check_graph(graph: Graph, file: GgufFile) -> None:
    require_logits(graph)


def _run(model: Model, text: str | None, options: RunOptions, *, is_chat: bool) -> int:
    """Chat without a text, answer it as a message, or continue it; the exit status."""
    if text is None:
        return _chat(model, options)
    if is_chat:
        return _reply_to(model, [{"role": "user", "content": text}], options)[0]
    made = _generate(model, model.tokenizer.encode(text), options, options.stop)
    return _stream(made, options)[0]


def _default_sampling(model: Model, *, is_chat: bool) -> SamplingParams:
    metadata = model.file.metadata
    return default_sampling(metadata, is_chat=is_chat and has_chat_template(metadata))


def _read_prompt(prompt: str | None) -> str | None:
    if prompt == "-":
        return read_stdin().removesuffix("\n")
    if prompt is None and not sys.stdin.isatty():
        raise InvalidInputError(
            "There is no prompt, and standard input is not a terminal to chat on.",
            hint="Give -p TEXT, or -p - to read the prompt from standard input.",
        )
    return prompt


def _generate(
    model: Model, ids: list[int], options: RunOptions, stop: tuple[str, ...]
) -> Generation:
    return model.generate(ids, max_tokens=options.max_tokens, stop=stop, **vars(options.sampling))


def _reply_to(model: Model, messages: list[Message], options: RunOptions) -> tuple[int, str]:
    """Stream the reply to a conversation; return the exit status and the reply."""
    prompt = build_prompt(messages, model.file.metadata, model.tokenizer)
    if prompt.note and len(messages) == 1 and not options.quiet:
        say(f"note: {prompt.note}")
    generation = _generate(model, prompt.ids, options, (*options.stop, *prompt.stop_strings))
    return _stream(generation, options, trim_start=True)


def _stream(
    generation: Generation, options: RunOptions, *, trim_start: bool = False
) -> tuple[int, str]:
    """Print the pieces as they come; return the exit status and the whole text."""
    pieces: list[str] = []
    status = 0
    try:
        for piece in generation:
            shown = piece if pieces or not trim_start else piece.lstrip()
            if shown:
                pieces.append(shown)
                print(_for_terminal(shown), end="", flush=True)
    except KeyboardInterrupt:
        generation.cancel()
        status = EXIT_INTERRUPTED
    print(flush=True)
    if not options.quiet:
        stats = generation.stats
        say(
            f"[{stats.n_prompt} prompt tokens, {stats.n_reused} reused, "
            f"{stats.prefill_tokens_per_s:.1f}/s; {stats.n_generated} new, "
            f"{stats.decode_tokens_per_s:.1f}/s; {generation.finish_reason or 'interrupted'}]"
        )
    return status, "".join(pieces)


def _for_terminal(text: str) -> str:
    """Return text without control characters that a terminal would obey; a file gets them all."""
    if text.isprintable() or not sys.stdout.isatty():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def _chat(model: Model, options: RunOptions) -> int:
    """Talk until the person ends it; the session keeps what both said."""
    if not options.quiet:
        say(HELP)
    messages: list[Message] = []
    while True:
        try:
            text = _ask()
        except EOFError:
            say("")
            return 0
        if text in ("/quit", "/exit"):
            return 0
        if text == "/new":
            messages = []
        elif text.startswith("/"):
            say(HELP)
        elif text:
            asked = [*messages, {"role": "user", "content": text}]
            try:
                _status, reply = _reply_to(model, asked, options)
            except ContextFullError as error:
                print_error(error)
                say("/new starts a new conversation.")
            except EngineError as error:
                print_error(error)
            else:
                messages = [*asked, {"role": "assistant", "content": reply}]


def _ask() -> str:
    print("> ", end="", file=sys.stderr, flush=True)
    return input().strip()
