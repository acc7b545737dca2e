"""Every shader links, keeps the dialect, and compiles where there is an adapter."""

from __future__ import annotations

import re
import struct

import pytest

from rushlight.backends.wgpu_adapter import IMPLIED_FEATURES, LANGUAGE_FEATURES, WANTED_FEATURES
from rushlight.errors import ShaderCompileError
from rushlight.plan.plan import KernelKey
from rushlight.shaders import binding_modes, link, pack_params, shader_root, struct_fields

ROOT = shader_root()
FILES = sorted(p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*.wgsl"))
KERNELS = [f.removesuffix(".wgsl") for f in FILES if "/" not in f]
QUANTS = [f.removesuffix(".wgsl") for f in FILES if f.startswith("quants/")]
PLACEHOLDER = re.compile(r"^// import (\w+) as (\w+)$", re.MULTILINE)
DEFAULTS = {
    "lanes": "lib/lanes_tiles",
    "scores": "lib/scores_tiles",
    "kv": "kv/f16",
    "codes": "lib/codes_exact",
}


def key_for(kernel: str, quant: str = "quants/q5_0", **choices: str) -> KernelKey:
    text = (ROOT / f"{kernel}.wgsl").read_text(encoding="utf-8")
    imports = []
    if "import codes as W" in text:
        imports.append(("Q", quant))
    for what, prefix in PLACEHOLDER.findall(text):
        imports.append(
            (prefix, quant if what.startswith("quant") else {**DEFAULTS, **choices}[what])
        )
    return KernelKey(kernel, tuple(imports))


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel_links_and_keeps_the_floor(kernel: str) -> None:
    code = link(key_for(kernel)).code
    modes = binding_modes(code)
    assert code.count("fn main(") == 1
    assert sum(mode != "uniform" for mode in modes) <= 8
    assert list(modes) == sorted(modes, key=["read", "read_write", "uniform"].index)
    needs_nothing = not link(key_for(kernel)).features
    assert needs_nothing == ("enable " not in code and "requires " not in code)
    assert not needs_nothing or not re.search(r"subgroup|f16>|f16\(|dot4I8|pack4xI8", code)
    assert not re.search(r"\b(pow|sin|cos|unpack4xU8|unpack4xI8)\(", code)


@pytest.mark.parametrize("file", FILES)
def test_file_opens_with_its_four_lines(file: str) -> None:
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    for line, start in zip(lines, ("// ", "// shapes:", "// grid:", "// limits:"), strict=False):
        assert line.startswith(start), f"{file}: {line}"
    assert len(lines) <= 150


# An operand: a name or number with its members, or something in brackets.
OPERAND = r"(?:[\w.]+(?:\[[^\]]*\])?|\))"
SUMS = "(?:<<|>>|[-+*/%])"
UNCLEAR = re.compile(rf"(?<![|&])[|&^] {OPERAND} {SUMS}|{SUMS} {OPERAND} [|&^] ")


@pytest.mark.parametrize("file", FILES)
def test_bits_and_sums_are_in_brackets(file: str) -> None:
    """WGSL has no order between them; wgpu takes such a line all the same, browsers do not."""
    text = re.sub(r"//.*", "", (ROOT / file).read_text(encoding="utf-8"))
    assert UNCLEAR.findall(text) == []


@pytest.mark.parametrize("quant", QUANTS)
def test_storage_type_exports_one_function(quant: str) -> None:
    code = link(key_for("get_rows", quant)).code
    assert code.count("fn W_load16(i: u32) -> mat4x4<f32>") == 1


def test_a_kernel_holds_several_storage_types() -> None:
    key = KernelKey(
        "qkv_matvec",
        (("WQ", "quants/q4_k"), ("WK", "quants/q8_0"), ("WV", "quants/q6_k"),
         ("L", "lib/lanes_rows")),
        overrides=(("WK_plane1", 8.0), ("WV_plane3", 4.0)),
    )  # fmt: skip
    shader = link(key)
    assert all(f"fn {p}_load16" in shader.code for p in ("WQ", "WK", "WV"))
    assert not re.search(r"\bW_", re.sub(r"//.*", "", shader.code))
    assert shader.constants == {"WK_plane1": 8.0, "WV_plane3": 4.0}


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (KernelKey("no_such_kernel"), "no_such_kernel"),
        (KernelKey("matvec"), "imports 'lanes' as L"),
        (KernelKey("add", imports=(("W", "quants/f32"),)), "no import W"),
        (KernelKey("add", consts=(("D4", "4u"),)), "no const D4"),
        (KernelKey("add", overrides=(("N_ROWS", 4.0),)), "no override N_ROWS"),
    ],
)
def test_a_choice_that_a_file_lacks_is_an_error(key: KernelKey, message: str) -> None:
    with pytest.raises(ShaderCompileError, match=re.escape(message)):
        link(key)


