// @ts-check
/** Every request of the page, its engine and its service worker, for a person to look through. */

import { watchRequests, recordOf } from "../worker/request_log.js";
import { formatBytes, part } from "./dom.js";

/** @typedef {import("../worker/request_log.js").RequestRecord} RequestRecord */
/**
 * Requests for one address that went alike.
 * @typedef {object} Row
 * @property {string} url
 * @property {string} kind
 * @property {string} from
 * @property {number} count
 * @property {number} nBytes
 * @property {number} atMs Of the first.
 */

/** Workers with this name report their requests here; another tab's have another name. */
export const REQUEST_CHANNEL = `rushlight-${performance.timeOrigin}-${Math.random()}`;

const KINDS = [
  { kind: "script", ends: /\.m?js$/ },
  { kind: "style", ends: /\.css$/ },
  { kind: "image", ends: /\.(svg|png|ico)$/ },
  { kind: "WebAssembly", ends: /\.wasm$/ },
  { kind: "Python", ends: /\.(whl|zip)$/ },
  { kind: "model", ends: /\.gguf$/ },
  { kind: "data", ends: /\.(json|webmanifest)$/ },
];

/** @param {RequestRecord} record */
function kindOf({ url, initiator }) {
  if (initiator === "navigation") return "page";
  const { pathname } = new URL(url);
  return KINDS.find(({ ends }) => ends.test(pathname))?.kind ?? "file";
}

/** @param {RequestRecord} record */
function originOf({ nBytes, bodyBytes, status, isPassedOn, isCopy, initiator, url }) {
  if (initiator === "blocked") return "refused by this page";
  if (initiator === "redirect") return "sent on to";
  if (!status || status >= 400) return status ? `failed (${status})` : "failed";
  if (isCopy) return "offline copy";
  const isHere = new URL(url).origin === location.origin;
  return isHere && !isPassedOn && !nBytes && bodyBytes ? "browser cache" : "network";
}

export class NetworkLog {
  #dialog = /** @type {HTMLDialogElement} */ (part("network-dialog"));
  /** @type {RequestRecord[]} */
  #records = [];

  constructor() {
    this.#add(performance.getEntriesByType("navigation").map((entry) => recordOf(entry)));
    watchRequests((records) => this.#add(records));
    const channel = new BroadcastChannel(REQUEST_CHANNEL);
    channel.addEventListener("message", ({ data }) => this.#add(data));
    navigator.serviceWorker?.addEventListener("message", ({ data }) => {
      if (data.kind !== "requests") return;
      this.#add(data.entries.map((/** @type {object} */ e) => recordOf(e, data.timeOrigin)));
    });
    document.addEventListener("securitypolicyviolation", (event) => this.#addBlocked(event));
    part("network-open").addEventListener("click", () => {
      this.#show();
      this.#dialog.showModal();
    });
  }

  /** @param {RequestRecord[]} records */
  #add(records) {
    this.#records.push(...records);
    const words = summary(this.#records);
    for (const id of ["network-summary", "network-summary-again"]) part(id).textContent = words;
    if (this.#dialog.open) this.#show();
  }

  /** @param {SecurityPolicyViolationEvent} event */
  #addBlocked({ blockedURI, timeStamp }) {
    if (!URL.canParse(blockedURI)) return; // "inline" and the like: nothing that a host would see
    const atMs = performance.timeOrigin + timeStamp;
    const none = { tookMs: 0, nBytes: 0, bodyBytes: 0, status: 0, isPassedOn: false, isCopy: false };
    this.#add([{ url: blockedURI, initiator: "blocked", atMs, ...none }]);
  }

  #show() {
    part("network-rows").replaceChildren(...rowsOf(this.#records).map(tableRow));
  }
}

/**
 * In words what a person wants to know: whether anybody else was asked.
 * @param {RequestRecord[]} records
 */
export function summary(records) {
  const made = records.filter(({ initiator }) => initiator !== "blocked");
  /** @type {Map<string, number>} */
  const others = new Map();
  for (const { url } of made) {
    const { origin, host } = new URL(url);
    if (origin !== location.origin) others.set(host, (others.get(host) ?? 0) + 1);
  }
  const nOther = [...others.values()].reduce((sum, n) => sum + n, 0);
  const nHere = made.length - nOther;
  const here = `${nHere} request${nHere === 1 ? "" : "s"}`;
  if (!nOther) return `${here}, all to this site.`;
  const named = [...others].map(([host, n]) => `${n} to ${host}`);
  return `${here} to this site, and ${named.join(", ")} for the model.`;
}

/** @param {RequestRecord[]} records @returns {Row[]} In the order of their first. */
function rowsOf(records) {
  /** @type {Map<string, Row>} */
  const rows = new Map();
  for (const record of [...records].sort((a, b) => a.atMs - b.atMs)) {
    const { url, atMs } = record;
    const from = originOf(record);
    const key = `${from} ${url}`;
    const row = rows.get(key) ?? { url, kind: kindOf(record), from, count: 0, nBytes: 0, atMs };
    row.count += 1;
    row.nBytes += record.nBytes || (from === "network" ? record.bodyBytes : 0);
    rows.set(key, row);
  }
  return [...rows.values()];
}

/** @param {Row} row */
function tableRow({ url, kind, from, count, nBytes, atMs }) {
  const line = document.createElement("tr");
  line.dataset.url = url;
  line.dataset.count = String(count);
  const { origin, host, pathname } = new URL(url);
  const path = pathname.split("/").pop() || pathname;
  const name = cell(origin === location.origin ? path : `${host}/…/${path}`);
  name.title = url;
  if (count > 1) name.append(` × ${count}`);
  const time = new Date(atMs).toLocaleTimeString();
  line.append(name, cell(kind), cell(nBytes ? formatBytes(nBytes) : "–"), cell(from), cell(time));
  return line;
}

/** @param {string} text */
function cell(text) {
  const made = document.createElement("td");
  made.textContent = text;
  return made;
}
