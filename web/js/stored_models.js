// @ts-check
/** The models that this browser keeps for the page: load one again, or delete it. */

import { partName, partOf } from "../worker/hub.js";
import { formatBytes, part } from "./dom.js";
import { askToKeep, isPersistent } from "./persistence.js";

/** @typedef {import("../worker/protocol.js").StorageInfo} StorageInfo */
/** @typedef {StorageInfo["models"][number]} StoredModel */
/** @typedef {StoredModel & {keys: string[]}} Row A model with all its files. */

/**
 * The parts of a split model as one row.
 * @param {StoredModel[]} models
 * @returns {Row[]}
 */
function rowsOf(models) {
  /** @type {Map<string, Row>} */
  const rows = new Map();
  for (const model of models) {
    const split = partOf(model.name);
    const id = split ? partName(model.url, 1) : model.key;
    const row = rows.get(id);
    if (!row) {
      const name = split ? model.name.replace(/-\d{5}-of-\d{5}(?=\.gguf$)/i, "") : model.name;
      rows.set(id, { ...model, name, url: split ? id : model.url, keys: [model.key] });
      continue;
    }
    row.keys.push(model.key);
    row.nBytes += model.nBytes;
    row.storedBytes += model.storedBytes;
    row.isComplete &&= model.isComplete;
  }
  return [...rows.values()];
}

export class StoredModels {
  #section = part("stored");
  #list = part("stored-list");

  /**
   * @param {object} actions
   * @param {() => Promise<StorageInfo>} actions.read
   * @param {(keys: string[]) => Promise<unknown>} actions.remove
   * @param {(url: string) => void} actions.load
   */
  constructor({ read, remove, load }) {
    this.read = read;
    this.remove = remove;
    this.load = load;
    part("stored-delete-all").addEventListener("click", () => {
      const rows = /** @type {HTMLElement[]} */ ([...this.#list.children]);
      void this.#delete(rows.flatMap(({ dataset }) => (dataset.keys ?? "").split(" ")));
    });
    part("stored-persist").addEventListener("click", () => {
      void askToKeep().then((isKept) => this.#showPromise(isKept, true));
    });
  }

  /** Shows what is there now; nothing at all where nothing is stored. */
  async refresh() {
    try {
      const { models, usedBytes, quotaBytes } = await this.read();
      const rows = rowsOf(models);
      this.#section.hidden = rows.length === 0;
      this.#list.replaceChildren(...rows.map((row) => this.#row(row)));
      part("stored-delete-all").hidden = rows.length < 2;
      this.#showPromise(await isPersistent(), false);
      const of = quotaBytes ? ` of the ${formatBytes(quotaBytes)} your browser grants` : "";
      this.#say(`This site uses ${formatBytes(usedBytes)}${of}.`);
    } catch (error) {
      console.info("What is stored is not known yet.", error); // the engine has not started
      this.#section.hidden = true;
    }
  }

  /** @param {boolean} isKept @param {boolean} isAnswer To the question just asked. */
  #showPromise(isKept, isAnswer) {
    const words = isKept
      ? "The browser keeps it until you delete it."
      : isAnswer
        ? "The browser does not promise to keep it: it may delete it when the disk is full."
        : "The browser may delete it when the disk is full.";
    part("stored-promise").textContent = words;
    part("stored-persist").hidden = isKept || isAnswer;
  }

  /** @param {Row} row */
  #row({ keys, name, url, nBytes, storedBytes, isComplete, usedMs }) {
    const row = document.createElement("li");
    row.dataset.keys = keys.join(" ");
    const title = name.replace(/\.gguf$/i, "");
    const size = isComplete
      ? formatBytes(nBytes)
      : `${formatBytes(storedBytes)} of ${formatBytes(nBytes)}, goes on when it is loaded`;
    const used = usedMs ? ` · used ${new Date(usedMs).toLocaleDateString()}` : "";
    const text = document.createElement("span");
    text.append(element("b", title), element("small", `${size}${used}`));
    const load = button("Load", () => this.load(url));
    load.hidden = !url;
    const remove = button("Delete", () => void this.#delete(keys));
    remove.setAttribute("aria-label", `Delete ${title} from this device`);
    row.append(text, load, remove);
    return row;
  }

  /** @param {string[]} keys */
  async #delete(keys) {
    try {
      await this.remove(keys);
      await this.refresh();
    } catch (error) {
      this.#say(error instanceof Error ? error.message : String(error));
    }
  }

  /** @param {string} words */
  #say(words) {
    part("stored-words").textContent = words;
  }
}

/** @param {string} tag @param {string} text */
function element(tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

/** @param {string} label @param {() => void} onClick */
function button(label, onClick) {
  const made = /** @type {HTMLButtonElement} */ (element("button", label));
  made.type = "button";
  made.className = "link";
  made.addEventListener("click", onClick);
  return made;
}
