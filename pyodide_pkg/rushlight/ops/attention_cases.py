"""Cases of attention: sizes, windows, sinks, caches, and what lies around it in a decoded token."""

from __future__ import annotations

from collections.abc import Mapping

from ..graph.ir import Attr
from .kv_cache import KV_FORMATS
from .opdef import Case, KvDtype
from .rope import YARN

Heads = tuple[int, int, int] | tuple[int, int, int, int]
"""n_head, n_head_kv, head_dim, and head_dim_v where it differs."""


def _sizes(heads: Heads) -> tuple[int, int, int, int]:
    return (*heads, heads[2])[:4]


def _case_name(heads: Heads, rest: str, has_sinks: bool) -> str:
    n_head, n_head_kv, *dims = heads
    return f"{n_head}/{n_head_kv}x{'v'.join(map(str, dims))}{rest}{'-sinks' if has_sinks else ''}"


def _attention_case(
    tokens: int,
    heads: Heads,
    position: int,
    window: int = 0,
    softcap: float = 0.0,
    sinks: bool = False,
    kv: KvDtype = "f32",
    causal: bool = True,
) -> Case:
    n_head, n_head_kv, head_dim, head_dim_v = _sizes(heads)
    shapes: dict[str, tuple[int, ...]] = {
        "q": (tokens, n_head * head_dim),
        "cache": (n_head_kv * head_dim, n_head_kv * head_dim_v),
    }
    attrs: dict[str, Attr] = {
        "n_head": n_head,
        "n_head_kv": n_head_kv,
        "head_dim": head_dim,
        "scale": head_dim**-0.5,
        "window": window,
        "softcap": softcap,
        "causal": causal,
    }
    rest = f"@{position}-w{window}-c{softcap:g}{'' if causal else '-all'}"
    name = _case_name(heads, rest, sinks)
    shapes |= {"sinks": (n_head,)} if sinks else {}
    return _cached_case(f"{tokens}x{name}", shapes, attrs, position, 0, kv)


