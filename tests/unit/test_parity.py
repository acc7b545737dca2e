"""Comparing answers with reference data: what counts as a mismatch and what is excused."""

import json
from dataclasses import replace

import pytest

from rushlight.errors import InvalidInputError
from rushlight.gguf.splits import open_parts
from rushlight.parity import (
    Answer,
    Item,
    compare,
    read_items,
    run_parity,
    summary,
    table_row,
    tokenize_item,
)
from rushlight.tokenizer import load_tokenizer

ITEM = Item(
    name="x",
    ids=[2, 5, 6],
    argmax=[7, 8, 9],
    margin=[1.0, 0.01, 0.5],
    greedy=[9, 4, 3],
    greedy_margin=[0.5, 0.02, 2.0],
    text="hi",
    last_top8=[(9, 10.0), (1, 8.0)],
    last_range=(-10.0, 10.0),
)
RIGHT = Answer([7, 8, 9], [9, 4, 3], [2, 5, 6], [10.0, 8.0], 1.5)


def test_agreement():
    result = compare(ITEM, RIGHT)
    assert result.ok and result.n_checked == 2 and result.greedy_checked == 3
    assert result.tokens_ok and result.logit_error == 0.0 and not result.problem


def test_an_undecided_position_may_differ_a_decided_one_may_not():
    assert compare(ITEM, replace(RIGHT, argmax=[7, 0, 9])).ok
    wrong = compare(ITEM, replace(RIGHT, argmax=[7, 8, 1]))
    assert not wrong.ok and wrong.argmax_wrong == [2] and "argmax 1 at 2, not 9" in wrong.problem
    short = compare(ITEM, replace(RIGHT, argmax=[7, 8]))
    assert not short.ok and "argmax None at 2" in short.problem


def test_greedy_may_part_at_an_undecided_step_only():
    parted = compare(ITEM, replace(RIGHT, greedy=[9, 1, 1]))
    assert parted.ok and parted.greedy_stopped_at == 1 and parted.greedy_checked == 1
    wrong = compare(ITEM, replace(RIGHT, greedy=[9, 4, 1]))
    assert not wrong.ok and wrong.greedy_wrong_at == 2
    # Stopping early is no divergence to excuse.
    assert compare(ITEM, replace(RIGHT, greedy=[9])).greedy_wrong_at == 1


def test_token_ids_and_logits_must_agree():
    assert (
        "token ids differ at 1: 6, not 5" in compare(ITEM, replace(RIGHT, text_ids=[2, 6])).problem
    )
    assert (
        "token ids differ at 2: None, not 6"
        in compare(ITEM, replace(RIGHT, text_ids=[2, 5])).problem
    )
    assert compare(ITEM, replace(RIGHT, text_ids=None)).ok
    off = compare(ITEM, replace(RIGHT, last_logits=[10.0, 8.01]))
    assert off.logit_error == pytest.approx(5e-4) and not off.ok
    assert compare(ITEM, replace(RIGHT, last_logits=[10.001, 8.0])).ok
    assert not compare(ITEM, replace(RIGHT, last_logits=[float("nan"), 8.0])).ok
    assert compare(ITEM, replace(RIGHT, last_logits=None)).logit_error is None


def test_a_reference_cut_short_is_compared_as_far_as_it_goes(data_dir):
    header, _ = open_parts((data_dir / "golden" / "llama-f32.gguf").read_bytes())
    tokenizer = load_tokenizer(header.metadata)
    ids = tokenizer.encode("one two three")
    whole = replace(ITEM, text="one two three", ids=ids)
    assert tokenize_item(tokenizer, whole) == ids
    assert tokenize_item(tokenizer, replace(whole, ids=ids[:-2])) == ids[:-2]
    # An end token of ours that the reference lacks is no cut.
    assert tokenize_item(tokenizer, replace(whole, ids=[9, *ids])) == ids


def test_summary_and_table():
    heard = []
    results = run_parity(lambda item: RIGHT, [ITEM, ITEM], heard.append)
    total = summary(results)
    assert total["ok"] and total["n_argmax"] == 4 and total["seconds"] == 3.0 and len(heard) == 2
    assert json.loads(json.dumps(total))["items"][0]["name"] == "x"
    assert table_row(results[0])[2:5] == ("ok", "2/2", "ok 3")
    assert not summary([])["ok"]
    parted = compare(ITEM, replace(RIGHT, greedy=[9, 1, 1], text_ids=[1]))
    assert table_row(parted)[2:5] == ("WRONG", "2/2", "ok 1 (undecided at 1)")


def test_reads_the_real_reference(data_dir):
    items = read_items(data_dir / "gemma3-270m.json")
    assert len(items) == 42 and {"long0", "long1"} <= {item.name for item in items}
    assert [i.name for i in read_items(data_dir / "gemma3-270m.json", limit=2)] == ["p00", "p01"]
    only = read_items(data_dir / "gemma3-270m.json", names=["p07"])
    assert only[0].name == "p07" and len(only[0].greedy) == len(only[0].greedy_margin) == 24


GOOD = {"name": "a", "ids": [1], "argmax": [2], "margin": [0.5]}


@pytest.mark.parametrize(
    "text, words",
    [
        ("{", "cannot be read"),
        ("[]", "no list called items"),
        ('{"items": []}', "no list called items"),
        (json.dumps({"items": [1]}), "items[0]"),
        (json.dumps({"items": [{**GOOD, "ids": [1, 2]}]}), "items[0] (a).ids"),
        (json.dumps({"items": [{**GOOD, "argmax": ["x"]}]}), "items[0] (a).argmax"),
        (json.dumps({"items": [{**GOOD, "margin": None}]}), "items[0] (a).margin"),
        (json.dumps({"items": [{**GOOD, "greedy": [1]}]}), "items[0] (a).greedy"),
        (json.dumps({"items": [{**GOOD, "last_top8": [1]}]}), "last_top8"),
        (json.dumps({"items": [{**GOOD, "last_range": "ab"}]}), "last_range"),
        (json.dumps({"items": [{**GOOD, "text": 5}]}), "text"),
    ],
)
def test_bad_reference_data_is_named(tmp_path, text, words):
    path = tmp_path / "data.json"
    path.write_text(text)
    with pytest.raises(InvalidInputError) as caught:
        read_items(path)
    assert words in caught.value.message


def test_unknown_names_and_missing_files(tmp_path):
    path = tmp_path / "data.json"
    path.write_text(json.dumps({"items": [GOOD]}))
    with pytest.raises(InvalidInputError, match="no item called zz"):
        read_items(path, names=["zz"])
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_items(tmp_path / "none.json")
