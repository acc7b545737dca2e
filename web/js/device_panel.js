// @ts-check
/** What the model runs on: facts in words, a report to copy for a bug, a profile, live timings. */

import { asMarkdown, groupsOf } from "./device_facts.js";
import { LIVE_MS, countersOf, liveFacts } from "./device_live.js";
import { copyFrom, part } from "./dom.js";

/** @typedef {import("../worker/protocol.js").Report} Report */

export class DevicePanel {
  #details = /** @type {HTMLDetailsElement} */ (part("report-details"));
  /** @type {import("./device_live.js").Counters | null} */
  #before = null;

  /**
   * @param {object} actions
   * @param {() => Promise<Report>} actions.getReport
   * @param {() => Promise<import("../worker/protocol.js").Profile>} actions.getProfile
   */
  constructor({ getReport, getProfile }) {
    this.getReport = getReport;
    this.getProfile = getProfile;
    this.#details.addEventListener("toggle", () => {
      if (this.#details.open) void this.#showReport();
    });
    part("profile-button").addEventListener("click", () => void this.#showProfile());
    part("report-copy").addEventListener("click", () => void this.#copy());
    part("report-save").addEventListener("click", () => void this.#save());
    part("report-again").addEventListener("click", () => void this.#showReport());
    if (new URLSearchParams(location.search).get("debug") === "1") this.#dock();
  }

  close() {
    this.#details.open = false;
  }

  /** Beside the conversation, with live timings, for as long as the page is open. */
  #dock() {
    const dock = part("device-dock");
    dock.append(part("device-panel"));
    dock.hidden = false;
    this.#details.hidden = true;
    part("device-live").hidden = false;
    part("device-dock-close").addEventListener("click", () => {
      dock.hidden = true;
      this.#details.append(part("device-panel"));
      this.#details.hidden = false;
    });
    const isWriting = () => document.body.dataset.state === "generating";
    new MutationObserver(async () => {
      const isIdle = !isWriting(); // a moment later a reply may have begun
      if (!isIdle) this.#before = null;
      await this.#showLive(); // a reply's start and its end count too
      if (isIdle) await this.#showReport();
    }).observe(document.body, { attributeFilter: ["data-state"] });
    setInterval(() => {
      if (isWriting()) void this.#showLive();
    }, LIVE_MS);
  }

  async #showLive() {
    if (part("device-dock").hidden) return;
    const report = await this.getReport().catch(() => null); // the alert has the reason
    if (!report) return;
    const now = countersOf(report);
    const facts = this.#before && liveFacts(this.#before, now);
    if (facts || !this.#before) this.#before = now; // a long message takes more than one look
    if (facts) part("device-live-facts").replaceChildren(...factItems(facts));
  }

  async #showProfile() {
    const button = /** @type {HTMLButtonElement} */ (part("profile-button"));
    const text = part("profile-text");
    button.disabled = true;
    text.hidden = false;
    text.textContent = "Writing a short reply…";
    try {
      text.textContent = (await this.getProfile()).text;
    } catch (error) {
      text.textContent = `No profile: ${wordsOf(error)}`;
    }
    button.disabled = false;
  }

  async #showReport() {
    const text = part("report-text");
    if (!text.textContent) text.textContent = "Asking the engine…";
    try {
      const report = await this.getReport();
      part("device-facts").replaceChildren(...groupsOf(report).map(groupElement));
      text.textContent = JSON.stringify(report, null, 2);
    } catch (error) {
      part("device-facts").replaceChildren();
      text.textContent = `No report: ${wordsOf(error)}`;
    }
  }

  async #markdown() {
    return asMarkdown(groupsOf(await this.getReport()));
  }

  async #copy() {
    const button = part("report-copy");
    try {
      await copyFrom(button, await this.#markdown());
      button.textContent = button.dataset.copied === "true" ? "Copied" : "Not copied";
    } catch (error) {
      part("report-text").textContent = `No report: ${wordsOf(error)}`;
    }
    setTimeout(() => (button.textContent = "Copy report"), 1600);
  }

  async #save() {
    try {
      const url = URL.createObjectURL(new Blob([await this.#markdown()], { type: "text/markdown" }));
      const link = document.createElement("a");
      link.href = url;
      link.download = `rushlight-report-${new Date().toISOString().slice(0, 10)}.md`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
    } catch (error) {
      part("report-text").textContent = `No report: ${wordsOf(error)}`;
    }
  }
}

/** @param {unknown} error */
const wordsOf = (error) => (error instanceof Error ? error.message : String(error));

/** @param {import("./device_facts.js").Group} group */
function groupElement({ title, about, facts }) {
  const section = document.createElement("section");
  const heading = document.createElement("h3");
  heading.textContent = title;
  section.append(heading);
  if (about) {
    const words = document.createElement("p");
    words.className = "muted";
    words.textContent = about;
    section.append(words);
  }
  const list = document.createElement("dl");
  list.className = "facts-list";
  list.append(...factItems(facts));
  section.append(list);
  return section;
}

/** @param {import("./device_facts.js").Fact[]} facts */
function factItems(facts) {
  return facts.flatMap(([name, value]) => {
    const term = document.createElement("dt");
    term.textContent = name;
    const description = document.createElement("dd");
    description.textContent = value;
    return [term, description];
  });
}
