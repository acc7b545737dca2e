// @ts-check
/** Where a model comes from: the site's own, its list, the hub, an address, or files from this device. */

import { partName, partOf, repoOf } from "../worker/hub.js";
import { fileNameOf } from "../worker/names.js";
import { Catalogue } from "./catalogue.js";
import { formatBytes, part } from "./dom.js";
import { EngineFault } from "./engine_client.js";
import { hubAddress } from "./hub_access.js";
import { HubPicker } from "./hub_picker.js";
import { localSource } from "./local_files.js";
import { keepIfLarge } from "./persistence.js";
import { StoredModels } from "./stored_models.js";
import { TokenField } from "./token_field.js";

/** @typedef {import("../worker/protocol.js").ModelSource} ModelSource */

/**
 * @typedef {object} SiteModel
 * @property {string} name The file.
 * @property {string} [title] What people call it.
 * @property {{name: string, url: string}} [terms] Its licence.
 * @property {string} url
 * @property {number} n_bytes
 * @property {string} sha256
 */

/**
 * An address as typed, made absolute and checked.
 * @param {string} text
 * @returns {ModelSource}
 */
export function urlSource(text) {
  let url;
  try {
    url = new URL(text.trim(), document.baseURI);
  } catch {
    throw badAddress(text);
  }
  if (url.protocol !== "https:" && url.protocol !== "http:") throw badAddress(text);
  // The page of a file on the Hub is what people copy; the file itself is one word away.
  if (url.origin === hubAddress()) url.pathname = url.pathname.replace("/blob/", "/resolve/");
  // Any part of a split model stands for all of them, and the first one leads.
  if (partOf(url.pathname)) url.pathname = partName(url.pathname, 1);
  return { kind: "url", url: url.href };
}

/** @param {string} text */
function badAddress(text) {
  return new EngineFault({
    code: "bad_request",
    message: `“${text}” is not the address of a model.`,
    hint: "Give the https:// address of a GGUF file, a repository as owner/name, or a path on this site.",
  });
}

/** @param {ModelSource} source A short name to show while it loads. */
export function sourceName(source) {
  const title = source.kind === "url" ? source.title : "";
  const name = title || source.name || (source.kind === "url" ? fileNameOf(source.url) : "");
  return name.replace(/\.gguf$/i, "") || "model";
}

/**
 * The site's own model, from site.json; null if the site carries none.
 * @param {boolean} isOptional Whether an unreadable site.json is no error.
 */
export async function readSiteModel(isOptional) {
  const response = await fetch("site.json");
  if (!response.ok) {
    if (isOptional) return null;
    throw new EngineFault({
      code: "site_incomplete",
      message: `site.json could not be read (HTTP ${response.status}).`,
      hint: "Build the site again, or choose a model yourself.",
    });
  }
  const { default_model: model } = /** @type {{default_model?: SiteModel}} */ (await response.json());
  return model ?? null;
}

/**
 * @param {SiteModel} model
 * @returns {Extract<ModelSource, {kind: "url"}>}
 */
export function siteSource({ name, title, url, n_bytes, sha256 }) {
  const absolute = new URL(url, document.baseURI).href;
  return { kind: "url", url: absolute, name, title, nBytes: n_bytes, sha256 };
}

/**
 * Keeps the address bar saying which model this is, so that a reload and a link bring it back.
 * @param {ModelSource} source
 * @param {boolean} isDefault
 */
export function noteInAddress(source, isDefault) {
  const url = new URL(location.href);
  if (source.kind === "url" && !isDefault) url.searchParams.set("model", source.url);
  else url.searchParams.delete("model");
  history.replaceState(null, "", url);
}

/** The dialog to choose one, and dropping a file anywhere on the page. */
export class ModelPicker {
  #dialog = /** @type {HTMLDialogElement} */ (part("model-dialog"));
  #overlay = part("drop-overlay");
  /** Entered minus left elements; the pointer is over the page while it is above zero. */
  #depth = 0;
  /** @type {Extract<ModelSource, {kind: "url"}> | null} */
  siteModel = null;
  /** What a person chose last, until it is loaded. @type {ModelSource | null} */
  #picked = null;
  #token = new TokenField();

