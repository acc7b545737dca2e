// @ts-check
/**
 * Conversations on this device: in IndexedDB, or in memory where a browser refuses it.
 *
 * `threads` holds one small row a conversation (what a list shows), `trees` its messages. A row's
 * `version` counts writes: who writes on top of a version that is not the newest gets both tabs'
 * messages together, so two tabs in one conversation lose nothing.
 */

import { Tree } from "./tree.js";

const OPEN_MS = 5_000;

/** @typedef {import("./tree.js").MessageNode} MessageNode */
/** @typedef {import("../worker/protocol.js").ChatOptions} ChatOptions */

/**
 * @typedef {object} ThreadRow
 * @property {string} id
 * @property {string} title
 * @property {boolean} isNamed By the person, not from the first message.
 * @property {number} createdAt @property {number} updatedAt In ms since 1970.
 * @property {number} version 0: not stored yet.
 */
/**
 * @typedef {object} ThreadTree
 * @property {string} id
 * @property {string} system Instructions to the model; "" for none.
 * @property {ChatOptions} options Sampling of this conversation alone.
 * @property {string} [chosen] @property {MessageNode[]} nodes As in Tree.
 */
/** @typedef {ThreadRow & ThreadTree} Thread */

/**
 * @typedef {object} Store
 * @property {boolean} isLasting
 * @property {() => Promise<ThreadRow[]>} list The last changed first.
 * @property {(id: string) => Promise<Thread | null>} get
 * @property {(thread: Thread) => Promise<Thread | null>} put What is stored now; null: the
 *   conversation was deleted since it was read, and stays so.
 * @property {(id: string) => Promise<void>} remove
 * @property {() => Promise<void>} clear
 * @property {(words: string, isWanted: () => boolean) => Promise<Map<string, string>>} search The
 *   conversations with these words, and the text around them.
 * @property {() => void} close
 */

const NAME = "rushlight";

/**
 * Step i takes a database of version i to i + 1. A new format of the records is a new step at the
 * end; none is ever changed, as browsers hold databases of every age.
 * @type {((database: IDBDatabase, transaction: IDBTransaction) => void)[]}
 */
const MIGRATIONS = [
  (database) => {
    database.createObjectStore("threads", { keyPath: "id" }).createIndex("updatedAt", "updatedAt");
    database.createObjectStore("trees", { keyPath: "id" });
  },
];

/** @param {Thread} thread @returns {{row: ThreadRow, tree: ThreadTree}} */
function parted({ system, options, chosen, nodes, ...row }) {
  return { row, tree: { id: row.id, system, options, chosen, nodes } };
}

/**
 * What a write leaves.
 * @param {Thread} thread As the writer has it.
 * @param {Thread | null} held As it is stored.
 * @returns {Thread | null}
 */
function settled(thread, held) {
  if (!held) return thread.version > 0 ? null : { ...thread, version: 1 };
  const next = { ...thread, version: held.version + 1 };
  if (held.version === thread.version) return next;
  const tree = new Tree(thread.nodes, thread.chosen);
  tree.adopt(held.nodes);
  return { ...next, updatedAt: Math.max(thread.updatedAt, held.updatedAt), nodes: tree.toList() };
}

/**
 * @param {Thread} thread @param {string} words In lower case.
 * @returns {string | null} The text around the first place with these words.
 */
function found({ title, nodes }, words) {
  for (const text of [title, ...nodes.map((node) => node.text)]) {
    const at = text.toLowerCase().indexOf(words);
    if (at >= 0) return text.slice(Math.max(0, at - 24), at + words.length + 60).trim();
  }
  return null;
}

/** @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
function result(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/** @param {IDBTransaction} transaction @returns {Promise<void>} */
function ended(transaction) {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error ?? new Error("The write was undone."));
  });
}

/**
 * @param {(isNewer: boolean) => void} onLost The database is gone, or a newer page's now.
 * @returns {Promise<Store>} Rejects where the browser refuses, or does not answer, or holds a newer
 *   page's database.
 */
