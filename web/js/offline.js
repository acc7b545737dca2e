// @ts-check
/** The page without a network: its service worker, the prompt for a new version, isolation by it. */

import { announce, attempt, part } from "./dom.js";

const TRIED = "rushlight.isolation-tried";
const START_MS = 5_000;
const REST_MS = 2_000;
const CHECK_MS = 3_600_000;

const container = attempt(() => navigator.serviceWorker);

/** Throws where the browser has no service workers for this page, or refuses this one. */
async function register() {
  if (!container) throw new Error("the browser offers no service worker here");
  const script = new URL("../service_worker.js", import.meta.url);
  const registration = await container.register(script, { updateViaCache: "none" });
  if (!registration) throw new Error("the browser ignored the service worker");
  return registration;
}

/**
 * Where the site is built with `--isolation` and its host sends no isolation headers: the service
 * worker takes the page over, which needs one reload. Whatever goes wrong, the page starts all the
 * same; a browser session that did not get isolated is not reloaded again.
 */
export async function isolate() {
  const mode = /** @type {HTMLMetaElement | null} */ (
    document.querySelector("meta[name=rushlight-isolation]")
  )?.content;
  if (mode !== "service-worker") return;
  try {
    if (crossOriginIsolated) return sessionStorage.removeItem(TRIED);
    if (container?.controller || sessionStorage.getItem(TRIED)) {
      return console.info("The service worker did not isolate the page: one CPU thread.");
    }
    await register();
    const late = new Promise((_, reject) => setTimeout(reject, START_MS, new Error("it is late")));
    await Promise.race([/** @type {ServiceWorkerContainer} */ (container).ready, late]);
    sessionStorage.setItem(TRIED, "yes");
    location.reload();
    await new Promise(() => {}); // this page is over
  } catch (error) {
    console.info("The page is not isolated, so it has one CPU thread.", error);
  }
}

/** Keeps the page for offline use once it is at rest, and offers new versions. */
export class Offline {
  #prompt = part("update");
  /** @type {ServiceWorkerRegistration | null} */
  #registration = null;
  #isReloading = false;
  #checkedMs = Date.now();

  async start() {
    part("update-reload").addEventListener("click", () => this.#reload());
    part("update-later").addEventListener("click", () => (this.#prompt.hidden = true));
    this.#watchOthers();
    try {
      await atRest();
      this.#registration = await register();
      this.#watch(this.#registration);
      await this.#fill();
    } catch (error) {
      this.#say("unavailable", `This page needs a network each time: ${wordsOf(error)}.`);
      console.info("No offline copy.", error);
    }
  }

  /** Has the files kept; answers when all are. */
  async #fill() {
    this.#say("filling", "This page is being kept for use without a network…");
    const { active } = await /** @type {ServiceWorkerContainer} */ (container).ready;
    const done = new Promise((resolve, reject) => {
      container?.addEventListener("message", ({ data }) => {
        if (data.kind === "copy") data.isWhole ? resolve(null) : reject(new Error(data.why));
      });
    });
    container?.startMessages();
    active?.postMessage({ kind: "fill" });
    await done;
    this.#say("ready", "This page opens without a network too.");
  }

  /** @param {ServiceWorkerRegistration} registration */
  #watch(registration) {
    const offerOnceWhole = (/** @type {ServiceWorker | null} */ next) => {
      const isFirst = !registration.active;
      next?.addEventListener("statechange", () => {
        if (next.state === "installed" && !isFirst) this.#offer();
      });
    };
    if (registration.waiting) this.#offer();
    offerOnceWhole(registration.installing);
    registration.addEventListener("updatefound", () => offerOnceWhole(registration.installing));
    document.addEventListener("visibilitychange", () => this.#check(registration));
  }

  /** Another tab may take the new version, also before this one has come to rest. */
  #watchOthers() {
    let isControlled = !!container?.controller;
    container?.addEventListener("controllerchange", () => {
      if (this.#isReloading) location.reload();
      else if (isControlled) this.#offer();
      isControlled = true;
    });
  }

  /** A page that stays open for days asks for itself. @param {ServiceWorkerRegistration} registration */
  #check(registration) {
    if (document.hidden || Date.now() - this.#checkedMs < CHECK_MS) return;
    this.#checkedMs = Date.now();
    registration.update().catch((error) => console.info("No new version was looked for.", error));
  }

  #offer() {
    this.#prompt.hidden = false;
    announce("A new version is ready.");
  }

  #reload() {
    this.#isReloading = true;
    const waiting = this.#registration?.waiting;
    if (waiting) waiting.postMessage({ kind: "take over" });
    else location.reload();
  }

  /** @param {string} state @param {string} words */
  #say(state, words) {
    const status = part("offline-status");
    status.dataset.state = state;
    status.textContent = words;
  }
}

/** Resolves when no model loads and no reply is being written, and has not for a moment. */
function atRest() {
  return new Promise((resolve) => {
    let timer = 0;
    const look = () => {
      clearTimeout(timer);
      const isBusy = !["ready", "error"].includes(document.body.dataset.state ?? "");
      if (!isBusy) timer = setTimeout(resolve, REST_MS);
    };
    const observer = new MutationObserver(look);
    observer.observe(document.body, { attributes: true, attributeFilter: ["data-state"] });
    look();
  });
}

/** @param {unknown} error */
function wordsOf(error) {
  const text = error instanceof Error ? error.message : String(error);
  return text.replace(/^\w*Error: /, "").replace(/\.$/, "");
}
