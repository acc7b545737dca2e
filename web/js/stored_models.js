// @ts-check
/** The models that this browser keeps for the page: load one again, or delete it. */

import { formatBytes, part } from "./dom.js";

/** @typedef {import("../worker/protocol.js").StorageInfo} StorageInfo */
/** @typedef {StorageInfo["models"][number]} StoredModel */

export class StoredModels {
  #section = part("stored");
  #list = part("stored-list");

  /**
   * @param {object} actions
   * @param {() => Promise<StorageInfo>} actions.read
   * @param {(keys: string[]) => Promise<unknown>} actions.remove
   * @param {(url: string, name: string) => void} actions.load
   */
  constructor({ read, remove, load }) {
    this.read = read;
    this.remove = remove;
    this.load = load;
    part("stored-delete-all").addEventListener("click", () => {
      const rows = /** @type {HTMLElement[]} */ ([...this.#list.children]);
      void this.#delete(rows.map(({ dataset }) => dataset.key ?? ""));
    });
  }

  /** Shows what is there now; nothing at all where nothing is stored. */
  async refresh() {
    try {
      const { models, usedBytes, quotaBytes } = await this.read();
      this.#section.hidden = models.length === 0;
      this.#list.replaceChildren(...models.map((model) => this.#row(model)));
      part("stored-delete-all").hidden = models.length < 2;
      const of = quotaBytes ? ` of the ${formatBytes(quotaBytes)} your browser grants` : "";
      this.#say(`This site uses ${formatBytes(usedBytes)}${of}.`);
    } catch (error) {
      console.info("What is stored is not known yet.", error); // the engine has not started
      this.#section.hidden = true;
    }
  }

  /** @param {StoredModel} model */
  #row({ key, name, url, nBytes, storedBytes, isComplete, usedMs }) {
    const row = document.createElement("li");
    row.dataset.key = key;
    const title = name.replace(/\.gguf$/i, "");
    const size = isComplete
      ? formatBytes(nBytes)
      : `${formatBytes(storedBytes)} of ${formatBytes(nBytes)}, goes on when it is loaded`;
    const used = usedMs ? ` · used ${new Date(usedMs).toLocaleDateString()}` : "";
    const text = document.createElement("span");
    text.append(element("b", title), element("small", `${size}${used}`));
    const load = button("Load", () => this.load(url, title));
    load.hidden = !url;
    const remove = button("Delete", () => void this.#delete([key]));
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
