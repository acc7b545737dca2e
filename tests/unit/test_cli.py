"""The command line on tiny models: results on stdout, the rest on stderr, exit statuses."""

import io
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gguf
import numpy as np
import pytest

from rushlight import Model, cli
from rushlight.bench import BenchOptions
from rushlight.errors import InvalidInputError
from rushlight.generate import Generation
from tests.tools.arch_files import golden_texts, model_bytes


@pytest.fixture
def tiny(data_dir):
    """A 2-layer model with a tokenizer, as a path."""
    return str(data_dir / "golden" / "llama-f32.gguf")


@pytest.fixture
def encoder(tmp_path):
    """A tiny encoder, as a path."""
    path = tmp_path / "bert.gguf"
    path.write_bytes(model_bytes("bert"))
    return path


@pytest.fixture
def reference(data_dir, tmp_path, tiny):
    """Reference data for the tiny model, in the format of gemma3-270m.json."""
    golden = np.load(data_dir / "golden" / "llama-f32.npz")
    item = {
        "name": "p1",
        "ids": golden["p1_ids"].tolist(),
        "argmax": golden["p1_argmax"].tolist(),
        "margin": golden["p1_margin"].tolist(),
        "greedy": golden["p1_greedy"].tolist(),
        "greedy_margin": golden["p1_greedy_margin"].tolist(),
    }
    path = tmp_path / "reference.json"
    path.write_text(json.dumps({"items": [item, {**item, "name": "again"}]}))
    return path


@pytest.fixture
def run(capsys):
    def call(*arguments):
        status = cli.main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


def test_help_names_every_command_and_gives_examples(run):
    status, out, _ = run("--help")
    assert status == 0
    for name in ("run", "devices", "inspect", "tokenize", "embed", "logits", "parity", "bench"):
        assert name in out
        status, text, _ = run(name, "--help")
        assert status == 0 and f"rushlight {name} " in text
    assert run()[0] in (0, 2)


def test_run_streams_text_to_stdout(run, tiny):
    status, out, err = run("run", "-m", tiny, "-p", "ab", "-n", 5, "--device", "numpy")
    assert status == 0 and out.strip() and "5 new" in err and "numpy" in err
    quiet = run("run", "-m", tiny, "-p", "ab", "-n", 5, "--device", "numpy", "-q")
    assert quiet == (0, out, "")


def test_embed_prints_a_vector_a_text(run, encoder, monkeypatch):
    wanted = golden_texts("bert", "f32")[0]["embedding"]
    text = "The cat sat on the mat."
    status, out, err = run("embed", encoder, text, "2", "--device", "numpy")
    rows = [[float(value) for value in line.split()] for line in out.splitlines()]
    assert status == 0 and len(rows) == 2 and "numpy" in err
    assert rows[0] == pytest.approx(wanted.tolist(), abs=1e-5)
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{text}\n\n2\n"))
    status, out, err = run("embed", encoder, "--json", "--device", "numpy")
    data = json.loads(out)["data"]
    assert (status, err) == (0, "") and [item["embedding"] for item in data] == rows
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    status, _, err = run("embed", encoder, "-", "--device", "numpy")
    assert status != 0 and "no text" in err


def test_inspect_says_what_an_encoder_is_for(run, encoder):
    status, out, _ = run("inspect", "-m", encoder)
    assert status == 0 and "it writes no text" in out and "transcript" not in out
    report = json.loads(run("inspect", "-m", encoder, "--json")[1])
    assert report["outputs"] == ["embedding", "hidden"]


def test_embed_and_run_refuse_each_other_s_models(run, tiny, encoder):
    status, out, err = run("embed", tiny, "ab", "--device", "numpy")
    assert status != 0 and not out and "makes no embeddings" in err
    status, out, err = run("run", "-m", encoder, "-p", "ab", "--device", "numpy")
    assert status != 0 and not out and "cannot chat" in err and "rushlight embed" in err
    status, _, err = run("embed", encoder, "the cat " * 99, "--device", "numpy")
    assert status != 0 and "at most 90" in err and "--truncate" in err
    assert run("embed", encoder, "the cat " * 99, "--truncate", "--device", "numpy")[0] == 0


def test_run_reads_stdin(run, tiny, monkeypatch):
    expected = run("run", "-m", tiny, "-p", "ab", "-n", 3, "--device", "numpy", "-q")
    monkeypatch.setattr(sys, "stdin", io.StringIO("ab\n"))
    assert run("run", "-m", tiny, "-p", "-", "-n", 3, "--device", "numpy", "-q") == expected
    status, _, err = run("run", "-m", tiny)
    assert status == 2 and "error [invalid_input]: There is no prompt" in err


