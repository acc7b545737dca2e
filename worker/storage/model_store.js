// @ts-check
/**
 * Model files kept in the browser's private file system (OPFS), a folder each: "data", as long as
 * the file, and "journal". A Web Lock per model keeps two tabs from writing one file.
 */

import { Failure } from "../failure.js";
import { Journal, sha256Hex } from "./journal.js";

/** @typedef {import("./journal.js").Identity} Identity */
/**
 * @typedef {object} StoredModel
 * @property {string} key
 * @property {string} name
 * @property {string} url
 * @property {number} nBytes Of the file.
 * @property {number} storedBytes
 * @property {number} usedMs When it was last loaded, in milliseconds since 1970.
 * @property {boolean} isComplete
 * @property {string} sha256 Of the whole file, as its host says; or "".
 */

/**
 * What TypeScript's table of the browser's objects lacks: it is for pages, and this for workers.
 * @typedef {object} SyncHandle
 * @property {(into: Uint8Array, options: {at: number}) => number} read
 * @property {(bytes: Uint8Array, options: {at: number}) => number} write
 * @property {() => number} getSize
 * @property {(size: number) => void} truncate
 * @property {() => void} flush
 * @property {() => void} close
 */
/** @typedef {FileSystemFileHandle & {createSyncAccessHandle: () => Promise<SyncHandle>}} FileHandle */
/** @typedef {AsyncIterable<[string, FileSystemHandle]>} Entries */

const FOLDER = "models";

/** The folder of all models; null where the browser keeps nothing for this page. */
async function modelsFolder() {
  try {
    const root = await navigator.storage.getDirectory();
    return await root.getDirectoryHandle(FOLDER, { create: true });
  } catch {
    return null; // private mode, or an old browser: models are read from their host each time
  }
}

/** @param {string} url */
export async function keyOf(url) {
  return (await sha256Hex(new TextEncoder().encode(url))).slice(0, 32);
}

/**
 * Holds a model's lock; null if another tab has it.
 * @param {string} key
 * @returns {Promise<(() => void) | null>} A function that gives it back.
 */
function takeLock(key) {
  return new Promise((resolve, reject) => {
    navigator.locks
      .request(`rushlight-model-${key}`, { ifAvailable: true }, (lock) => {
        if (!lock) return resolve(null);
        return new Promise((release) => resolve(() => release(undefined)));
      })
      .catch(reject);
  });
}

/** An open stored file, this tab's own until it is closed. */
export class StoredFile {
  /**
   * @param {string} key
   * @param {Journal} journal
   * @param {SyncHandle} data
   * @param {SyncHandle} log
   * @param {() => void} unlock
   */
  constructor(key, journal, data, log, unlock) {
    this.key = key;
    this.journal = journal;
    this.data = data;
    this.log = log;
    this.unlock = unlock;
  }

  /** @param {number} offset @param {Uint8Array<ArrayBuffer>} into Filled whole, or it throws. */
  read(offset, into) {
    const got = this.data.read(into, { at: offset });
    if (got !== into.length) throw new RangeError(`${got} of ${into.length} bytes at ${offset}`);
  }

  /**
   * Puts a chunk on disk, then says so: a tab that closes in between has merely not stored it.
   * @param {number} index @param {number} offset @param {Uint8Array<ArrayBuffer>} bytes
   */
  async put(index, offset, bytes) {
    const hash = await sha256Hex(bytes);
    if (this.data.write(bytes, { at: offset }) !== bytes.length) {
      throw new DOMException("A chunk was written in part.", "QuotaExceededError");
    }
    this.data.flush();
    this.note(`c ${index} ${hash}`);
    this.journal.chunks.set(index, hash);
  }

  /** @param {string} line */
  note(line) {
    this.log.write(new TextEncoder().encode(`${line}\n`), { at: this.log.getSize() });
    this.log.flush();
  }

  /** Forgets everything and starts anew. @param {Identity} identity */
  restart(identity) {
    this.journal = new Journal(identity);
    this.log.truncate(0);
    this.data.truncate(0);
    this.note(this.journal.firstLine().trimEnd());
  }

  /** Drops a chunk that no longer has its hash; a later one of the same index counts again. */
  forget(/** @type {number} */ index) {
    this.journal.chunks.delete(index);
  }

  close() {
    this.data.close();
    this.log.close();
    this.unlock();
  }
}

