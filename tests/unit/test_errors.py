"""Errors as a person sees them: text from files and servers is made safe to show."""

import pytest

from rushlight.errors import EngineError, ShaderCompileError, shown_text


def test_control_characters_are_shown_and_not_obeyed():
    error = EngineError("evil\x1b[2J\nname \u202eabc \udc80", hint="a\x07b", code="x")
    assert error.message == r"evil\x1b[2J\nname \u202eabc \udc80" and error.hint == r"a\x07b"
    assert str(error) == f"{error.message} {error.hint}" and error.args == (error.message,)
    assert str(error).isprintable()


@pytest.mark.parametrize("unit", ["x", "\x1b", "\U000f0000"])
def test_a_message_is_never_long(unit):
    message = EngineError("start " + unit * 3_000_000 + " end").message
    assert message.startswith("start ") and message.endswith(" end") and "…" in message
    assert len(message) <= 500 and EngineError(message).message == message


def test_a_driver_s_log_keeps_its_lines():
    assert ShaderCompileError("a\n\tb\x1b").message == "a\n\tb\\x1b"
    assert len(ShaderCompileError("x" * 9000).message) == 4000


def test_text_that_is_fine_stays_as_it_is():
    assert shown_text("naïve café “日本語” 🙂") == "naïve café “日本語” 🙂"