def test_consts_replace_the_default_in_the_prelude() -> None:
    key = key_for("attention_prefill_rows")
    assert link(key).code.startswith("const D4: u32 = 16u;\n")
    wide = KernelKey(key.file, key.imports, consts=(("D4", "64u"),))
    assert link(wide).code.startswith("const D4: u32 = 64u;\n")


def test_params_are_packed_by_name() -> None:
    key = key_for("matvec")
    assert struct_fields(link(key).code, "Params") == (("row_start", "u32"), ("y_start", "u32"))
    packed = pack_params(key, {"y_start": 7, "row_start": 5})
    assert struct.unpack("<4I", packed) == (5, 7, 0, 0)
    with pytest.raises(ShaderCompileError, match="row_start"):
        pack_params(key, {"row_start": 5})


def test_lines_of_linked_code_are_found_again() -> None:
    shader = link(key_for("matvec"))
    line = next(i for i, t in enumerate(shader.code.splitlines(), 1) if "fn W_dot4" in t)
    file, _, number = shader.locate(line).partition(":")
    assert file == "lib/dot4.wgsl"
    assert "fn W_dot4" in (ROOT / file).read_text(encoding="utf-8").splitlines()[int(number) - 1]
    assert shader.map_error(f"error at wgsl:{line}:4 here") == f"error at {file}:{number}:4 here"
    assert shader.locate(10**6) == "matvec.wgsl:?"


@pytest.fixture(scope="module")
def device():  # type: ignore[no-untyped-def]
    wgpu = pytest.importorskip("wgpu")
    try:
        adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
    except Exception as error:
        pytest.skip(f"no GPU adapter: {error}")
    features = [name for name in WANTED_FEATURES if name in adapter.features]
    return adapter.request_device_sync(required_features=features)


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel_compiles(kernel: str, device) -> None:  # type: ignore[no-untyped-def]
    families = [
        {"lanes": "lib/lanes_rows", "kv": "kv/f32"},
        {"lanes": "lib/lanes_tiles", "kv": "kv/f16"},
        {"lanes": "lib/lanes_subgroups", "scores": "lib/scores_subgroups", "kv": "kv/f16"},
    ]
    if "tiles family only" in (ROOT / f"{kernel}.wgsl").read_text(encoding="utf-8"):
        families = families[1:]
    for key in {key_for(kernel, **choices) for choices in families}:
        shader = link(key, IMPLIED_FEATURES)
        native = {WANTED_FEATURES.get(str(name), "") for name in device.features}
        if lacking := shader.features - native - LANGUAGE_FEATURES:
            pytest.skip(f"adapter lacks {lacking}")
        device.create_shader_module(code=shader.code, label=kernel)


@pytest.mark.parametrize("quant", QUANTS)
def test_storage_type_compiles(quant: str, device) -> None:  # type: ignore[no-untyped-def]
    device.create_shader_module(code=link(key_for("get_rows", quant)).code, label=quant)
