"""Text of others never becomes anything but text: nothing runs, nothing is fetched."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, FilePayload, Frame, Page, expect

from tests.browser.screens import hide_history
from tests.browser.scripted import ScriptedSite, ask, open_page, scripted_site, wait_until
from tests.browser.xss_vectors import HOST, RUN, VECTORS

pytestmark = pytest.mark.browser

IMAGE = f"<img src={HOST}/p.png onerror={RUN}>"
WATCH = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.effectiveDirective} ${event.blockedURI}`));
"""
# What a reply may consist of. Whatever else is found is named.
INSPECT = """(root) => {
  const tags = new Set(("P BR STRONG EM B I DEL S SUB SUP CODE PRE UL OL LI BLOCKQUOTE HR A H1 " +
    "H2 H3 H4 H5 H6 TABLE THEAD TBODY TR TH TD DIV SPAN DETAILS SUMMARY BUTTON svg use " +
    "SMALL").split(" "));
  const names = new Set(("href start colspan rowspan align dir class rel target tabindex role " +
    "type title aria-label aria-hidden data-testid").split(" "));
  const ours = new RegExp("^(?:code|code-head|language|tool|table|thinking|thinking is-live|" +
    "attached|file-name|icon small|hljs-[a-z_ -]+)$");
  const found = [];
  for (const element of root.querySelectorAll("*")) {
    if (!tags.has(element.tagName)) found.push(element.tagName);
    const kind = element.getAttribute("class");
    if (kind !== null && !ours.test(kind)) found.push(`class=${kind}`);
    for (const { name, value } of element.attributes) {
      if (!names.has(name)) found.push(`${element.tagName} ${name}=${value}`);
    }
    if (element.tagName === "A") {
      const isSafe = /^(?:https?|mailto):$/.test(element.protocol) && element.target === "_blank" &&
        element.relList.contains("noopener") && element.relList.contains("noreferrer");
      if (!isSafe) found.push(element.outerHTML);
    }
    const icon = element.tagName !== "use" || /^#i-\\w+$/.test(element.getAttribute("href"));
    if (!icon) found.push("use");
    if (element.tagName === "BUTTON" && element.type !== "button") found.push("button");
  }
  return found;
}"""
# Elements that can load, run or send, in the whole document.
COUNT = """() => Object.fromEntries(
  ("script img image iframe object embed link base meta form style audio video source input " +
   "select textarea math foreignObject animate set marquee template").split(" ")
    .map((tag) => [tag, document.querySelectorAll(tag).length]))"""


class Witness:
    """What a tab did: every request, dialog, policy violation, error."""

    def __init__(self, page: Page, site: ScriptedSite) -> None:
        self.page = page
        self.origin = site.url
        self.requests: list[str] = []
        self.seen: list[str] = []
        page.add_init_script(WATCH)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", lambda dialog: (self.seen.append("a dialog"), dialog.dismiss()))
        page.on("popup", lambda popup: self.seen.append(f"a window: {popup.url}"))
        page.on("pageerror", lambda error: self.seen.append(f"an error: {error}"))
        page.on("console", self._console)
        page.on("framenavigated", self._navigated)

    def _navigated(self, frame: Frame) -> None:
        if not frame.url.startswith(self.origin):  # the page writes its model into its address
            self.seen.append(f"went to {frame.url}")

    def _console(self, message: ConsoleMessage) -> None:
        # The page logs the failures that it shows; the browser, what it refused.
        is_known = "EngineFault" in message.text or "registration blocked by" in message.text
        if message.type in ("error", "warning") and not is_known:
            self.seen.append(f"console: {message.text}")

    def begin(self) -> None:
        """Forget what was before."""
        self.requests.clear()
        self.seen.clear()
        self.counts = self.page.evaluate(COUNT)

    def assert_quiet(self) -> None:
        """Nothing ran, and nothing was asked of anyone but this site's own parts."""
        self.page.wait_for_timeout(200)
        assert self.page.evaluate("window.pwned") is None
        assert self.page.evaluate("window.violations") == []
        assert self.seen == []
        own = (
            self.origin + "scripted/",
            self.origin + "vendor/highlight/",
            self.origin + "site.json",
        )
        assert [url for url in self.requests if not url.startswith(own)] == []
        assert self.page.evaluate(COUNT) == self.counts


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedSite]:
    """The page with the scripted engine."""
    with scripted_site(tmp_path_factory.mktemp("safety-site")) as found:
        yield found


