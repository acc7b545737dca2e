"""What the page is told of a loaded model."""

from __future__ import annotations

from typing import Any

from .backends.simd_browser import BrowserCpuExecutor
from .browser_options import sampling_json
from .chat import has_chat_template
from .errors import shown_text
from .gguf.mix import mix_name
from .model import Model
from .ops.state import cache_choices
from .sampling import SamplingParams, default_sampling

MAX_REPLY_TOKENS = 512


def model_info(model: Model, name: str, backend: str) -> dict[str, Any]:
    """The protocol's ModelInfo, without the worker's own notes."""
    file = model.file
    return {
        "name": str(file.metadata.get("general.name") or name.removesuffix(".gguf")),
        "architecture": model.config.architecture,
        "nBytes": file.n_bytes,
        "nParams": sum(tensor.n_elements for tensor in file.tensors.values()),
        "nCtx": model.n_ctx,
        "nCtxTrained": model.config.n_ctx_train,
        "kvDtype": model.kv_dtype,
        "kvBytesPerToken": cache_choices(model.graph),
        "license": shown_text(file.metadata.get("general.license", ""), 80),
        "licenseLink": shown_text(file.metadata.get("general.license.link", "")),
        "quantisation": mix_name(file),
        "hasChatTemplate": has_chat_template(file.metadata),
        "sampling": sampling_json(sampling_of(model)),
        "maxTokens": MAX_REPLY_TOKENS,
        "backend": backend,
        "adapter": _adapter_words(model),
        "notes": list(model.device.notes),
    }


def sampling_of(model: Model) -> SamplingParams:
    """What counts where a request says nothing: from the file, or else the engine's own."""
    metadata = model.file.metadata
    return default_sampling(metadata, is_chat=has_chat_template(metadata))


def _adapter_words(model: Model) -> str:
    """What the header says beside the backend's name."""
    executor = model.executor
    if not isinstance(executor, BrowserCpuExecutor):
        return model.device.adapter
    n_threads = executor.host.n_threads
    return "1 thread" if n_threads == 1 else f"{n_threads} threads"