export async function openStore(onLost) {
  const request = indexedDB.open(NAME, MIGRATIONS.length);
  request.onupgradeneeded = ({ oldVersion }) => {
    const transaction = /** @type {IDBTransaction} */ (request.transaction);
    for (const step of MIGRATIONS.slice(oldVersion)) step(request.result, transaction);
  };
  const opening = result(request);
  let isLate = false;
  const late = new Promise((_, reject) => {
    setTimeout(() => reject(new Error("The browser's database does not answer.")), OPEN_MS);
  });
  late.catch(() => (isLate = true));
  void opening.then((database) => isLate && database.close(), () => {});
  const database = /** @type {IDBDatabase} */ (await Promise.race([opening, late]));
  // A newer page in another tab wants to change the format, or the person deletes it: this one gives way.
  database.onversionchange = ({ newVersion }) => {
    database.close();
    onLost(newVersion !== null);
  };
  database.onclose = () => onLost(false);
  return new LastingStore(database);
}

/** @param {Store} store @returns {Promise<Thread[]>} What it holds, the last changed first. */
export async function everyThread(store) {
  const threads = await Promise.all((await store.list()).map(({ id }) => store.get(id)));
  return threads.filter((thread) => thread !== null);
}

/** @implements {Store} */
class LastingStore {
  isLasting = true;

  /** @param {IDBDatabase} database */
  constructor(database) {
    this.database = database;
  }

  /** @param {IDBTransactionMode} [mode] */
  #begin(mode = "readonly") {
    const transaction = this.database.transaction(["threads", "trees"], mode);
    const [threads, trees] = [transaction.objectStore("threads"), transaction.objectStore("trees")];
    return { transaction, threads, trees };
  }

  async list() {
    const rows = await result(this.#begin().threads.index("updatedAt").getAll());
    return /** @type {ThreadRow[]} */ (rows).reverse();
  }

  /** @param {string} id */
  async get(id) {
    const { threads, trees } = this.#begin();
    const [row, tree] = await Promise.all([result(threads.get(id)), result(trees.get(id))]);
    return row && tree ? /** @type {Thread} */ ({ ...row, ...tree }) : null;
  }

  /** @param {Thread} thread */
  async put(thread) {
    const { transaction, threads, trees } = this.#begin("readwrite");
    const end = ended(transaction);
    end.catch(() => {}); // awaited below, unless a read fails first
    const held = await result(threads.get(thread.id));
    const isNew = !held || held.version === thread.version;
    const heldTree = isNew ? { nodes: [] } : await result(trees.get(thread.id));
    const next = settled(thread, held ? { ...held, ...heldTree } : null);
    if (next) {
      const { row, tree } = parted(next);
      threads.put(row);
      trees.put(tree);
    }
    await end;
    return next;
  }

  /** @param {string} id */
  async remove(id) {
    const { transaction, threads, trees } = this.#begin("readwrite");
    threads.delete(id);
    trees.delete(id);
    await ended(transaction);
  }

  async clear() {
    const { transaction, threads, trees } = this.#begin("readwrite");
    threads.clear();
    trees.clear();
    await ended(transaction);
  }

  /**
   * One conversation at a time, so that many of them do not hold the page up.
   * @param {string} words @param {() => boolean} isWanted
   */
  async search(words, isWanted) {
    const hits = new Map();
    for (const { id } of await this.list()) {
      if (!isWanted()) break;
      const thread = await this.get(id);
      const text = thread && found(thread, words.toLowerCase());
      if (text) hits.set(id, text);
    }
    return hits;
  }

  close() {
    this.database.close();
  }
}

/** For the life of the tab. @implements {Store} */
export class MemoryStore {
  isLasting = false;
  /** @type {Map<string, Thread>} */
  #threads = new Map();

  async list() {
    const rows = [...this.#threads.values()].map((thread) => parted(thread).row);
    return rows.sort((a, b) => b.updatedAt - a.updatedAt);
  }

  /** @param {string} id */
  async get(id) {
    return structuredClone(this.#threads.get(id) ?? null);
  }

  /** @param {Thread} thread */
  async put(thread) {
    const next = settled(structuredClone(thread), this.#threads.get(thread.id) ?? null);
    if (next) this.#threads.set(thread.id, next);
    return structuredClone(next);
  }

  /** @param {string} id */
  async remove(id) {
    this.#threads.delete(id);
  }

  async clear() {
    this.#threads.clear();
  }

  /** @param {string} words */
  async search(words) {
    const hits = [...this.#threads.values()].map((thread) => [thread.id, found(thread, words.toLowerCase())]);
    return new Map(/** @type {[string, string][]} */ (hits.filter(([, text]) => text)));
  }

  close() {}
}