@pytest.fixture(scope="module")
def witness(browser: Browser, site: ScriptedSite) -> Iterator[Witness]:
    """One tab for all tests here."""
    context = browser.new_context(service_workers="block")
    found = Witness(context.new_page(), site)
    open_page(found.page, site)
    yield found
    context.close()


@pytest.fixture
def page(witness: Witness, site: ScriptedSite) -> Page:
    """The tab, with a plain model and no conversation."""
    site.model()
    open_page(witness.page, site)
    witness.page.get_by_test_id("new-chat").click()
    witness.begin()
    return witness.page


def test_the_corpus_is_large() -> None:
    assert len(set(VECTORS)) >= 100


def test_a_reply_that_attacks_is_text(page: Page, witness: Witness, site: ScriptedSite) -> None:
    for number, vector in enumerate(VECTORS):
        ask(page, site.reply(f"v{number}", vector))
        reply = page.locator("[data-role=assistant] .body").last
        found = reply.evaluate(INSPECT)
        assert found == [], vector
        # Clobbering: the page's own parts are still what they were.
        assert page.evaluate("[typeof document.cookie, document.body.tagName]") == [
            "string",
            "BODY",
        ]
    expect(page.locator("[data-role=assistant]")).to_have_count(len(VECTORS))
    witness.assert_quiet()


def test_a_message_that_attacks_is_text(page: Page, witness: Witness) -> None:
    """As a person's own words, and said back by the engine."""
    for vector in VECTORS:
        ask(page, vector)
        for role in ("user", "assistant"):
            body = page.locator(f"[data-role={role}] .body").last
            assert body.evaluate(INSPECT) == [], vector
        words = page.locator("[data-role=user] .body").last
        if not vector.startswith("Attached file"):
            shown = words.text_content()
            assert shown == vector.strip(), vector
    witness.assert_quiet()


def test_half_an_attack_is_text(page: Page, witness: Witness) -> None:
    """Every beginning of every text, as it is while a reply comes in."""
    found = page.evaluate(
        f"""async (vectors) => {{
          const inspect = {INSPECT};
          const {{ ReplyRenderer }} = await import("./js/render.js");
          const found = [];
          for (const vector of vectors) {{
            const target = document.createElement("div");
            document.getElementById("conversation").append(target);
            const renderer = new ReplyRenderer(target);
            for (let end = 1; end <= vector.length; end += 1) {{
              renderer.update(vector.slice(0, end));
              found.push(...inspect(target));
            }}
            renderer.finish(vector);
            found.push(...inspect(target));
          }}
          return found;
        }}""",
        VECTORS,
    )
    assert found == []
    page.evaluate("document.getElementById('conversation').replaceChildren()")
    witness.assert_quiet()


def test_images_become_links(page: Page, site: ScriptedSite) -> None:
    ask(page, site.reply("image", f"![a picture]({HOST}/p.png)"))
    link = page.locator("[data-role=assistant] a")
    expect(link).to_have_text("a picture")
    expect(link).to_have_attribute("href", f"{HOST}/p.png")
    expect(link).to_have_attribute("target", "_blank")


def test_dead_links_keep_their_words(page: Page, site: ScriptedSite) -> None:
    ask(page, site.reply("dead", "[press here](javascript:alert(1)) and [there](data:text/html,x)"))
    body = page.locator("[data-role=assistant] .body")
    expect(body).to_have_text("press here and there")
    assert body.locator("a").count() == 0