/**
 * Opens the stored file of an address for reading and writing.
 * @param {string} url
 * @returns {Promise<StoredFile | string>} Or why there is none, for a person to read.
 */
export async function openStored(url) {
  const models = await modelsFolder();
  if (!models) return "This browser keeps no files for this page: the model is fetched each time.";
  const key = await keyOf(url);
  const unlock = await takeLock(key);
  if (!unlock) return "Another tab is loading this model: it is fetched again, without storing it.";
  /** @type {SyncHandle[]} */
  const open = [];
  try {
    const folder = await models.getDirectoryHandle(key, { create: true });
    for (const name of ["data", "journal"]) {
      const handle = /** @type {FileHandle} */ (await folder.getFileHandle(name, { create: true }));
      open.push(await handle.createSyncAccessHandle());
    }
    const [data, log] = open;
    const text = new Uint8Array(log.getSize());
    log.read(text, { at: 0 });
    const journal = Journal.parse(new TextDecoder().decode(text));
    const blank = { url, name: "", size: 0, version: "", sha256: "" };
    return new StoredFile(key, journal ?? new Journal(blank), data, log, unlock);
  } catch (error) {
    for (const handle of open) handle.close();
    unlock();
    return `The browser's storage does not work (${error}): the model is fetched each time.`;
  }
}

/**
 * Every stored model, the last used first.
 * @returns {Promise<StoredModel[]>}
 */
export async function listModels() {
  const models = await modelsFolder();
  if (!models) return [];
  /** @type {StoredModel[]} */
  const found = [];
  const entries = /** @type {{entries: () => Entries}} */ (/** @type {unknown} */ (models));
  for await (const [key, handle] of entries.entries()) {
    if (handle.kind !== "directory") continue;
    const journal = await readJournal(/** @type {FileSystemDirectoryHandle} */ (handle));
    const blank = { name: key, url: "", size: 0, sha256: "" };
    const { name, url, size, sha256 } = journal?.identity ?? blank;
    found.push({
      key,
      name,
      url,
      nBytes: size,
      storedBytes: journal?.storedBytes ?? 0,
      usedMs: journal?.usedMs ?? 0,
      isComplete: journal?.isComplete ?? false,
      sha256,
    });
  }
  return found.sort((a, b) => b.usedMs - a.usedMs);
}

/** @param {FileSystemDirectoryHandle} folder */
async function readJournal(folder) {
  try {
    const file = await (await folder.getFileHandle("journal")).getFile();
    return Journal.parse(await file.text());
  } catch {
    return null; // listed by its key all the same, so that it can be deleted
  }
}

/**
 * Deletes a stored model. Throws "busy" while a tab loads it.
 * @param {string} key
 */
export async function deleteModel(key) {
  const models = await modelsFolder();
  if (!models) return;
  const unlock = await takeLock(key);
  if (!unlock) {
    throw new Failure("busy", "A tab is loading this model.", "Wait for it, or close that tab.");
  }
  try {
    await models.removeEntry(key, { recursive: true });
  } catch (error) {
    if (!(error instanceof DOMException) || error.name !== "NotFoundError") throw error;
  } finally {
    unlock();
  }
}

/**
 * Whether a file could be stored, if need be in place of others. Browsers that do not say are tried.
 * @param {number} nBytes Still to be stored.
 * @param {string} keep Its key.
 * @returns {Promise<{fits: boolean, most: number}>} `most` bytes could be had.
 */
export async function roomFor(nBytes, keep) {
  const { usage = 0, quota = 0 } = await navigator.storage.estimate();
  const others = (await listModels()).filter(({ key }) => key !== keep);
  const most = quota - usage + others.reduce((sum, { storedBytes }) => sum + storedBytes, 0);
  return { fits: !quota || nBytes <= most, most };
}

/**
 * Makes room: deletes the model that was not used for the longest time.
 * @param {string} keep The key of one that must stay.
 * @returns {Promise<string>} Its name; "" if there is none to delete.
 */
export async function evictOldest(keep) {
  const others = (await listModels()).filter(({ key }) => key !== keep).reverse();
  for (const { key, name } of others) {
    try {
      await deleteModel(key);
      return name;
    } catch (error) {
      if (!(error instanceof Failure)) throw error; // in use by a tab: the next one
    }
  }
  return "";
}