  /**
   * @param {object} actions
   * @param {(source: ModelSource) => void} actions.onPick
   * @param {(error: unknown) => void} actions.onError
   * @param {import("./engine_client.js").EngineClient} actions.client
   */
  constructor({ onPick, onError, client }) {
    this.onPick = onPick;
    this.onError = onError;
    this.stored = new StoredModels({
      read: () => client.storage(),
      remove: (keys) => client.deleteStored(keys),
      load: (url) => this.#pick(this.#known(url) ?? { kind: "url", url }),
    });
    this.hub = new HubPicker({
      onPick: (source) => this.#pick(source),
      onToken: (again) => this.#token.ask(again),
    });
    this.catalogue = new Catalogue({
      onPick: (source) => this.#pick(source),
      onRepo: (repo) => void this.hub.show(repo),
    });
    part("model-button").addEventListener("click", () => this.open());
    this.#wireUrl();
    const file = /** @type {HTMLInputElement} */ (part("model-file"));
    file.addEventListener("change", () => {
      this.#take(file.files);
      file.value = ""; // so that the same file can be picked again
    });
    addEventListener("dragenter", (event) => this.#drag(event, 1));
    addEventListener("dragleave", (event) => this.#drag(event, -1));
    addEventListener("dragover", (event) => {
      if (hasFiles(event)) event.preventDefault();
    });
    addEventListener("drop", (event) => this.#drop(event));
  }

  /**
   * Marks the model in use.
   * @param {ModelSource | null} source null: none.
   * @param {string} name
   * @param {number} [nBytes]
   */
  showCurrent(source, name, nBytes = 0) {
    if (source && source === this.#picked) {
      this.#picked = null;
      if (source.kind === "url") void keepIfLarge(nBytes); // now, not at a first visit
    }
    const button = part("model-default");
    const isDefault = source?.kind === "url" && source.url === button.dataset.url;
    button.setAttribute("aria-current", String(isDefault));
    part("model-default-mark").hidden = !isDefault;
    if (isDefault) part("model-default-name").textContent = name; // the file's own word for it
    part("model-current").hidden = !source || isDefault;
    part("model-current").textContent = `In use: ${name}`;
  }

  open() {
    if (!this.#dialog.open) {
      this.#token.hide();
      this.hub.hide();
      this.#dialog.showModal();
    }
    void this.stored.refresh();
  }

  /** @param {string} repo Of the hub, whose files are offered. */
  openRepo(repo) {
    this.open();
    void this.hub.show(repo);
  }

  /** The hub refused this source: asks who it is that wants it. @param {ModelSource} source */
  askToken(source) {
    this.open();
    this.#token.ask(() => this.#pick(source));
  }

  /** The site's own model, if this is its address. @param {string} url */
  #known(url) {
    return this.siteModel && this.siteModel.url === url ? this.siteModel : null;
  }

  /** @param {SiteModel} model */
  offerDefault(model) {
    const button = part("model-default");
    part("model-default-name").textContent = sourceName(siteSource(model));
    part("model-default-size").textContent = `this site's model · ${formatBytes(model.n_bytes)}`;
    button.hidden = false;
    const source = siteSource(model);
    this.siteModel = source;
    button.dataset.url = source.url;
    button.addEventListener("click", () => this.#pick(source));
  }

  /** @param {ModelSource} source */
  #pick(source) {
    this.#dialog.close();
    this.#picked = source;
    this.onPick(source);
  }

  #wireUrl() {
    part("model-url-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const field = /** @type {HTMLInputElement} */ (part("model-url"));
      if (!field.value.trim()) {
        field.focus();
        return;
      }
      const repo = repoOf(field.value, hubAddress());
      if (repo) {
        void this.hub.show(repo);
        return;
      }
      try {
        this.#pick(urlSource(field.value));
      } catch (error) {
        this.#dialog.close();
        this.onError(error);
      }
    });
  }

  /** @param {FileList | null | undefined} files */
  #take(files) {
    if (!files?.length) return;
    try {
      this.#pick(localSource([...files]));
    } catch (error) {
      this.#dialog.close();
      this.onError(error);
    }
  }

  /**
   * @param {DragEvent} event
   * @param {1 | -1} change
   */
  #drag(event, change) {
    if (!hasFiles(event)) return;
    event.preventDefault();
    this.#depth = Math.max(0, this.#depth + change);
    this.#overlay.hidden = this.#depth === 0;
  }

  /** @param {DragEvent} event */
  #drop(event) {
    this.#depth = 0;
    this.#overlay.hidden = true;
    if (!hasFiles(event) || event.defaultPrevented) return; // attached to the message
    event.preventDefault(); // or the browser leaves the page to show the file
    this.#take(event.dataTransfer?.files);
  }
}

/** @param {DragEvent} event */
function hasFiles(event) {
  return event.dataTransfer?.types.includes("Files") ?? false;
}