def test_run_checks_its_numbers_before_it_reads_a_file(run):
    status, _, err = run("run", "-m", "no-such-file.gguf", "-p", "ab", "-n", -3)
    assert status == 2 and "max_tokens is -3" in err


def test_run_with_a_seed_repeats(run, tiny):
    options = ("-p", "ab", "-n", 8, "--device", "numpy", "-q", "--temperature", 1.5)
    first = run("run", "-m", tiny, *options, "--seed", 3)
    assert first == run("run", "-m", tiny, *options, "--seed", 3)


def test_run_with_bias_and_penalties(run, tiny):
    options = ("-p", "ab", "-n", 4, "--device", "numpy", "-q")
    plain = run("run", "-m", tiny, *options)
    banned = run("run", "-m", tiny, *options, "--logit-bias", "70=100", "--logit-bias", "3=-1.5")
    assert banned[0] == 0 and banned != plain
    changed = run("run", "-m", tiny, *options, "--presence-penalty", 2, "--frequency-penalty", 2)
    assert changed[0] == 0


def test_ctrl_c_stops_a_reply(run, tiny, monkeypatch):
    def interrupted(self):
        yield "some"
        raise KeyboardInterrupt

    monkeypatch.setattr(Generation, "__iter__", interrupted)
    status, out, _ = run("run", "-m", tiny, "-p", "ab", "--device", "numpy")
    assert status == 130 and out == "some\n"


def test_chat_keeps_the_conversation(run, data_dir, monkeypatch):
    model = data_dir / "golden" / "qwen2-bf16.gguf"
    lines = iter(["hello", "", "/help", "again", "/new", "fresh", "/quit"])
    monkeypatch.setattr("builtins.input", lambda: next(lines))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    status, _, err = run("run", "-m", model, "-n", 2, "--device", "numpy")
    assert status == 0 and err.count(" new, ") == 3 and "/new starts" in err
    reused = [int(part.split(" reused")[0].split()[-1]) for part in err.split("prompt tokens")[1:]]
    assert reused[0] == 0 and reused[1] > 0


def test_inspect(run, tiny):
    status, out, _ = run("inspect", "-m", tiny)
    assert status == 0
    for words in ("llama", "F32", "chat template", "can run it", "tokenizer"):
        assert words in out
    assert "token_embd.weight" not in out
    assert "token_embd.weight" in run("inspect", "-m", tiny, "--tensors")[1]
    status, out, _ = run("inspect", "-m", tiny, "--json")
    report = json.loads(out)
    assert status == 0 and report["architecture"] == "llama"
    assert sum(row["n_tensors"] for row in report["types"]) == len(report["tensors"])
    assert report["backends"][0]["can_run"] and report["config"]["n_layer"] == 2
    status, out, _ = run("inspect", "-m", tiny, "--graph")
    assert status == 0 and json.loads(out)


