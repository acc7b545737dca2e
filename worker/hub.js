// @ts-check
/**
 * The public hub of models: its addresses, its API, and the commit that a file is read from. Page and
 * worker both import this; HUB is the one place that names the host, and a site's models.json may name
 * another.
 */

import { decoded } from "./names.js";

export const HUB = "https://huggingface.co";

const COMMIT = /^[0-9a-f]{40}$/;
const OWNER_NAME = /^[\w.-]+\/[\w.-]+$/;
const PART = /-(\d{5})-of-(\d{5})(?=\.gguf$)/i;

/** @typedef {import("./protocol.js").ModelSource} ModelSource */
/** @typedef {Extract<ModelSource, {kind: "url"}>} UrlSource */
/** @typedef {{repo: string, revision: string, path: string}} HubFile */
/** @typedef {{path: string, nBytes: number, sha256: string}} HubEntry A file of a repository. */

/**
 * The file that an address of the hub names; null for any other address.
 * @param {string} text @param {string} hub @returns {HubFile | null}
 */
export function hubFile(text, hub) {
  const url = new URL(text);
  if (url.origin !== new URL(hub).origin) return null;
  const found = /^\/([^/]+\/[^/]+)\/(?:resolve|blob)\/([^/]+)\/(.+)$/.exec(url.pathname);
  if (!found) return null;
  return { repo: found[1], revision: found[2], path: decoded(found[3]) };
}

/**
 * The repository that a person means by `owner/name`, or by the address of its page; "" if neither.
 * @param {string} text @param {string} hub
 */
export function repoOf(text, hub) {
  const typed = text.trim().replace(/\/+$/, "");
  if (OWNER_NAME.test(typed) && !/\.gguf$/i.test(typed)) return typed;
  if (!typed.startsWith(`${hub}/`)) return "";
  const path = typed.slice(hub.length + 1).replace(/\/tree\/[^/]+$/, "");
  return OWNER_NAME.test(path) ? path : "";
}

/** @param {string} hub @param {HubFile} file */
export function fileUrl(hub, { repo, revision, path }) {
  return `${hub}/${repo}/resolve/${revision}/${path.split("/").map(encodeURIComponent).join("/")}`;
}

/** Number and count if a file is one of several that make a model; else null. @param {string} name */
export function partOf(name) {
  const found = PART.exec(name);
  return found ? { number: Number(found[1]), count: Number(found[2]) } : null;
}

/** The name of part `number` of the same model. @param {string} name @param {number} number */
export function partName(name, number) {
  return name.replace(PART, (_, __, count) => `-${String(number).padStart(5, "0")}-of-${count}`);
}