def _step_case(
    heads: Heads,
    position: int,
    layout: str,
    norm: bool | str,
    window: int = 0,
    softcap: float = 0.0,
    sinks: bool = False,
    n_ctx: int = 0,
    kv: KvDtype = "f32",
    factors: bool = False,
    scaling: Mapping[str, float] | None = None,
    **more: Attr,
) -> Case:
    n_head, n_head_kv, head_dim, head_dim_v = _sizes(heads)
    width_k, width_v = n_head_kv * head_dim, n_head_kv * head_dim_v
    shapes: dict[str, tuple[int, ...]] = {
        "qkv": (1, n_head * head_dim + width_k + width_v),
        "cache": (width_k, width_v),
    }
    shapes |= {"sinks": (n_head,)} if sinks else {}
    shapes |= {"freq_factors": (head_dim // 2,)} if factors else {}
    if norm == "rows":
        shapes |= {"q_norm": (n_head * head_dim,), "k_norm": (width_k,)}
    elif norm == "each":
        shapes |= {"q_norm": (n_head, head_dim), "k_norm": (n_head_kv, head_dim)}
    elif norm:
        shapes |= {"q_norm": (head_dim,), "k_norm": (head_dim,)}
    attrs: dict[str, Attr] = {
        "n_head": n_head,
        "n_head_kv": n_head_kv,
        "head_dim": head_dim,
        "n_rot": head_dim,
        "base": 10000.0,
        "layout": layout,
        "eps": 1e-6,
        "scale": head_dim**-0.5,
        "window": window,
        "softcap": softcap,
        **(scaling or {}),
        **more,
    }
    words = "-norm" * bool(norm) + f"-{norm}" * isinstance(norm, str)
    rest = f"@{position}-{layout}-w{window}-c{softcap:g}{words}"
    name = _case_name(heads, rest, sinks)
    name += "".join(f"-{k}{v}" for k, v in more.items()) + "-factors" * factors
    name += "-yarn" * bool(scaling)
    return _cached_case(name, shapes, attrs, position, n_ctx, kv)


def _cached_case(
    name: str,
    shapes: Mapping[str, tuple[int, ...]],
    attrs: Mapping[str, Attr],
    position: int,
    n_ctx: int,
    kv: KvDtype,
) -> Case:
    name += f"/{n_ctx}" * (n_ctx > 0) + f"-{kv}" * (kv != "f32")
    nmse = max(1e-9, KV_FORMATS[kv].nmse)
    return Case(name, shapes, attrs, position=position, nmse=nmse, n_ctx=n_ctx, kv=kv)


KV_STORE_CASES = (
    Case("1x64", {"k": (1, 64), "v": (1, 64), "cache": (64, 64)}, position=5),
    Case("7x48", {"k": (7, 48), "v": (7, 48), "cache": (48, 48)}, position=0),
    Case("5x96-q8_0", {"k": (5, 96), "v": (5, 96), "cache": (96, 96)}, nmse=1e-7, kv="q8_0"),
)
ATTENTION_CASES = (
    _attention_case(1, (4, 1, 256), 0),
    _attention_case(1, (4, 1, 256), 100, window=64),
    _attention_case(7, (6, 2, 64), 0),
    _attention_case(33, (5, 1, 80), 40, window=16),
    _attention_case(9, (3, 3, 96), 10, softcap=20.0),
    _attention_case(70, (4, 2, 128), 3),
    _attention_case(2, (6, 3, 16), 200),
    _attention_case(33, (4, 1, 256), 20, window=24),
    _attention_case(9, (2, 1, 320), 5, softcap=20.0),
    _attention_case(512, (2, 1, 64), 0, window=300),
    _attention_case(3, (2, 1, 520), 2),
    _attention_case(37, (8, 2, 64), 60, window=50, sinks=True),
    _attention_case(5, (4, 4, 32), 0, softcap=3.0, sinks=True),
    _attention_case(19, (4, 2, 192, 128), 11),
    _attention_case(6, (2, 1, 64, 256), 30, sinks=True),
    _attention_case(3, (4, 1, 576, 512), 9),
    _attention_case(40, (4, 2, 64), 400, window=290, softcap=20.0),
    _attention_case(40, (4, 2, 64), 400, window=290, softcap=20.0, kv="f16"),
    _attention_case(21, (6, 2, 96), 300, sinks=True),
    _attention_case(21, (6, 2, 96), 300, sinks=True, kv="f16"),
    _attention_case(1, (6, 2, 18), 35, window=30, sinks=True),
    _attention_case(37, (3, 3, 15), 20, softcap=3.0, kv="f16"),
    _attention_case(9, (4, 2, 22, 33), 11),
    _attention_case(1, (4, 1, 256), 100, window=64, kv="q8_0"),
    _attention_case(40, (4, 2, 64), 400, window=290, softcap=20.0, kv="q8_0"),
    _attention_case(21, (6, 2, 96), 300, sinks=True, kv="q8_0"),
    _attention_case(19, (4, 2, 192, 128), 11, kv="q8_0"),
    _attention_case(3, (2, 1, 544), 2, kv="q8_0"),
    _attention_case(70, (4, 1, 256), 0, causal=False, kv="q8_0"),
    _attention_case(1, (3, 3, 20), 0, causal=False),
    _attention_case(37, (3, 3, 20), 0, causal=False),
    _attention_case(150, (4, 2, 64), 0, causal=False),
    _attention_case(70, (4, 1, 256), 0, causal=False),
    _attention_case(21, (6, 2, 32, 64), 9, softcap=3.0, sinks=True, causal=False),
    _attention_case(5, (2, 1, 520), 0, causal=False),
)
STEP_CASES = (
    _step_case((4, 1, 256), 0, "neox", norm=True),
    _step_case((4, 1, 256), 130, "neox", norm=True, window=64),
    _step_case((6, 2, 64), 17, "norm", norm=False),
    _step_case((5, 1, 80), 3, "neox", norm=False),
    _step_case((3, 3, 96), 70, "norm", norm=False),
    _step_case((6, 3, 16), 300, "neox", norm=True),
    _step_case((8, 1, 64), 321, "norm", norm=False),
    _step_case((4, 1, 256), 300, "neox", norm=True, window=270),
    _step_case((7, 1, 128), 260, "neox", norm=False, softcap=20.0),
    _step_case((6, 1, 320), 20, "neox", norm=True),
    _step_case((2, 1, 520), 3, "norm", norm=True),
    _step_case((5, 1, 20), 9, "neox", norm=False, n_rot=0),
    _step_case((6, 2, 32), 40, "neox", norm="rows"),
    _step_case((8, 1, 128), 270, "norm", norm="rows"),
    _step_case((3, 1, 20), 7, "neox", norm=True, v_norm=True),
    _step_case((8, 2, 64), 300, "neox", norm=True, v_norm=True),
    _step_case((6, 3, 32), 41, "norm", norm=True, n_rot=20, slope=0.4, length=16),
    _step_case((8, 2, 64), 40, "neox", norm=False, window=30, sinks=True),
    _step_case((8, 1, 64), 330, "neox", norm=False, sinks=True),
    _step_case((4, 2, 192, 128), 45, "norm", norm=False),
    _step_case((4, 2, 192, 128), 290, "norm", norm=True, sinks=True),
    _step_case((3, 1, 64, 256), 5, "neox", norm=False, sinks=True),
    _step_case((4, 1, 576, 512), 9, "norm", norm=False),
    _step_case((4, 2, 64), 420, "neox", norm=True, window=300, softcap=20.0),
    _step_case((6, 2, 32), 21, "neox", norm="each", is_centred=True, n_rot=8),
    _step_case((8, 1, 64), 280, "norm", norm="each", is_centred=True),
    _step_case((5, 1, 20), 6, "neox", norm="each", v_norm=True),
    _step_case((4, 2, 64), 33, "neox", norm=True, is_centred=True, clamp=0.5),
    _step_case((3, 3, 96), 300, "norm", norm=False, clamp=0.25),
    _step_case((6, 2, 64), 52, "norm", norm=False, factors=True),
    _step_case((4, 2, 64), 78, "neox", norm=False, freq_scale=0.25, scaling=YARN),
    _step_case((4, 2, 64), 70, "neox", norm=True, n_ctx=512),
    _step_case((8, 2, 64), 400, "neox", norm=True, kv="f16"),
    _step_case((4, 2, 64), 420, "norm", norm=False, window=300, softcap=20.0, kv="f16"),
    _step_case((4, 1, 256), 290, "neox", norm=True, window=270, kv="f16"),
    _step_case((8, 1, 80), 330, "neox", norm=False, sinks=True, kv="f16"),
    _step_case((8, 2, 64), 400, "neox", norm=True, kv="q8_0"),
    _step_case((4, 1, 256), 290, "neox", norm=True, window=270, kv="q8_0"),
    _step_case((5, 1, 96), 61, "norm", norm=False, softcap=20.0, sinks=True, kv="q8_0"),
    _step_case((4, 2, 192, 128), 45, "norm", norm=False, v_norm=True, kv="q8_0"),
    _step_case((2, 1, 544), 3, "neox", norm=True, kv="q8_0"),
    _step_case((3, 3, 20), 0, "norm", norm=False, n_rot=0, causal=False),
)
