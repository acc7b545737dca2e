// @ts-check
/** Small helpers for the document: finding parts by id, sizes as text, storage that may be absent. */

/**
 * The element with this id; its absence is a mistake in index.html.
 * @template {HTMLElement} [T=HTMLElement]
 * @param {string} id
 * @returns {T}
 */
export function part(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`index.html has no element #${id}`);
  return /** @type {T} */ (element);
}

/**
 * @param {string} id
 * @returns {HTMLElement} A fresh copy of the template's only element.
 */
export function stamp(id) {
  const template = /** @type {HTMLTemplateElement} */ (/** @type {unknown} */ (part(id)));
  const first = template.content.firstElementChild;
  return /** @type {HTMLElement} */ (/** @type {Element} */ (first).cloneNode(true));
}

/**
 * An icon from the sprite in index.html.
 * @param {string} name
 */
export function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("class", "icon small");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(space, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

const UNITS = ["B", "kB", "MB", "GB", "TB"];

/**
 * Bytes as a person reads them: "253 MB", "1.4 GB".
 * @param {number} nBytes
 */
export function formatBytes(nBytes) {
  let value = nBytes;
  let unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value >= 10 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

/** @param {number} value A rate or a time: three digits are enough. */
export function formatNumber(value) {
  return value >= 100 ? String(Math.round(value)) : value.toFixed(value >= 10 ? 1 : 2);
}

/** @param {number} ms */
export function formatSeconds(ms) {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${formatNumber(ms / 1000)} s`;
}

/**
 * Storage is absent in some private modes and in sandboxed frames; a setting is then not kept.
 * @param {string} key
 * @returns {string | null}
 */
export function recall(key) {
  try {
    return localStorage.getItem(`rushlight.${key}`);
  } catch (error) {
    console.info(`Storage is blocked, so ${key} was not read.`, error);
    return null;
  }
}

/**
 * @param {string} key
 * @param {string | null} value null forgets the key.
 */
export function remember(key, value) {
  try {
    if (value === null) localStorage.removeItem(`rushlight.${key}`);
    else localStorage.setItem(`rushlight.${key}`, value);
  } catch (error) {
    console.info(`Storage is blocked, so ${key} was not kept.`, error);
  }
}

/**
 * Copies text and shows it on the button that asked, for a moment.
 * @param {HTMLElement} button
 * @param {string} text
 */
export async function copyFrom(button, text) {
  const label = button.getAttribute("aria-label") ?? "Copy";
  let outcome = "Copied";
  try {
    await navigator.clipboard.writeText(text);
  } catch (error) {
    console.warn("The browser refused the clipboard.", error);
    outcome = "The browser refused to copy";
  }
  button.title = outcome;
  announce(outcome);
  button.dataset.copied = String(outcome === "Copied");
  setTimeout(() => {
    button.title = label;
    delete button.dataset.copied;
  }, 1600);
}

/**
 * @template T
 * @param {() => T} read Something a browser may lack, or refuse by throwing.
 * @returns {T | null}
 */
export function attempt(read) {
  try {
    return read() ?? null;
  } catch (error) {
    console.info("The browser refuses this page a part.", error);
    return null;
  }
}

/**
 * Says a whole sentence to screen readers, once.
 * @param {string} text
 */
export function announce(text) {
  part("announcer").textContent = text;
}

/** iOS does not shrink dvh for its keyboard; the visual viewport tells the height that is left. */
export function fitToKeyboard() {
  const view = window.visualViewport;
  view?.addEventListener("resize", () => {
    if (view.scale === 1) document.body.style.setProperty("--app-height", `${view.height}px`);
  });
}
