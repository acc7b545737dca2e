"""A conversation in use: continue, stop, settings of its own, keys, screen readers, a phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.scripted import ScriptedSite, ask, open_page, say, wait_until
from tests.browser.threads_page import new_chat, request, rows, settings, texts

pytestmark = pytest.mark.browser

HEBREW = "מהי בירת צרפת?"


def test_a_stopped_reply_goes_on(talk: Page, talk_site: ScriptedSite) -> None:
    play = talk_site.reply("half", "Half of it,", holds=True)
    say(talk, play)
    reply = talk.locator("[data-role=assistant] .body")
    expect(reply).to_have_text("Half of it,")
    talk.get_by_test_id("stop").click()
    wait_until(talk, "ready")
    expect(talk.get_by_test_id("outcome")).to_contain_text("Stopped · 3 tokens")  # it has ended
    expect(reply).to_have_text("Half of it,")
    talk.reload()
    wait_until(talk, "ready")
    talk.get_by_test_id("continue").click()
    # The scripted engine says the last message back: it was given the reply to go on with.
    expect(reply).to_have_text("Half of it,Half of it,")
    wait_until(talk, "ready")
    expect(talk.get_by_test_id("continue")).to_be_hidden()
    assert request(talk)["messages"][1]["content"] == "Half of it,Half of it,"


def test_a_stop_is_at_once_and_what_comes_late_is_not_mixed_in(
    talk: Page, talk_site: ScriptedSite
) -> None:
    say(talk, talk_site.reply("slow", "Never said", wait_ms=60_000))
    expect(talk.locator("[data-status=waiting]")).to_be_visible()
    took = talk.evaluate(
        """() => new Promise((done) => {
          const began = performance.now();
          new MutationObserver(() => {
            if (document.body.dataset.state === "ready") done(performance.now() - began);
          }).observe(document.body, { attributes: true });
          document.getElementById("stop").click();
        })"""
    )
    print(f"click to ready: {took:.1f} ms")
    assert took < 200
    expect(talk.get_by_test_id("outcome")).to_contain_text("0 tokens")  # the engine has ended too
    assert texts(talk)[-1] == "No text came back."
    ask(talk, "Next")
    assert texts(talk)[-1] == "Next"
    assert [m["content"] for m in request(talk)["messages"]] == ["Next", "Next", "show the request"]


def test_instructions_and_sampling_of_one_conversation(talk: Page) -> None:
    settings(talk)
    expect(talk.get_by_test_id("setting-temperature")).to_have_attribute("placeholder", "0.8")
    talk.get_by_test_id("setting-temperature").fill("0.5")
    talk.get_by_test_id("thread-system").fill("Be brief.")
    talk.get_by_text("Its own sampling").click()
    expect(talk.get_by_test_id("own-maxTokens")).to_have_attribute("placeholder", "1024")
    talk.get_by_test_id("own-maxTokens").fill("7")
    talk.get_by_test_id("settings-done").click()
    sent = request(talk)
    assert sent["messages"][0] == {"role": "system", "content": "Be brief."}
    assert sent["options"] == {"temperature": 0.5, "maxTokens": 7}
    talk.reload()
    wait_until(talk, "ready")
    assert request(talk)["options"] == {"temperature": 0.5, "maxTokens": 7}
    new_chat(talk)
    settings(talk)
    expect(talk.get_by_test_id("thread-system")).to_have_value("")
    expect(talk.get_by_test_id("own-temperature")).to_have_attribute("placeholder", "0.5")
    talk.get_by_test_id("setting-temperature").fill("")
    talk.get_by_test_id("settings-done").click()
    assert request(talk) == {
        "messages": [{"role": "user", "content": "show the request"}],
        "options": {},
    }


def test_keys(talk: Page) -> None:
    field = talk.get_by_test_id("input")
    ask(talk, "Typed")
    field.press("ArrowUp")
    expect(field).to_have_value("Typed")
    expect(talk.get_by_test_id("editing")).to_be_visible()
    field.press("Escape")
    field.press("Control+/")
    expect(talk.get_by_test_id("shortcuts-dialog")).to_contain_text("Edit your last message")
    talk.keyboard.press("Escape")
    field.press("?")  # in the field it is a letter
    expect(field).to_have_value("?")
    field.fill("")
    talk.get_by_test_id("theme-toggle").focus()
    talk.keyboard.press("?")
    expect(talk.get_by_test_id("shortcuts-dialog")).to_be_visible()
    talk.keyboard.press("Escape")
    talk.get_by_test_id("theme-toggle").focus()
    talk.keyboard.press("/")
    expect(field).to_be_focused()
    talk.keyboard.press("Control+k")
    expect(talk.get_by_test_id("history-search")).to_be_focused()
    talk.keyboard.press("Control+Shift+O")
    expect(talk.get_by_test_id("message")).to_have_count(0)
    expect(field).to_be_focused()


def test_screen_readers_hear_whole_replies(talk: Page, talk_site: ScriptedSite) -> None:
    talk.evaluate(
        """() => {
          window.heard = [];
          const announcer = document.getElementById("announcer");
          new MutationObserver(() => window.heard.push(announcer.textContent))
            .observe(announcer, { childList: true });
        }"""
    )
    ask(talk, talk_site.reply("spoken", "One two three four five six.", per_second=60))
    assert talk.evaluate("window.heard") == ["Reply: One two three four five six."]
    expect(talk.get_by_test_id("conversation")).to_have_attribute("aria-live", "off")


def test_right_to_left(talk: Page) -> None:
    ask(talk, HEBREW)
    for element in (
        talk.locator("[data-role=user] .body"),
        talk.locator("[data-role=assistant] .body p"),
        talk.get_by_test_id("thread-open").locator("b"),
    ):
        assert element.evaluate("e => getComputedStyle(e).direction") == "rtl"
    talk.get_by_test_id("input").fill(HEBREW)
    assert talk.get_by_test_id("input").evaluate("e => getComputedStyle(e).direction") == "rtl"
    talk.get_by_test_id("input").fill("")


def test_the_context_warns_before_it_is_full(talk: Page, talk_site: ScriptedSite) -> None:
    talk_site.model(nCtx=28)
    talk.reload()
    wait_until(talk, "ready")
    ask(talk, "Hello")
    used = talk.get_by_test_id("context-used")
    expect(used).to_have_text("25 of 28 tokens: soon the oldest messages are left out")
    talk_site.model()
    talk.reload()
    wait_until(talk, "ready")
    expect(used).to_have_text("25 of 4,096 tokens")


def test_on_a_phone_the_list_lies_over_the_page(browser: Browser, talk_site: ScriptedSite) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    phone = context.new_page()
    open_page(phone, talk_site)
    ask(phone, "Hello")
    phone.get_by_test_id("history-button").click()
    expect(phone.get_by_test_id("history-close")).to_be_focused()
    assert phone.locator("main").evaluate("e => e.inert")
    box = phone.get_by_test_id("history").bounding_box()
    assert box and box["width"] < 390 and box["height"] == 844
    rows(phone).click()
    expect(phone.get_by_test_id("history")).to_be_hidden()
    phone.get_by_test_id("history-button").click()
    phone.keyboard.press("Escape")
    expect(phone.get_by_test_id("history-button")).to_be_focused()
    assert not phone.locator("main").evaluate("e => e.inert")
    assert phone.evaluate("document.documentElement.scrollWidth") == 390
    context.close()
