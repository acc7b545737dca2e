// @ts-check
/** Models that this site knows by name: a list from models.json, each a click away. */

import { HUB, fileUrl } from "../worker/hub.js";
import { formatBytes, part, stamp } from "./dom.js";
import { hubAddress, useHub } from "./hub_access.js";
import { quantOf } from "./quants.js";

/**
 * @typedef {object} CatalogueEntry
 * @property {string} name
 * @property {string} repo
 * @property {string} file
 * @property {number} [n_bytes] Where it was published;
 * @property {number} [about_mb] else roughly.
 * @property {string} [sha256]
 * @property {{name: string, url: string}} [licence]
 */
/** @typedef {import("../worker/protocol.js").ModelSource} ModelSource */

/** @param {CatalogueEntry} entry @returns {Extract<ModelSource, {kind: "url"}>} */
function sourceOf({ name, repo, file, sha256 }) {
  const url = fileUrl(hubAddress(), { repo, revision: "main", path: file });
  return { kind: "url", url, title: name, ...(sha256 ? { sha256 } : {}) };
}

/** @param {CatalogueEntry} entry */
function sizeOf({ n_bytes, about_mb }) {
  if (n_bytes) return formatBytes(n_bytes);
  return about_mb ? `about ${formatBytes(about_mb * 1e6)}` : "";
}

export class Catalogue {
  /**
   * @param {object} actions
   * @param {(source: ModelSource) => void} actions.onPick
   * @param {(repo: string) => void} actions.onRepo Other files of the same model.
   */
  constructor({ onPick, onRepo }) {
    this.onPick = onPick;
    this.onRepo = onRepo;
  }

  /** Reads the list; a site without one has no such section. */
  async read() {
    try {
      const response = await fetch("models.json");
      if (!response.ok) throw new Error(`HTTP ${response.status}`);
      const { hub = HUB, models } = await response.json();
      useHub(hub);
      part("catalogue-list").replaceChildren(...models.map((/** @type {CatalogueEntry} */ entry) => this.#row(entry)));
      part("catalogue").hidden = models.length === 0;
    } catch (error) {
      console.info("This site has no list of models.", error);
      part("catalogue").hidden = true;
    }
  }

  /** @param {CatalogueEntry} entry */
  #row(entry) {
    const row = stamp("catalogue-row");
    const [load, more] = /** @type {HTMLElement[]} */ ([...row.querySelectorAll("button")]);
    const facts = [quantOf(entry.file), sizeOf(entry), entry.licence?.name].filter(Boolean);
    /** @type {HTMLElement} */ (load.querySelector("b")).textContent = entry.name;
    /** @type {HTMLElement} */ (load.querySelector("small")).textContent = facts.join(" · ");
    load.title = `${entry.repo}/${entry.file}`;
    load.addEventListener("click", () => this.onPick(sourceOf(entry)));
    more.setAttribute("aria-label", `Other sizes of ${entry.name}`);
    more.addEventListener("click", () => this.onRepo(entry.repo));
    return row;
  }
}
