"""Conversations that the browser keeps: the list, branches, other tabs, refused storage."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.scripted import ScriptedSite, ask, open_page, say, wait_until
from tests.browser.threads_page import (
    ask_edited,
    new_chat,
    panel,
    request,
    rows,
    settings,
    stored_trees,
    texts,
)

pytestmark = pytest.mark.browser

HIDE_STORAGE = "Object.defineProperty(window, 'indexedDB', {get() { throw new Error('refused'); }})"
DEAFEN = """window.BroadcastChannel = class extends BroadcastChannel {
  constructor(name) { super(name === "rushlight-conversations" ? "nobody" : name); }
}"""
FILL_STORAGE = """(() => {
  const put = IDBObjectStore.prototype.put;
  window.isFull = true;
  IDBObjectStore.prototype.put = function (value) {
    if (window.isFull) throw new DOMException("full", "QuotaExceededError");
    return put.call(this, value);
  };
})()"""
NEWER_DATABASE = """new Promise((done) => {
  const request = indexedDB.open("rushlight", 99);
  request.onsuccess = () => { request.result.close(); done(true); };
})"""


def test_conversations_are_kept_named_found_and_switched(talk: Page) -> None:
    ask(talk, "A first question\nwith a second line")
    expect(rows(talk)).to_have_text([re.compile("^A first question")])
    new_chat(talk)
    ask(talk, "Entirely other words " * 8)
    expect(rows(talk)).to_have_count(2)
    expect(rows(talk).first).to_contain_text("Entirely other words")
    expect(rows(talk).first).to_have_attribute("aria-current", "true")
    talk.get_by_test_id("history-search").fill("SECOND line")
    expect(rows(talk)).to_have_text([re.compile("A first question.*second line", re.DOTALL)])
    rows(talk).first.click()
    expect(talk.get_by_test_id("message")).to_have_text([re.compile("second line")] * 2)
    talk.get_by_test_id("history-search").fill("not said anywhere")
    expect(talk.get_by_test_id("history-empty")).to_have_text("Nothing found.")
    talk.get_by_test_id("history-search").fill("")
    expect(rows(talk)).to_have_count(2)


def test_the_last_conversation_comes_back(talk: Page) -> None:
    ask(talk, "Is this kept?")
    talk.reload()
    wait_until(talk, "ready")
    expect(talk.get_by_test_id("message")).to_have_count(2)
    assert texts(talk) == ["Is this kept?"] * 2
    expect(talk.get_by_test_id("outcome")).to_contain_text("tokens")
    expect(talk.get_by_test_id("context-used")).to_contain_text("of 4,096 tokens")
    sent = request(talk)["messages"]
    assert [m["content"] for m in sent] == ["Is this kept?", "Is this kept?", "show the request"]


def test_rename_and_its_escape(talk: Page) -> None:
    ask(talk, "Hello")
    talk.get_by_test_id("thread").hover()
    talk.get_by_test_id("thread-rename").click()
    title = talk.get_by_test_id("thread-title")
    expect(title).to_be_focused()
    title.fill("Dropped")
    title.press("Escape")
    expect(rows(talk)).to_contain_text("Hello")
    talk.get_by_test_id("thread-rename").click()
    title.fill("A <b>name</b> of its own")
    title.press("Enter")
    expect(rows(talk)).to_contain_text("A <b>name</b> of its own")
    ask(talk, "More")  # a name stays
    talk.reload()
    wait_until(talk, "ready")
    expect(rows(talk)).to_contain_text("A <b>name</b> of its own")


def test_deleting_can_be_undone(talk: Page) -> None:
    for text in ("One", "Two"):
        new_chat(talk)
        ask(talk, text)
    talk.get_by_test_id("thread").first.hover()
    talk.get_by_test_id("thread-delete").first.click()
    expect(rows(talk)).to_have_count(1)
    expect(talk.get_by_test_id("message")).to_have_count(0)
    talk.get_by_test_id("history-undo-button").click()
    expect(rows(talk)).to_have_count(2)
    assert texts(talk) == ["Two", "Two"]
    talk.get_by_test_id("history-delete-all").click()
    expect(rows(talk)).to_have_count(0)
    expect(talk.get_by_test_id("history-undo")).to_contain_text("2 conversations deleted")
    talk.get_by_test_id("history-undo-button").click()
    expect(rows(talk)).to_have_count(2)
    expect(talk.get_by_test_id("history-undo")).to_be_hidden()


def test_an_edit_is_a_branch(talk: Page) -> None:
    for text in ("Red", "Green"):
        ask(talk, text)
    first = talk.locator("[data-role=user]").first
    expect(first.get_by_test_id("versions")).to_be_hidden()
    first.hover()
    first.get_by_test_id("edit").click()
    ask_edited(talk, "Blue")
    assert texts(talk) == ["Blue", "Blue"]
    assert [m["content"] for m in request(talk)["messages"]] == ["Blue", "Blue", "show the request"]
    expect(first.get_by_test_id("version")).to_have_text("2/2")
    expect(first.get_by_test_id("newer")).to_be_disabled()
    first.get_by_test_id("older").click()
    assert texts(talk) == ["Red", "Red", "Green", "Green"]
    expect(first.get_by_test_id("version")).to_have_text("1/2")
    talk.reload()  # the branch in view is remembered, and the other is not lost
    wait_until(talk, "ready")
    assert texts(talk) == ["Red", "Red", "Green", "Green"]
    talk.get_by_test_id("newer").first.click()
    assert texts(talk)[:2] == ["Blue", "Blue"]


def test_writing_again_is_a_branch(talk: Page, talk_site: ScriptedSite) -> None:
    play = talk_site.reply("again", "The first wording")
    ask(talk, play)
    talk_site.reply("again", "The second wording")
    talk.get_by_test_id("regenerate").click()
    expect(talk.locator("[data-role=assistant] .body")).to_have_text("The second wording")
    wait_until(talk, "ready")
    talk.get_by_test_id("older").last.click()
    assert texts(talk) == [play, "The first wording"]
    # The branch in view is what the model is given.
    assert request(talk)["messages"][1]["content"] == "The first wording"


def test_a_closed_tab_keeps_what_was_written(talk: Page, talk_site: ScriptedSite) -> None:
    say(talk, talk_site.reply("long", "word " * 400, per_second=40))
    talk.wait_for_timeout(3000)  # it is kept every two seconds
    talk.reload()
    wait_until(talk, "ready")
    expect(talk.locator("[data-role=assistant] .body")).to_contain_text("word word word")
    expect(talk.get_by_test_id("outcome")).to_have_text("Interrupted")
    expect(talk.get_by_test_id("continue")).to_be_visible()


def test_two_tabs_lose_nothing(talk: Page, talk_site: ScriptedSite) -> None:
    ask(talk, "From one")
    other = talk.context.new_page()
    open_page(other, talk_site)
    assert texts(other) == ["From one"] * 2
    ask(other, "From two")
    expect(talk.get_by_test_id("message")).to_have_count(4)  # the first tab shows it
    # A tab that hears nothing writes on top of a version that is not the newest.
    deaf = talk.context.new_page()
    deaf.add_init_script(DEAFEN)
    open_page(deaf, talk_site)
    ask(talk, "Aside")
    ask(deaf, "Apart")
    asked = deaf.locator("[data-role=user]").last
    expect(asked.get_by_test_id("version")).to_have_text(re.compile("[12]/2"))
    deaf.close()
    (tree,) = stored_trees(talk)
    said = sorted(node["text"] for node in tree["nodes"])
    assert said == sorted(["From one", "From two", "Aside", "Apart"] * 2)
    # Deleted there, it does not come back from here.
    panel(other)
    other.get_by_test_id("history-delete-all").click()
    expect(talk.get_by_test_id("history-note")).to_contain_text("deleted in another tab")
    expect(rows(talk)).to_have_count(0)
    ask(talk, "Onwards")
    expect(rows(talk)).to_have_count(1)
    expect(talk.get_by_test_id("history-note")).to_be_hidden()
    other.close()


def test_nothing_is_kept_if_so_wished(talk: Page) -> None:
    ask(talk, "Private")
    settings(talk)
    talk.get_by_test_id("setting-keep").uncheck()
    talk.get_by_test_id("forget-no").click()
    expect(talk.get_by_test_id("setting-keep")).to_be_checked()
    talk.get_by_test_id("setting-keep").uncheck()
    talk.get_by_test_id("forget-yes").click()
    expect(talk.get_by_test_id("message")).to_have_count(0)
    talk.get_by_test_id("settings-done").click()
    expect(talk.get_by_test_id("history-where")).to_contain_text("Not kept")
    ask(talk, "For now")
    expect(rows(talk)).to_have_count(1)
    assert stored_trees(talk) == []
    settings(talk)
    talk.get_by_test_id("setting-keep").check()
    talk.get_by_test_id("settings-done").click()
    expect(talk.get_by_test_id("history-where")).to_contain_text("Kept in this browser")
    expect(rows(talk)).to_have_count(1)
    assert [tree["nodes"][0]["text"] for tree in stored_trees(talk)] == ["For now"]


def test_without_storage_the_page_says_so_and_works(tab: Page, talk_site: ScriptedSite) -> None:
    tab.add_init_script(HIDE_STORAGE)
    open_page(tab, talk_site)
    expect(tab.get_by_test_id("history-note")).to_contain_text("end with this tab")
    ask(tab, "One")
    new_chat(tab)
    ask(tab, "Two")
    panel(tab)
    expect(rows(tab)).to_have_count(2)
    rows(tab).last.click()
    expect(rows(tab).last).to_have_attribute("aria-current", "true")
    assert texts(tab) == ["One", "One"]


def test_a_newer_page_s_database_is_left_alone(tab: Page, talk_site: ScriptedSite) -> None:
    tab.goto(f"{talk_site.url}icons/rushlight.svg")
    tab.evaluate(NEWER_DATABASE)
    open_page(tab, talk_site)
    expect(tab.get_by_test_id("history-note")).to_contain_text("newer version of this page")
    ask(tab, "Still works")


def test_full_storage_is_said_until_there_is_room(tab: Page, talk_site: ScriptedSite) -> None:
    tab.add_init_script(FILL_STORAGE)
    open_page(tab, talk_site)
    ask(tab, "One")
    expect(tab.get_by_test_id("history-note")).to_contain_text("no room")
    tab.evaluate("window.isFull = false")
    ask(tab, "Two")
    expect(tab.get_by_test_id("history-note")).to_be_hidden()
    tab.reload()
    wait_until(tab, "ready")
    expect(tab.get_by_test_id("message")).to_have_count(4)


def test_a_message_taken_back_is_not_kept(tab: Page, talk_site: ScriptedSite) -> None:
    talk_site.model(holds_at=0.5)
    try:
        open_page(tab, talk_site, state="loading")
        panel(tab)
        say(tab, "A secret")
        expect(rows(tab)).to_have_count(1)
        tab.get_by_test_id("stop").click()
        expect(tab.get_by_test_id("input")).to_have_value("A secret")
        expect(rows(tab)).to_have_count(0)
        assert stored_trees(tab) == []
    finally:
        talk_site.model()


def test_another_version_ends_an_edit(talk: Page) -> None:
    ask(talk, "One")
    for text in ("Two", "Three"):
        message = talk.locator("[data-role=user]").last
        message.hover()
        message.get_by_test_id("edit").click()
        ask_edited(talk, text)
    talk.locator("[data-role=user]").last.hover()
    talk.get_by_test_id("edit").last.click()
    expect(talk.get_by_test_id("editing")).to_be_visible()
    talk.locator("[data-action=older]").first.click()
    expect(talk.get_by_test_id("editing")).to_be_hidden()
    ask(talk, "Four")
    assert texts(talk) == ["Two", "Two", "Four", "Four"]


def test_a_database_that_goes_is_said(talk: Page) -> None:
    ask(talk, "Here")
    talk.evaluate("""new Promise((done) => {
      const request = indexedDB.deleteDatabase("rushlight");
      request.onsuccess = done;
    })""")
    expect(talk.get_by_test_id("history-note")).to_contain_text("end with this tab")
    ask(talk, "Still here")
    expect(rows(talk)).to_have_count(1)
