// @ts-check
/** The model that the engine holds, and where the page shows it. */

import { showTerms } from "./about.js";
import { showModel } from "./header.js";
import { noteInAddress, siteSource } from "./models.js";

/** @typedef {import("../worker/protocol.js").ModelInfo} ModelInfo */
/** @typedef {import("../worker/protocol.js").ModelSource} ModelSource */

export class LoadedModel {
  /** @type {{source: ModelSource, info: ModelInfo} | null} */
  #now = null;
  /** @type {import("./models.js").SiteModel | null} The site's own. */
  site = null;

  /**
   * @param {import("./settings.js").Settings} settings
   * @param {import("./models.js").ModelPicker} picker
   */
  constructor(settings, picker) {
    this.settings = settings;
    this.picker = picker;
  }

  get source() {
    return this.#now?.source ?? null;
  }

  get name() {
    return this.#now?.info.name ?? "";
  }

  /** Tokens of context; 0: no model is loaded. */
  get nCtx() {
    return this.#now?.info.nCtx ?? 0;
  }

  /**
   * @param {ModelSource} source
   * @param {ModelInfo} info
   */
  set(source, info) {
    const title = source.kind === "url" ? source.title : "";
    this.#now = { source, info: { ...info, name: title || info.name } };
  }

  clear() {
    this.#now = null;
    this.picker.showCurrent(null, "");
  }

  show() {
    if (!this.#now) return;
    const { source, info } = this.#now;
    const isSites = source.kind === "url" && source.url === (this.site && siteSource(this.site).url);
    noteInAddress(source, isSites);
    showModel(info, this.settings.notes);
    this.settings.showModel(info);
    showTerms(info, isSites ? (this.site?.terms ?? null) : null);
    this.picker.showCurrent(source, info.name, info.nBytes);
  }
}
