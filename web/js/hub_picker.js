// @ts-check
/** The files of a hub repository, to pick a quantisation from. */

import { HubRefusal, commitOf, fileUrl, listFiles } from "../worker/hub.js";
import { formatBytes, part, stamp } from "./dom.js";
import { hubAddress, hubToken } from "./hub_access.js";
import { quantChoices } from "./quants.js";

/** @typedef {import("../worker/protocol.js").ModelSource} ModelSource */
/** @typedef {import("./quants.js").QuantChoice} QuantChoice */

export class HubPicker {
  #section = part("hub");
  #words = part("hub-words");
  #list = part("hub-list");
  /** Counts questions: an answer that is no longer the newest is dropped. */
  #newest = 0;

  /**
   * @param {object} actions
   * @param {(source: ModelSource) => void} actions.onPick
   * @param {(again: () => void) => void} actions.onToken The hub wants to know who asks.
   */
  constructor({ onPick, onToken }) {
    this.onPick = onPick;
    this.onToken = onToken;
    part("hub-close").addEventListener("click", () => this.hide());
  }

  hide() {
    this.#newest++;
    this.#section.hidden = true;
  }

  /** Lists a repository. @param {string} repo */
  async show(repo) {
    const turn = ++this.#newest;
    this.#section.hidden = false;
    part("hub-title").textContent = repo;
    this.#list.replaceChildren();
    this.#say("Asking what is there…");
    this.#section.scrollIntoView({ block: "nearest" });
    try {
      const how = { token: hubToken() };
      const commit = await commitOf(hubAddress(), repo, "main", how);
      const files = await listFiles(hubAddress(), repo, commit, how);
      if (turn === this.#newest) this.#fill(repo, files);
    } catch (error) {
      if (!(error instanceof HubRefusal)) throw error;
      if (turn === this.#newest) this.#refused(repo, error);
    }
  }

  /** @param {string} repo @param {import("../worker/hub.js").HubEntry[]} files */
  #fill(repo, files) {
    const { choices, nLeftOut } = quantChoices(files);
    this.#list.replaceChildren(...choices.map((choice) => this.#row(repo, choice)));
    const left = nLeftOut ? ` ${nLeftOut} more ${nLeftOut === 1 ? "is" : "are"} of a type that cannot be read here.` : "";
    if (choices.length === 0) this.#say(`There is no GGUF file in ${repo} that can be read here.${left}`);
    else this.#say(`Smaller files are faster; larger ones write a little better.${left}`);
    this.#section.scrollIntoView({ block: "nearest" });
  }

  /** @param {string} repo @param {HubRefusal} refusal */
  #refused(repo, { status, message }) {
    if (status === 401 || status === 403) {
      this.#say(`${repo} is private, or asks you to accept its terms, or is not spelt like that.`);
      this.onToken(() => void this.show(repo));
    } else if (status === 404) this.#say(`There is no repository ${repo}.`);
    else this.#say(`${message}. Try again later, or give a file's full address.`);
  }

  /** @param {string} repo @param {QuantChoice} choice */
  #row(repo, { path, quant, nBytes, nFiles, isRecommended, missing }) {
    const row = stamp("hub-row");
    const button = /** @type {HTMLButtonElement} */ (row.querySelector("button"));
    const [name, mark, size] = [...button.querySelectorAll("[data-part]")];
    name.textContent = quant || path.replace(/\.gguf$/i, "");
    /** @type {HTMLElement} */ (mark).hidden = !isRecommended;
    const files = nFiles > 1 ? `${nFiles} files · ` : "";
    size.textContent = missing ? `${missing} is missing` : `${files}${formatBytes(nBytes)}`;
    button.disabled = missing !== "";
    button.title = path;
    const url = fileUrl(hubAddress(), { repo, revision: "main", path });
    button.addEventListener("click", () => this.onPick({ kind: "url", url }));
    return row;
  }

  /** @param {string} words */
  #say(words) {
    this.#words.textContent = words;
  }
}