/** What the hub answers to a question that it refuses. */
export class HubRefusal extends Error {
  /** @param {string} message @param {number} status 0: it could not be reached. */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/**
 * @param {string} hub @param {string} path Below /api/models/.
 * @param {{token?: string, signal?: AbortSignal}} how
 */
async function ask(hub, path, { token, signal }) {
  /** @type {Record<string, string>} */
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  let response;
  try {
    response = await fetch(`${hub}/api/models/${path}`, { headers, signal, cache: "no-store" });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new HubRefusal(`${new URL(hub).host} cannot be reached`, 0);
  }
  if (!response.ok) {
    throw new HubRefusal(`${new URL(hub).host} answered ${response.status}`, response.status);
  }
  return response.json();
}

/**
 * The commit that `main` is now.
 * @param {string} hub @param {string} repo @param {string} revision
 * @param {{token?: string, signal?: AbortSignal}} how
 * @returns {Promise<string>}
 */
export async function commitOf(hub, repo, revision, how = {}) {
  if (COMMIT.test(revision)) return revision;
  const { sha } = await ask(hub, `${repo}/revision/${revision}`, how);
  if (typeof sha === "string" && COMMIT.test(sha)) return sha;
  throw new HubRefusal(`${new URL(hub).host} names no commit of ${repo}`, 200);
}

/**
 * The files of a commit.
 * @param {string} hub @param {string} repo @param {string} commit
 * @param {{token?: string, signal?: AbortSignal}} how
 * @returns {Promise<HubEntry[]>}
 */
export async function listFiles(hub, repo, commit, how = {}) {
  const entries = await ask(hub, `${repo}/tree/${commit}?recursive=1`, how);
  if (!Array.isArray(entries)) throw new HubRefusal(`${new URL(hub).host} lists no files`, 200);
  return entries
    .filter((entry) => entry?.type === "file" && typeof entry.path === "string")
    .map(({ path, size, lfs }) => ({
      path,
      nBytes: Number(lfs?.size ?? size) || 0,
      sha256: /^[0-9a-f]{64}$/.test(lfs?.oid ?? "") ? lfs.oid : "",
    }));
}

/**
 * A source whose address names a commit, with the size and hash of its file.
 * @typedef {object} Pinned
 * @property {UrlSource} source
 * @property {Map<string, {nBytes: number, sha256: string}>} known By address, other parts included.
 * @property {string} note Why it is not pinned after all, or "".
 */

/**
 * Pins a source to a commit: to the one of the copy on this device, if there is one, or else to the
 * one that the hub names now. Where the hub does not answer, the source stays as it is, with a note.
 * @param {UrlSource} source
 * @param {{url: string, nBytes: number, sha256: string}[]} stored
 * @param {AbortSignal} signal
 * @returns {Promise<Pinned>}
 */
export async function pinned(source, stored, signal) {
  const hub = source.hub ?? "";
  const file = hub && hubFile(source.url, hub);
  /** @type {Pinned["known"]} */
  const known = new Map();
  if (!file) return { source, known, note: "" };
  const how = { token: source.token, signal };
  const kept = stored.find(({ url }) => url.startsWith(hub) && isSame(hubFile(url, hub), file));
  if (kept) {
    const { url, nBytes, sha256 } = kept;
    const folder = url.slice(0, url.lastIndexOf("/") + 1);
    for (const other of stored) if (other.url.startsWith(folder)) known.set(other.url, other);
    if (partOf(url)) await learn(hub, /** @type {HubFile} */ (hubFile(url, hub)), how, known).catch(ignored);
    return { source: { ...source, url, nBytes, sha256 }, known, note: "" };
  }
  try {
    const revision = await commitOf(hub, file.repo, file.revision, how);
    await learn(hub, { ...file, revision }, how, known);
    const url = fileUrl(hub, { ...file, revision });
    return { source: { ...source, url, ...known.get(url) }, known, note: "" };
  } catch (error) {
    if (!(error instanceof HubRefusal)) throw error;
    const note = `The hub did not say which version of the file this is (${error.message}): it is read from ${file.revision} as it is now.`;
    return { source, known, note };
  }
}

/**
 * Sizes and hashes of a commit's files, by address.
 * @param {string} hub @param {HubFile} file Any of them.
 * @param {{token?: string, signal?: AbortSignal}} how
 * @param {Pinned["known"]} known Gets what is not in it.
 */
async function learn(hub, { repo, revision }, how, known) {
  for (const { path, nBytes, sha256 } of await listFiles(hub, repo, revision, how)) {
    const url = fileUrl(hub, { repo, revision, path });
    if (!known.has(url)) known.set(url, { nBytes, sha256 });
  }
}

/** Parts that are not here yet are then fetched without their hashes. @param {unknown} error */
function ignored(error) {
  if (!(error instanceof HubRefusal)) throw error;
  console.info("The hub tells no hashes of further parts.", error);
}

/**
 * Whether a stored file is the one asked for: the same commit, or any if a branch was named.
 * @param {HubFile | null} stored @param {HubFile} wanted
 */
function isSame(stored, wanted) {
  if (!stored || stored.repo !== wanted.repo || stored.path !== wanted.path) return false;
  if (COMMIT.test(wanted.revision)) return stored.revision === wanted.revision;
  return COMMIT.test(stored.revision);
}