def write_model(path, architecture, q_type=None):
    """A one-layer file without a tokenizer; ``q_type`` stores attn_q as that block type."""
    writer = gguf.GGUFWriter(path, architecture)
    for key in ("embedding_length", "feed_forward_length", "context_length"):
        writer.add_uint32(f"{architecture}.{key}", 256)
    writer.add_uint32(f"{architecture}.block_count", 1)
    writer.add_uint32(f"{architecture}.attention.head_count", 4)
    writer.add_float32(f"{architecture}.attention.layer_norm_rms_epsilon", 1e-5)
    names = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    shapes = {f"blk.0.{name}.weight": (256, 256) for name in names}
    shapes |= {f"{n}.weight": (256,) for n in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm")}
    for name, shape in {"token_embd.weight": (32, 256), **shapes}.items():
        if q_type and "attn_q" in name:
            block_size, type_size = gguf.GGML_QUANT_SIZES[q_type]
            data = np.zeros((256, 256 // block_size * type_size), np.uint8)
            writer.add_tensor(name, data, raw_dtype=q_type)
        else:
            writer.add_tensor(name, np.zeros(shape, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_inspect_says_why_a_file_cannot_be_run(run, tmp_path):
    unknown, unreadable = tmp_path / "unknown.gguf", tmp_path / "type.gguf"
    write_model(unknown, "mamba9")
    status, out, _ = run("inspect", "-m", unknown)
    assert status == 0 and out.count("cannot run it. The architecture 'mamba9'") == 3
    writer = gguf.GGUFWriter(unknown, "flux")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    status, out, _ = run("inspect", "-m", unknown)
    assert status == 0 and out.count("cannot run it. The architecture 'flux'") == 3
    write_model(unreadable, "llama", gguf.GGMLQuantizationType.NVFP4)
    status, out, _ = run("inspect", "-m", unreadable)
    assert status == 0 and "NVFP4" in out and "unusable: tokenizer.ggml.model" in out
    assert out.count("cannot run it. blk.0.attn_q.weight has type NVFP4") == 3


def test_tokenize(run, tiny):
    model = Model.load(tiny, device="numpy")
    status, out, _ = run("tokenize", "-m", tiny, "ab cd")
    assert status == 0 and [int(i) for i in out.split(",")] == model.tokenizer.encode("ab cd")
    _, out, _ = run("tokenize", "-m", tiny, "ab cd", "--no-special", "--json")
    assert json.loads(out) == model.tokenizer.encode("ab cd", add_special=False)
    assert run("tokenize", "-m", tiny, "ab cd", "--table")[0] == 0


def test_logits(run, tiny, tmp_path):
    path = tmp_path / "out.npy"
    status, _, err = run("logits", "-m", tiny, "--ids", "1,5 7", "--device", "numpy", "--out", path)
    assert status == 0 and "float32" in err
    logits = np.load(path)
    model = Model.load(tiny, device="numpy", kv_dtype="f32")
    assert logits.dtype == np.float32 and np.array_equal(logits, model.logits([1, 5, 7]))
    assert run("logits", "-m", tiny, "--ids", "x", "--out", path)[0] == 2
    assert run("logits", "-m", tiny, "--ids", "1", "--out", tmp_path / "no" / "x.npy")[0] == 2
    status, _, err = run("logits", "-m", tiny, "--ids", "999999", "--device", "cpu", "--out", path)
    assert status == 2 and "999999" in err


def test_logits_does_not_compute_what_it_cannot_write(run, tiny, tmp_path, monkeypatch):
    options = ("logits", "-m", tiny, "--ids", "1,5", "--device", "numpy", "--out")
    kept, new = tmp_path / "kept.npy", tmp_path / "new.npy"
    kept.write_bytes(b"old")
    monkeypatch.setattr(Model, "load", lambda *a, **k: 1 / 0)
    for out in ("/tmp", "/dev/full", "/proc/x.npy"):
        status, _, err = run(*options, out)
        assert status == 2 and "error [output]: Cannot write" in err, out
    assert "ZeroDivision" in run(*options, kept)[2] and kept.read_bytes() == b"old"
    assert "ZeroDivision" in run(*options, new)[2] and not new.exists()
    monkeypatch.undo()
    assert run(*options, kept)[0] == 0 and np.load(kept).shape[0] == 2
    status, _, err = run("logits", "-m", tiny, "--ids", "9" * 5000, "--out", new)
    assert status == 2 and "a number of 5000 digits" in err


def test_logits_into_a_pipe(run, tiny, tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with ThreadPoolExecutor(1) as reader:
        found = reader.submit(path.read_bytes)
        assert run("logits", "-m", tiny, "--ids", "1", "--device", "numpy", "--out", path)[0] == 0
        assert np.load(io.BytesIO(found.result())).shape[0] == 1


def test_parity(run, tiny, reference, tmp_path):
    options = ("parity", "-m", tiny, "--data", reference, "--device", "numpy")
    status, out, _ = run(*options, "--json", tmp_path / "out.json")
    assert status == 0 and "2 items agree" in out
    assert json.loads((tmp_path / "out.json").read_text())["n_items"] == 2
    assert "1 items agree" in run(*options, "--names", "again")[1]
    assert "error [output]" in run(*options, "--json", tmp_path)[2]
    data = json.loads(reference.read_text())
    data["items"][0]["argmax"][0] += 1
    data["items"][0]["margin"][0] = 1.0
    reference.write_text(json.dumps(data))
    status, out, _ = run(*options)
    assert status == 1 and "DISAGREE (1 failed)" in out and "argmax" in out


def test_bench(run, tiny):
    status, out, _ = run("bench", "-m", tiny, "--device", "numpy", "--quick", "--json")
    result = json.loads(out)
    assert status == 0 and result["decode_tokens_per_s"] > 0 and result["device_bytes"]
    assert "32" in result["prefill_tokens_per_s"]
    assert "decode, tokens/s" in run("bench", "-m", tiny, "--device", "numpy", "--quick")[1]


def test_bench_fits_a_short_context(run, tiny, tmp_path):
    assert BenchOptions().fitted(256) == BenchOptions((128, 216), 32)
    assert BenchOptions().fitted(100) == BenchOptions((60,), 32)
    assert BenchOptions().fitted(26) == BenchOptions((16,), 2)
    with pytest.raises(InvalidInputError, match="too short"):
        BenchOptions().fitted(24)
    status, out, err = run("bench", "-m", tiny, "--device", "numpy", "--json")
    assert status == 0 and "The model's context is 256 tokens" in err
    assert list(json.loads(out)["prefill_tokens_per_s"]) == ["128", "216"]
    status, _, err = run("bench", "-m", tiny, "--device", "cuda")
    assert status == 2 and "cuda" in err and "context" not in err


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("inspect", "-m", "no-such.gguf"), "error [not_found]"),
        (("run", "-m", "no-such.gguf", "-p", "x", "--top-p", 7), "top_p is 7.0"),
        (("run", "-m", "no-such.gguf", "-p", "x", "--kv", "q4"), "--kv is 'q4'"),
        (("run", "-m", "no-such.gguf", "-p", "x", "--logit-bias", "a=b"), "--logit-bias is 'a=b'"),
        (("run", "-m", "no-such.gguf", "-p", "x", "--presence-penalty", 3), "presence_penalty is"),
        (("run", "-m", "no-such.gguf", "-p", "x", "--device", "tpu"), "error ["),
        (("nonsense",), "No such command"),
        (("run", "--nonsense"), "--nonsense"),
    ],
)
def test_errors_are_lines_on_stderr(run, arguments, words):
    status, out, err = run(*arguments)
    assert status == 2 and words in err and "Traceback" not in err + out


def test_an_unforeseen_error_is_still_a_line(run, tiny, monkeypatch):
    monkeypatch.setattr(Model, "load", lambda *a, **k: 1 / 0)
    status, _, err = run("run", "-m", tiny, "-p", "x")
    assert status == 2 and "error [internal]: ZeroDivisionError" in err and "Traceback" not in err
    monkeypatch.setenv("RUSHLIGHT_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        run("run", "-m", tiny, "-p", "x")


def test_a_missing_package_is_named():
    code = (
        "import sys; sys.modules['typer'] = None\n"
        "from rushlight.cli import main; sys.exit(main(['--help']))"
    )
    folder = str(Path(cli.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": folder},
    )
    assert done.returncode == 2 and "pip install 'rushlight[native]'" in done.stderr


def shell(command, **environment):
    """Run ``$cli`` in a shell, as people do; return its status, stdout and stderr."""
    folder = str(Path(cli.__file__).parents[2])
    done = subprocess.run(
        ["/bin/bash", "-c", command],
        capture_output=True,
        env={
            **os.environ,
            "PYTHONPATH": folder,
            "cli": f"{sys.executable} -m rushlight.cli",
            **environment,
        },
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_standard_output_that_cannot_be_written(tiny):
    for target in (">/dev/full", ">&-"):
        status, _, err = shell(f"$cli inspect -m {tiny} {target}")
        assert status == 2 and err.startswith("error [output]: Standard output cannot be written")
        assert len(err.splitlines()) == 1
    run = f"$cli run -m {tiny} -p ab -n 3 --device numpy"
    status, _, err = shell(f"{run} >/dev/full")
    assert status == 2 and "error [output]" in err and "Traceback" not in err
    status, out, err = shell(f"{run} 2>&-")
    assert (status, err) == (0, "") and out == shell(f"{run} -q")[1]
    assert shell(f"{run} -q 2>/dev/full")[:2] == (0, out)


def test_a_reader_that_leaves_is_no_error(tiny):
    for command in (f"tokenize -m {tiny} --table ab", f"tokenize -m {tiny} ab"):
        status, out, err = shell(f"$cli {command} | true; echo ${{PIPESTATUS[0]}}")
        assert (status, out, err) == (0, "141\n", "")


def test_a_terminal_without_unicode(tiny):
    status, out, err = shell(f"$cli inspect --tensors -m {tiny}", PYTHONIOENCODING="ascii")
    assert status == 0 and " ? " in out and err == ""


def test_standard_input_that_cannot_be_read(tiny):
    status, _, err = shell(f"$cli run -m {tiny} <&-")
    assert status == 2 and "There is no prompt" in err
    status, _, err = shell(f"$cli tokenize -m {tiny} - </dev/zero")
    assert status == 2 and "more than" in err
    status, out, _ = shell(f"printf 'a\\377b' | $cli tokenize -m {tiny} -")
    assert status == 0 and "," in out
