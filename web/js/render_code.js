// @ts-check
/** A block of code: its language, a button to copy it, and colours once it is complete. */

import { copyFrom, icon } from "./dom.js";

/** @typedef {typeof import("../vendor/highlight/core.min.js").default} Highlighter */

/** Grammars by what models write after the fence. */
const GRAMMARS = Object.entries({
  bash: "bash sh shell zsh console",
  c: "c h",
  cpp: "cpp c++ cc hpp",
  css: "css",
  diff: "diff patch",
  go: "go golang",
  java: "java",
  javascript: "javascript js jsx mjs",
  json: "json jsonc json5",
  python: "python py python3",
  rust: "rust rs",
  sql: "sql",
  typescript: "typescript ts tsx",
  xml: "xml html svg xhtml",
  yaml: "yaml yml",
});
/** Colouring more than this would hold the page up. */
const MAX_COLOURED = 20_000;

/** @type {Promise<Highlighter> | null} */
let core = null;
/** @type {Map<string, Promise<void>>} */
const grammars = new Map();

/** @param {string} language */
function grammarOf(language) {
  const wanted = language.toLowerCase();
  return GRAMMARS.find(([, names]) => names.split(" ").includes(wanted))?.[0] ?? "";
}

/** Comes with the first code of its language, not with the page. @param {string} grammar */
async function highlighterFor(grammar) {
  core ??= import("../vendor/highlight/core.min.js").then((module) => module.default);
  const highlighter = await core;
  let known = grammars.get(grammar);
  if (!known) {
    known = import(`../vendor/highlight/${grammar}.min.js`).then((module) =>
      highlighter.registerLanguage(grammar, module.default),
    );
    grammars.set(grammar, known);
  }
  await known;
  return highlighter;
}

const PARTS = /<span class="([\w .-]*)">|<\/span>|[^<]+/g;
/** @type {Record<string, string>} */
const ENTITIES = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'" };

/**
 * Highlighted code as nodes; its markup is spans with a class and nothing else.
 * @param {string} html
 */
function spans(html) {
  const root = document.createDocumentFragment();
  /** @type {Node[]} */
  const open = [root];
  for (const [part, name] of html.matchAll(PARTS)) {
    const parent = open[open.length - 1];
    if (part === "</span>") {
      open.pop();
    } else if (name !== undefined) {
      const span = document.createElement("span");
      span.className = name;
      parent.appendChild(span);
      open.push(span);
    } else {
      const text = part.replace(/&(?:amp|lt|gt|quot|#x27);/g, (entity) => ENTITIES[entity]);
      parent.appendChild(document.createTextNode(text));
    }
  }
  return root;
}

/** @param {() => void} task */
const whenIdle = (task) => (window.requestIdleCallback ?? setTimeout)(task);

export class CodeView {
  element = document.createElement("div");
  #code = document.createElement("code");
  #text = document.createTextNode("");
  #isFinished = false;

  /** @param {string} language As the reply names it; "" if it does not. */
  constructor(language) {
    this.language = language;
    this.element.className = "code";
    const head = document.createElement("div");
    head.className = "code-head";
    const label = document.createElement("span");
    label.className = "language";
    label.textContent = language.slice(0, 24) || "text";
    const copy = document.createElement("button");
    copy.type = "button";
    copy.className = "tool";
    copy.title = "Copy";
    copy.setAttribute("aria-label", "Copy this code");
    copy.append(icon("copy"));
    copy.addEventListener("click", () => void copyFrom(copy, this.#code.textContent ?? ""));
    const pre = document.createElement("pre");
    pre.dir = "ltr";
    pre.tabIndex = 0; // it scrolls
    this.#code.append(this.#text);
    pre.append(this.#code);
    head.append(label, copy);
    this.element.append(head, pre);
  }

  /**
   * @param {string} text
   * @param {number} [from] The code from this place on; what is before stays.
   */
  setText(text, from = 0) {
    const old = this.#isFinished ? (this.#code.textContent ?? "") : this.#text.data;
    const isLonger = old.length - from <= text.length && text.startsWith(old.slice(from));
    if (isLonger && old.length - from === text.length) return;
    if (this.#isFinished) {
      this.#isFinished = false;
      this.#text = document.createTextNode(old);
      this.#code.replaceChildren(this.#text);
    }
    if (isLonger) this.#text.appendData(text.slice(old.length - from));
    else this.#text.replaceData(from, old.length - from, text);
  }

  /** It is complete: gives it its colours. */
  finish() {
    if (this.#isFinished) return;
    this.#isFinished = true;
    const grammar = grammarOf(this.language);
    if (grammar && this.#text.length <= MAX_COLOURED) void this.#colour(grammar);
  }

  /** @param {string} grammar */
  async #colour(grammar) {
    try {
      const highlighter = await highlighterFor(grammar);
      const text = this.#text;
      whenIdle(() => {
        if (this.#text !== text || !text.isConnected) return;
        const { value } = highlighter.highlight(text.data, { language: grammar, ignoreIllegals: true });
        const coloured = spans(value);
        if (coloured.textContent === text.data) this.#code.replaceChildren(coloured);
      });
    } catch (error) {
      console.info(`Code stays without colours: ${grammar} did not load.`, error);
    }
  }
}

/**
 * Shows the code inside of lists and quotes as all code.
 * @param {DocumentFragment} fragment From Markdown.
 * @returns {CodeView[]}
 */
export function dressCode(fragment) {
  return [...fragment.querySelectorAll("pre")].map((pre) => {
    const view = new CodeView(pre.querySelector("code")?.lang ?? "");
    view.setText(pre.textContent ?? "");
    pre.replaceWith(view.element);
    return view;
  });
}
