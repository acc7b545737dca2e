// @ts-check
/**
 * The conversations that this browser keeps, and the one in view. Writes go one after the other;
 * other tabs hear of each, and take in what is new.
 */

import { splitMessage } from "./attachments.js";
import { attempt, recall, remember } from "./dom.js";
import { fresh, joined, lastSeen, markSeen, opened, record, titleFrom } from "./open_thread.js";
import { everyThread, MemoryStore, openStore } from "./threads_store.js";
import { newId } from "./tree.js";
/** @typedef {import("./threads_store.js").Thread} Thread */
/** @typedef {import("./threads_store.js").Store} Store */
/** @typedef {import("./open_thread.js").OpenThread} OpenThread */
/** @typedef {{kind: "put" | "removed" | "kept", ids: string[]}} Word What tabs tell each other. */

const IN_MEMORY = "This browser does not keep conversations here, perhaps because the window is private: they end with this tab.";
const NEWER = "A newer version of this page keeps the conversations; reload the page to see them.";
const NO_ROOM = "There is no room left to keep this conversation. Export it, or delete others.";
const GONE = "This conversation was deleted in another tab. If you go on, it is kept as a new one.";

/**
 * Events: `switch` (another conversation is in view), `merge` (messages came from another tab),
 * `list` (what the list shows changed), `note` (how they are kept did).
 */
export class Threads extends EventTarget {
  current = fresh();
  /** What a person should know about how conversations are kept; "" when all is well. */
  note = "";
  isKept = recall("conversations") !== "off";
  /** @type {Store} */
  #store = new MemoryStore();
  /** The last write, which the next one waits for. @type {Promise<unknown>} */
  #queue = Promise.resolve();
  #channel = attempt(() => new BroadcastChannel("rushlight-conversations"));
  /** Those that another tab deleted under this one; a new message makes it a new conversation. */
  #isGone = false;

  constructor() {
    super();
    this.#channel?.addEventListener("message", ({ data }) => void this.#hear(data));
  }

  get isLasting() {
    return this.#store.isLasting;
  }

  /** Opens what is kept, and shows the last conversation if nothing was written meanwhile. */
  async start() {
    const before = this.current;
    await this.#inTurn(() => this.#openStore());
    const id = this.isKept ? lastSeen() : null;
    const thread = id ? await this.#store.get(id) : null;
    if (thread && this.current === before && !before.tree.last) this.#enter(opened(thread));
    else if (this.current.tree.last) await this.save();
    this.#tell("list");
  }