def test_a_model_file_that_attacks_is_text(
    page: Page, witness: Witness, site: ScriptedSite
) -> None:
    """Every string of the metadata that the page shows."""
    fields = ("name", "architecture", "license", "quantisation", "adapter")
    site.model(
        **{field: f"{field}{IMAGE}" for field in fields},
        licenseLink=f"javascript:{RUN}",
        notes=[f"note {IMAGE}", f"<svg onload={RUN}>"],
        hasChatTemplate=False,
    )
    open_page(page, site)
    witness.begin()
    expect(page.get_by_test_id("model-name")).to_have_text(f"name{IMAGE}")
    expect(page.get_by_test_id("note").filter(has_text="note")).to_contain_text(IMAGE)
    ask(page, "hello")
    page.get_by_test_id("settings-button").click()
    links = page.locator("#settings-dialog a").evaluate_all("all => all.map((a) => a.protocol)")
    assert set(links) <= {"https:", "http:"}
    page.get_by_test_id("settings-done").click()
    page.get_by_test_id("model-button").click()
    page.keyboard.press("Escape")
    witness.assert_quiet()


def test_file_names_that_attack_are_text(page: Page, witness: Witness) -> None:
    name = f"<img src=x onerror={RUN}>.txt".replace("/", "")
    payload: FilePayload = {
        "name": name,
        "mimeType": "",
        "buffer": b"<script>window.pwned=1</script>",
    }
    page.get_by_test_id("attach-file").set_input_files([payload])
    expect(page.get_by_test_id("attachment")).to_contain_text(name)
    refused: FilePayload = {"name": f"{name}.png", "mimeType": "", "buffer": b"\0"}
    page.get_by_test_id("attach-file").set_input_files([refused])
    expect(page.get_by_test_id("attach-note")).to_contain_text(name)
    page.get_by_test_id("send").click()
    expect(page.locator("[data-role=user]").get_by_test_id("attached")).to_contain_text(name)
    wait_until(page, "ready")
    model: FilePayload = {"name": f"{name}.gguf", "mimeType": "", "buffer": b"GGUF"}
    page.get_by_test_id("model-file").set_input_files([model])
    wait_until(page, "ready")
    witness.assert_quiet()


def test_titles_that_attack_are_text(page: Page, witness: Witness) -> None:
    ask(page, IMAGE)
    page.get_by_test_id("history-button").click()
    expect(page.get_by_test_id("thread-open").first).to_contain_text("<img src=")
    page.get_by_test_id("history-search").fill(IMAGE)
    expect(page.get_by_test_id("thread-open")).to_have_count(1)
    page.get_by_test_id("history-search").fill("")
    hide_history(page)
    witness.assert_quiet()


def test_errors_and_addresses_that_attack_are_text(
    page: Page, witness: Witness, site: ScriptedSite
) -> None:
    fault = {"code": "model_format", "message": f"bad {IMAGE}", "hint": f"hint {IMAGE}"}
    site.model(fault=fault)
    page.get_by_test_id("model-button").click()
    page.get_by_test_id("model-url").fill(f"x{IMAGE}.gguf")
    page.get_by_test_id("model-url-load").click()
    expect(page.get_by_test_id("alert-message")).to_have_text(f"bad {IMAGE}")
    expect(page.get_by_test_id("alert-hint")).to_contain_text(f"hint {IMAGE}")
    witness.assert_quiet()
    for address in (f"javascript:{RUN}", f"data:text/html,{IMAGE}"):
        page.goto(f"{site.url}?model={address}")
        expect(page.get_by_test_id("alert-message")).to_contain_text("is not the address")
    assert page.evaluate("window.pwned") is None
    assert not [url for url in witness.requests if urlsplit(url).hostname != "127.0.0.1"]
