// @ts-check
/**
 * Keeps the page usable without a network, and isolates it where the host cannot.
 *
 * `build.py site` writes this file with the constant SITE in front: every file of one version of
 * the site with its hash. A copy holds all of them or is not used at all, so a page never mixes two
 * versions. Models are not here (the engine keeps them in the browser's private files), and what
 * comes from other hosts is never touched.
 */

/**
 * @typedef {object} Site
 * @property {string} version
 * @property {Record<string, string>} files Path below the site to the hash of what is there.
 * @property {string} policy The page's Content-Security-Policy.
 * @property {boolean} isIsolating
 */
/** @typedef {{kind: "fill" | "take over"}} Order What a page says. */

const worker = /** @type {ServiceWorkerGlobalScope} */ (/** @type {unknown} */ (self));
const scope = worker.registration.scope;
const FAMILY = `rushlight ${new URL(scope).pathname} `;
const COPY = FAMILY + SITE.version;
const COMPLETE = new URL("?complete", scope).href;
const HASH = "x-rushlight-hash";
const AT_ONCE = 4;
/** What a host may have said about a file that must hold offline too. */
const KEPT_HEADERS = [
  "content-type",
  "content-security-policy",
  "cross-origin-opener-policy",
  "cross-origin-embedder-policy",
  "cross-origin-resource-policy",
  "referrer-policy",
];
const ISOLATION = {
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-embedder-policy": "require-corp",
  "cross-origin-resource-policy": "same-origin",
};

let isComplete = false;

/** @param {string} name */
const addressOf = (name) => new URL(name === "index.html" ? "./" : name, scope).href;

/** @param {Request} request Its name in SITE.files, or "". */
function nameOf({ url, method }) {
  if (method !== "GET" || !url.startsWith(scope)) return "";
  const path = decodeURIComponent(url.slice(scope.length).split(/[?#]/)[0]);
  return Object.hasOwn(SITE.files, path || "index.html") ? path || "index.html" : "";
}

/** Whether the copy of this version is whole; the browser may have thrown it away meanwhile. */
async function checkComplete() {
  isComplete ||= !!(await caches.match(COMPLETE, { cacheName: COPY }));
  return isComplete;
}

/** @param {Headers} given */
function ownHeaders(given) {
  const headers = new Headers({ "content-security-policy": SITE.policy });
  for (const name of KEPT_HEADERS) {
    const value = given.get(name);
    if (value) headers.set(name, value);
  }
  if (SITE.isIsolating) for (const [name, value] of Object.entries(ISOLATION)) headers.set(name, value);
  return headers;
}

/** @param {string} name @param {Response} response As it is kept: a redirect behind it is gone. */
function kept(name, response) {
  const headers = ownHeaders(response.headers);
  headers.set(HASH, SITE.files[name]);
  headers.set("server-timing", "copy"); // so that the page's list of requests can tell
  return new Response(response.body, { headers });
}

/**
 * A file as the list says; the browser checks its hash.
 * @param {string} name
 */
async function download(name) {
  const integrity = SITE.files[name];
  const get = (/** @type {RequestCache} */ cache) => fetch(addressOf(name), { integrity, cache });
  // The browser has most of it from the page's own start, but maybe of the version before.
  const response = await get("default").catch(() => get("reload"));
  if (response.ok) return response;
  throw new Error(`the server answered ${response.status} for ${name}`);
}

/** @param {Cache[]} older Copies of versions before. @param {string} name */
async function fromOlder(older, name) {
  for (const copy of older) {
    const found = await copy.match(addressOf(name));
    if (found?.headers.get(HASH) === SITE.files[name]) return found;
  }
  return null;
}

/** Makes the copy whole; goes on where an earlier try ended. */
async function fill() {
  if (await checkComplete()) return;
  const names = (await caches.keys()).filter((name) => name.startsWith(FAMILY) && name !== COPY);
  const older = await Promise.all(names.map((name) => caches.open(name)));
  const copy = await caches.open(COPY);
  const left = Object.keys(SITE.files);
  const fillNext = async () => {
    for (let name = left.shift(); name !== undefined; name = left.shift()) {
      if (await copy.match(addressOf(name))) continue;
      const found = (await fromOlder(older, name)) ?? (await download(name));
      await copy.put(addressOf(name), kept(name, found));
    }
  };
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, fillNext));
  } catch (error) {
    left.length = 0; // the other three stop too
    throw error;
  }
  await copy.put(COMPLETE, new Response(""));
  isComplete = true;
}

/** @type {Promise<void> | null} One at a time, whoever asks. */
let filling = null;
const fillOnce = () => (filling ??= fill().finally(() => (filling = null)));

/** @type {string[]} Addresses fetched for a page, which has a record of them itself. */
const passedOn = [];

/** @param {Request} request @param {string} name */
async function answer(request, name) {
  if (await checkComplete()) {
    const found = await caches.match(addressOf(name), { cacheName: COPY });
    if (found) return found;
  }
  passedOn.push(request.url);
  const response = await fetch(request);
  if (!SITE.isIsolating || response.type !== "basic") return response;
  const { status, statusText } = response;
  return new Response(response.body, { status, statusText, headers: ownHeaders(response.headers) });
}

worker.addEventListener("install", (event) => {
  // A first version has nothing to wait for: the page asks for the copy when it is at rest. A later
  // one is whole before it counts as ready, and the one before stays in use until a person agrees.
  event.waitUntil(worker.registration.active ? fillOnce() : worker.skipWaiting());
  event.waitUntil(tellRequests([ownFetch()]));
});

worker.addEventListener("activate", (event) => {
  const tidy = async () => {
    for (const name of await caches.keys()) {
      if (name.startsWith(FAMILY) && name !== COPY) await caches.delete(name);
    }
    await worker.clients.claim();
  };
  event.waitUntil(tidy());
});

worker.addEventListener("fetch", (event) => {
  const name = nameOf(event.request);
  if (name) event.respondWith(answer(event.request, name));
});

worker.addEventListener("message", (event) => {
  const { kind } = /** @type {Order} */ (event.data);
  if (kind === "take over") return event.waitUntil(worker.skipWaiting());
  const tell = (/** @type {object} */ news) => event.source?.postMessage({ kind: "copy", ...news });
  const whole = () => tell({ isWhole: true, why: "" });
  event.waitUntil(fillOnce().then(whole, (error) => tell({ isWhole: false, why: String(error) })));
});

/**
 * What this worker fetched itself belongs into the page's list of requests.
 * @param {object[]} entries
 */
async function tellRequests(entries) {
  for (const client of await worker.clients.matchAll({ includeUncontrolled: true })) {
    client.postMessage({ kind: "requests", timeOrigin: performance.timeOrigin, entries });
  }
}

/** No record of the browser's is about the fetch of this file. */
const ownFetch = () => ({
  ...{ name: worker.location.href, initiatorType: "service worker", startTime: 0, duration: 0 },
  ...{ transferSize: 0, encodedBodySize: 0, workerStart: 0, serverTiming: [], responseStatus: 200 },
});

/** @param {PerformanceEntry} entry */
function isOwn({ name }) {
  const at = passedOn.indexOf(name);
  if (at >= 0) passedOn.splice(at, 1);
  return at < 0;
}

new PerformanceObserver((list) => {
  const own = list.getEntries().filter(isOwn);
  void tellRequests(own.map((entry) => ({ ...entry.toJSON(), serverTiming: [] })));
}).observe({ type: "resource", buffered: true });