  async #openStore() {
    this.#store.close();
    this.note = "";
    this.#store = new MemoryStore();
    if (this.isKept) {
      try {
        this.#store = await openStore((isNewer) => this.#giveUp(isNewer ? NEWER : IN_MEMORY));
      } catch (error) {
        console.warn("Conversations are not kept.", error);
        const isNewer = error instanceof DOMException && error.name === "VersionError";
        this.note = isNewer ? NEWER : IN_MEMORY;
      }
    }
    this.#tell("note");
  }

  list() {
    return this.#store.list();
  }

  /** @param {string} words @param {() => boolean} isWanted False: a newer search has begun. */
  search(words, isWanted) {
    return this.#store.search(words, isWanted);
  }

  /** @returns {Promise<Thread[]>} */
  all() {
    return this.#inTurn(() => everyThread(this.#store));
  }

  /** @param {string} id */
  async get(id) {
    await this.#queue;
    return id === this.current.id ? record(this.current) : this.#store.get(id);
  }

  /** A conversation without messages; it is kept from its first message on. */
  begin() {
    this.#enter(fresh());
  }

  /** @param {string} id @returns {Promise<boolean>} False: it is not there any more. */
  async open(id) {
    if (id === this.current.id) return true;
    await this.#queue;
    const thread = await this.#store.get(id);
    if (thread) this.#enter(opened(thread));
    return !!thread;
  }

  /** @param {OpenThread} thread */
  #enter(thread) {
    this.current = thread;
    this.#isGone = false;
    markSeen(thread.id);
    this.#tell("switch");
    this.#tell("list");
  }

  /** A message of the person has come: the title may follow it, and it is kept. */
  written() {
    const thread = this.current;
    if (this.#isGone) {
      Object.assign(thread, { id: newId(), version: 0, createdAt: Date.now() });
      this.#isGone = false;
      this.#note("");
    }
    markSeen(thread.id);
    const first = thread.tree.path[0];
    if (first && !thread.isNamed) {
      const { text, files } = splitMessage(first.text);
      thread.title = titleFrom(text || files[0]?.name || "");
    }
    return this.save();
  }

  /** Keeps the conversation in view as it is now. */
  save() {
    const thread = this.current;
    thread.updatedAt = Date.now();
    return this.#inTurn(async () => {
      if (this.#isGone && thread === this.current) return;
      if (!thread.tree.last) return this.#forget(thread);
      const own = record(thread);
      const next = await this.#put(own);
      if (next) {
        thread.version = next.version;
        thread.tree.adopt(next.nodes);
        if (next.nodes.length > own.nodes.length) this.#tell("merge");
      } else if (thread === this.current) {
        this.#lose();
      }
    });
  }

  /** Its only message was taken back. @param {OpenThread} thread */
  async #forget(thread) {
    if (!thread.version) return;
    await this.#store.remove(thread.id);
    thread.version = 0;
    this.#changed("removed", [thread.id]);
  }

  /** From here on they end with the tab. @param {string} note */
  #giveUp(note) {
    this.#store.close();
    [this.#store, this.current.version] = [new MemoryStore(), 0];
    this.#note(note);
    this.#tell("list");
  }

  /** @param {Thread} thread @param {boolean} [isToldLater] The caller tells other tabs. */
  async #put(thread, isToldLater = false) {
    try {
      const next = await this.#store.put(thread);
      if (next && !isToldLater) this.#changed("put", [thread.id]);
      if (this.note === NO_ROOM) this.#note("");
      return next;
    } catch (error) {
      console.warn("The conversation was not kept.", error);
      const isFull = error instanceof DOMException && error.name === "QuotaExceededError";
      isFull ? this.#note(NO_ROOM) : this.#giveUp(IN_MEMORY);
      return isFull ? thread : this.#store.put({ ...thread, version: 0 });
    }
  }

  /** @param {string} id @param {string} title */
  rename(id, title) {
    const named = { title: titleFrom(title), isNamed: title.trim() !== "" };
    if (id === this.current.id) Object.assign(this.current, named);
    return this.#inTurn(async () => {
      const thread = await this.#store.get(id);
      const next = thread && (await this.#put({ ...thread, ...named }));
      if (next && next.id === this.current.id) this.current.version = next.version;
    });
  }

  /**
   * @param {string[] | null} ids null: all of them.
   * @returns {Promise<Thread[]>} What `restore` brings back.
   */
  async remove(ids) {
    // Read and removed in one turn: what is kept or imported after this was asked for stays.
    const removed = await this.#inTurn(async () => {
      const held = (await everyThread(this.#store)).filter(({ id }) => !ids || ids.includes(id));
      if (!ids) await this.#store.clear();
      for (const id of ids ?? []) await this.#store.remove(id);
      return held;
    });
    const gone = removed.map(({ id }) => id);
    if (gone.includes(this.current.id)) this.begin();
    this.#changed("removed", gone);
    return removed;
  }

  /** @param {Thread[]} threads Deleted ones, or from a file. */
  async restore(threads) {
    await this.#inTurn(async () => {
      for (const thread of threads) {
        await this.#put(joined(await this.#store.get(thread.id), thread), true);
      }
    });
    const ids = threads.map(({ id }) => id);
    await this.#reread(ids).then(() => this.#changed("put", ids));
  }

  /**
   * Whether this browser keeps conversations. Turned off, those kept so far are deleted.
   * @param {boolean} isKept
   */
  async keep(isKept) {
    remember("conversations", isKept ? null : "off");
    this.isKept = isKept;
    if (!isKept) await this.remove(null);
    const here = await this.#inTurn(async () => {
      const held = isKept ? await everyThread(this.#store) : [];
      await this.#openStore();
      return held;
    });
    this.#changed("kept", []);
    if (here.length) await this.restore(here);
  }

  /** @param {Word} word From another tab. */
  async #hear({ kind, ids }) {
    if (kind === "kept") {
      this.isKept = recall("conversations") !== "off";
      await this.#inTurn(() => this.#openStore());
    }
    if (kind === "put") await this.#inTurn(() => this.#reread(ids));
    if (kind === "removed" && ids.includes(this.current.id)) this.#lose();
    this.#tell("list");
  }

  /** Takes in what another tab wrote to the conversation in view. @param {string[]} ids */
  async #reread(ids) {
    const { current } = this;
    const held = ids.includes(current.id) ? await this.#store.get(current.id) : null;
    if (held && this.#isGone) {
      this.#isGone = false; // it was brought back
      this.#note("");
    }
    if (!held || held.version <= current.version) return;
    current.tree.adopt(held.nodes);
    const { version, title, isNamed, system, options } = held;
    Object.assign(current, { version, title, isNamed, system, options });
    this.#tell("merge");
  }

  #lose() {
    if (!this.current.version) return;
    this.#isGone = true;
    this.#note(GONE);
  }

  /** @param {string} note */
  #note(note) {
    this.note = note;
    this.#tell("note");
  }

  /** @param {Word["kind"]} kind @param {string[]} ids */
  #changed(kind, ids) {
    if (this.isLasting || kind === "kept") this.#channel?.postMessage({ kind, ids });
    this.#tell("list");
  }

  /** @param {"switch" | "merge" | "list" | "note"} what */
  #tell(what) {
    this.dispatchEvent(new Event(what));
  }

  /** @template T @param {() => Promise<T>} job Runs once those before it have. @returns {Promise<T>} */
  #inTurn(job) {
    const run = this.#queue.then(job);
    this.#queue = run.catch((error) => console.warn("A write to the conversations failed.", error));
    return run;
  }
}
