// @ts-check
/** The panel beside the page: the conversations, to search, open, rename, delete, export. */

import { announce, part, recall, remember, stamp } from "./dom.js";

/** @typedef {import("./threads_store.js").ThreadRow} ThreadRow */
/** @typedef {import("./threads.js").Threads} Threads */

const WIDE = matchMedia("(min-width: 60rem)");

/**
 * @typedef {object} PanelActions
 * @property {(id: string) => void} onOpen
 * @property {(ids: string[] | null) => void} onRemove null: all of them.
 * @property {() => void} onUndo
 * @property {(id: string) => void} onExport
 */

export class ThreadsPanel {
  #panel = part("history");
  #button = part("history-button");
  #list = part("history-list");
  #search = /** @type {HTMLInputElement} */ (part("history-search"));
  #undo = part("history-undo");
  /** Counts drawings: one that is not the newest gives way. */
  #newest = 0;
  /** The row whose title is being changed. */
  #renaming = "";

  /**
   * @param {Threads} threads
   * @param {PanelActions} actions
   */
  constructor(threads, actions) {
    this.threads = threads;
    this.actions = actions;
    this.#button.addEventListener("click", () => this.toggle());
    for (const id of ["history-close", "history-backdrop"]) {
      part(id).addEventListener("click", () => this.toggle(false));
    }
    this.#search.addEventListener("input", () => void this.draw());
    this.#list.addEventListener("click", (event) => this.#onClick(event));
    part("history-delete-all").addEventListener("click", () => actions.onRemove(null));
    part("history-undo-button").addEventListener("click", () => actions.onUndo());
    this.#panel.addEventListener("keydown", (event) => this.#onKey(event));
    threads.addEventListener("list", () => void this.draw());
    threads.addEventListener("note", () => this.#showNote());
    WIDE.addEventListener("change", () => this.#place());
    if (WIDE.matches && recall("panel") === "open") this.toggle(true);
    this.#showNote();
  }

  get isOpen() {
    return !this.#panel.hidden;
  }

  /** @param {boolean} [isOpen] */
  toggle(isOpen = !this.isOpen) {
    if (isOpen === this.isOpen) return;
    this.#panel.hidden = !isOpen;
    this.#button.setAttribute("aria-expanded", String(isOpen));
    if (WIDE.matches) remember("panel", isOpen ? "open" : null);
    this.#place();
    if (isOpen) void this.draw();
    else this.#button.focus();
  }

  /** On a phone the panel lies over the page, which rests meanwhile. */
  #place() {
    const isOver = this.isOpen && !WIDE.matches;
    part("history-backdrop").hidden = !isOver;
    for (const each of document.querySelectorAll(".bar, main, .dock")) {
      /** @type {HTMLElement} */ (each).inert = isOver;
    }
    if (isOver) part("history-close").focus();
  }

  find() {
    this.toggle(true);
    this.#search.focus();
    this.#search.select();
  }

  /** After a choice was made: on a phone the page is wanted back. */
  leave() {
    if (!WIDE.matches) this.toggle(false);
  }

  /** @param {number} count Conversations that were deleted and can come back; 0: none. */
  showUndo(count) {
    this.#undo.hidden = count === 0;
    const words = count === 1 ? "Deleted." : `${count} conversations deleted.`;
    part("history-undo-words").textContent = words;
    if (count) announce(words);
  }

  #showNote() {
    const { isKept, note } = this.threads;
    part("history-where").textContent = isKept && !note ? "Kept in this browser, nowhere else." : "Not kept: they end with this tab.";
    part("history-note").textContent = note;
    part("history-note").hidden = !note;
  }

  /** Shows the list as it is now, or what a search finds in it. */
  async draw() {
    if (!this.isOpen || this.#renaming) return;
    const turn = ++this.#newest;
    const isNewest = () => turn === this.#newest;
    const words = this.#search.value.trim();
    const hits = words ? await this.threads.search(words, isNewest) : null;
    const rows = (await this.threads.list()).filter(({ id }) => !hits || hits.has(id));
    if (!isNewest() || this.#renaming) return;
    const focused = /** @type {HTMLElement | null} */ (document.activeElement?.closest("[data-id]"))?.dataset.id;
    const action = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset.action;
    this.#list.replaceChildren(...rows.map((row) => this.#row(row, hits?.get(row.id) ?? "")));
    if (focused) this.#in(focused, action ?? "open")?.focus();
    const empty = part("history-empty");
    empty.hidden = rows.length > 0;
    empty.textContent = words ? "Nothing found." : "No conversations yet.";
    part("history-delete-all").hidden = part("history-export").hidden = rows.length === 0 || !!words;
  }

  /** @param {string} id @param {string} action */
  #in(id, action) {
    return /** @type {HTMLElement | null} */ (this.#list.querySelector(`[data-id="${id}"] [data-action=${action}]`));
  }

  /** @param {ThreadRow} thread @param {string} hit */
  #row({ id, title, updatedAt }, hit) {
    const row = stamp("thread-template");
    row.dataset.id = id;
    const open = /** @type {HTMLElement} */ (row.querySelector("[data-action=open]"));
    /** @type {HTMLElement} */ (open.querySelector("b")).textContent = title;
    const small = /** @type {HTMLElement} */ (open.querySelector("small"));
    small.textContent = hit && !title.includes(hit) ? hit : new Date(updatedAt).toLocaleDateString();
    if (id === this.threads.current.id) open.setAttribute("aria-current", "true");
    for (const button of row.querySelectorAll("button.tool")) {
      button.setAttribute("aria-label", `${button.getAttribute("title")}: ${title}`);
    }
    return row;
  }

  /** @param {MouseEvent} event */
  #onClick(event) {
    const button = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest("[data-action]"));
    const row = /** @type {HTMLElement | null | undefined} */ (button?.closest("[data-id]"));
    const id = row?.dataset.id;
    if (!id || !row) return;
    if (button?.dataset.action === "open") this.actions.onOpen(id);
    if (button?.dataset.action === "delete") this.actions.onRemove([id]);
    if (button?.dataset.action === "export") this.actions.onExport(id);
    if (button?.dataset.action === "rename") this.#rename(id, row);
  }

  /** @param {string} id @param {HTMLElement} row */
  #rename(id, row) {
    const input = document.createElement("input");
    const title = row.querySelector("b")?.textContent ?? "";
    Object.assign(input, { type: "text", value: title, maxLength: 200, dir: "auto" });
    input.setAttribute("aria-label", "Title");
    input.dataset.testid = "thread-title";
    this.#renaming = id;
    row.replaceChildren(input);
    input.select();
    const end = async (/** @type {boolean} */ isKept) => {
      if (this.#renaming !== id) return;
      this.#renaming = "";
      if (isKept && input.value.trim() !== title) await this.threads.rename(id, input.value);
      await this.draw();
      this.#in(id, "rename")?.focus();
    };
    input.addEventListener("blur", () => void end(true));
    input.addEventListener("keydown", (event) => {
      if (event.isComposing || (event.key !== "Enter" && event.key !== "Escape")) return;
      event.preventDefault();
      event.stopPropagation();
      void end(event.key === "Enter");
    });
    input.focus();
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    if (event.key !== "Escape") return;
    event.preventDefault();
    if (this.#search.value) {
      this.#search.value = "";
      void this.draw();
    } else if (!WIDE.matches) {
      this.toggle(false);
    }
  }
}
