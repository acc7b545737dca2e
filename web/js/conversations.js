// @ts-check
/** Which conversation is in view: new, open, delete and bring back, export, import. */

import { showContext } from "./context_meter.js";
import { announce, part } from "./dom.js";
import { showSpeed } from "./header.js";
import { download, fileName, readThreads, toJson, toMarkdown } from "./threads_file.js";
import { ThreadsPanel } from "./threads_panel.js";

/** @typedef {import("./threads_store.js").Thread} Thread */

/**
 * @typedef {object} ConversationParts
 * @property {import("./threads.js").Threads} threads
 * @property {import("./activity.js").Activity} activity
 * @property {import("./engine_client.js").EngineClient} client
 * @property {import("./chat.js").Chat} chat
 * @property {import("./composer.js").Composer} composer
 * @property {import("./alert.js").AlertView} alert
 * @property {import("./loaded.js").LoadedModel} loaded
 * @property {import("./replies.js").Replies} replies
 */

export class Conversations {
  /** @type {Thread[]} What was deleted last, to be brought back. */
  #removed = [];
  /** Of these the one that was in view. */
  #removedFromView = "";

  /** @param {ConversationParts} parts */
  constructor(parts) {
    this.parts = parts;
    const { threads, chat } = parts;
    this.panel = new ThreadsPanel(threads, {
      onOpen: (id) => void this.open(id),
      onRemove: (ids) => void this.remove(ids),
      onUndo: () => void this.undo(),
      onExport: (id) => void this.exportText(id),
    });
    threads.addEventListener("switch", () => this.#show());
    threads.addEventListener("merge", () => chat.sync());
    // What is edited may not be in view afterwards.
    chat.addEventListener("choosing", () => parts.composer.cancelEdit());
    chat.addEventListener("choose", () => {
      this.showUsed();
      void threads.save();
    });
    for (const id of ["new-chat", "history-new"]) {
      part(id).addEventListener("click", () => void this.begin());
    }
    part("history-export").addEventListener("click", () => void this.exportAll());
    const file = /** @type {HTMLInputElement} */ (part("history-import"));
    file.addEventListener("change", () => {
      const [chosen] = file.files ?? [];
      if (chosen) void this.take(chosen);
      file.value = "";
    });
    this.#show();
  }

  #show() {
    const { chat, threads } = this.parts;
    chat.show(threads.current.tree);
    showSpeed(null);
    this.showUsed();
  }

  /** How full the context was at the last reply in view. */
  showUsed() {
    const { threads, loaded } = this.parts;
    const used = threads.current.tree.path.reverse().find((node) => node.used)?.used ?? 0;
    showContext(used, loaded.nCtx);
  }

  async begin() {
    const { activity, alert, client, composer, replies, threads } = this.parts;
    const left = replies.leave();
    threads.begin();
    this.panel.leave();
    if (activity.state !== "ready") return activity.enter();
    composer.focus();
    await left;
    await client.reset().catch((error) => alert.show(error));
  }

  /** @param {string} id */
  async open(id) {
    const { composer, replies, threads } = this.parts;
    void replies.leave();
    await threads.open(id);
    this.panel.leave();
    composer.focusUnlessTouch();
  }

  /** @param {string[] | null} ids null: all of them. */
  async remove(ids) {
    const { replies, threads } = this.parts;
    const { id } = threads.current;
    const isInView = !ids || ids.includes(id);
    if (isInView) void replies.leave();
    this.#removed = await threads.remove(ids);
    this.#removedFromView = isInView ? id : "";
    this.panel.showUndo(this.#removed.length);
  }

  async undo() {
    const { replies, threads } = this.parts;
    const threadsBack = this.#removed;
    const isEmpty = !threads.current.tree.last;
    this.#removed = [];
    this.panel.showUndo(0);
    await threads.restore(threadsBack);
    if (!this.#removedFromView || !isEmpty) return;
    void replies.leave();
    await threads.open(this.#removedFromView);
  }

  /** @param {string} id */
  async exportText(id) {
    const thread = await this.parts.threads.get(id);
    if (thread) download(fileName(thread.title, "md"), "text/markdown", toMarkdown(thread));
  }

  async exportAll() {
    const threads = await this.parts.threads.all();
    const date = new Date().toISOString().slice(0, 10);
    download(`rushlight-conversations-${date}.json`, "application/json", toJson(threads));
  }

  /** @param {Blob} file */
  async take(file) {
    const { alert, threads } = this.parts;
    try {
      const found = await readThreads(file);
      await threads.restore(found);
      announce(found.length === 1 ? "One conversation imported." : `${found.length} conversations imported.`);
    } catch (error) {
      alert.show(error);
      this.panel.leave();
    }
  }

  /** Turned off, those kept so far go, after a question. @param {boolean} isKept @returns {Promise<boolean>} */
  async keep(isKept) {
    const { replies, threads } = this.parts;
    if (!isKept && !(await confirmed("forget-dialog"))) return false;
    if (!isKept) {
      void replies.leave();
      this.#removed = [];
      this.panel.showUndo(0);
    }
    await threads.keep(isKept);
    return true;
  }
}

/** @param {string} id Of a dialog with a form whose answer "yes" agrees. @returns {Promise<boolean>} */
function confirmed(id) {
  const dialog = /** @type {HTMLDialogElement} */ (part(id));
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}
