// @ts-check
/**
 * Text files that go along with a message. In the message they are fenced blocks under their names,
 * so that it is one text for the model, the store and an export; the page shows them folded.
 */

import { formatBytes, icon, part } from "./dom.js";

/** @typedef {{name: string, text: string}} TextFile */

/** A quarter of a megabyte is more than the context of nearly all models that fit a browser. */
const MAX_BYTES = 256_000;
const MAX_FILES = 10;
const ATTACHED = /^Attached file: ([^\n]+)\n\n(`{3,})[^\n`]*\n([\s\S]*?)\n\2(?:\n\n|\n?$)/;
/** These are models, or were meant as one, whatever they hold. */
const MODEL_NAMES = /\.(?:gguf|ggml|safetensors|onnx|bin|pth?|zip)$/i;

/** @param {File} file */
export const isModelFile = (file) => MODEL_NAMES.test(file.name);

/**
 * @param {string} text
 * @param {TextFile[]} files
 * @returns {string} The message.
 */
export function joinMessage(text, files) {
  const blocks = files.map(({ name, text: content }) => {
    const longest = Math.max(2, ...[...content.matchAll(/`{3,}/g)].map(([run]) => run.length));
    const fence = "`".repeat(longest + 1);
    const language = /\.(\w{1,12})$/.exec(name)?.[1].toLowerCase() ?? "";
    return `Attached file: ${name}\n\n${fence}${language}\n${content.replace(/\n$/, "")}\n${fence}`;
  });
  return [...blocks, text].filter(Boolean).join("\n\n");
}

/**
 * @param {string} message
 * @returns {{text: string, files: TextFile[]}}
 */
export function splitMessage(message) {
  const files = [];
  let text = message;
  for (let found = ATTACHED.exec(text); found; found = ATTACHED.exec(text)) {
    files.push({ name: found[1], text: found[3] });
    text = text.slice(found[0].length);
  }
  return { text, files };
}

/**
 * Shows a person's message, its files folded.
 * @param {HTMLElement} body
 * @param {string} message
 */
export function showMessage(body, message) {
  const { text, files } = splitMessage(message);
  const folded = files.map((file) => {
    const details = document.createElement("details");
    details.className = "attached";
    details.dataset.testid = "attached";
    const summary = document.createElement("summary");
    summary.append(icon("file"), ...nameAndSize(file));
    const content = document.createElement("pre");
    content.dir = "auto";
    content.tabIndex = 0; // it scrolls
    content.textContent = file.text;
    details.append(summary, content);
    return details;
  });
  body.replaceChildren(...folded, ...(text ? [document.createTextNode(text)] : []));
}

/** @param {TextFile} file */
function nameAndSize({ name, text }) {
  const label = document.createElement("span");
  label.className = "file-name";
  label.dir = "auto";
  label.textContent = name;
  const size = document.createElement("small");
  size.textContent = formatBytes(new TextEncoder().encode(text).length);
  return [label, size];
}

/**
 * @param {File} file
 * @returns {Promise<TextFile>} Throws an Error that says why it cannot be attached.
 */
async function readText(file) {
  const name = file.name.replace(/\s+/g, " ").trim().slice(-120) || "file";
  if (file.size > MAX_BYTES) {
    throw new Error(`${name} has ${formatBytes(file.size)}; up to ${formatBytes(MAX_BYTES)} can be attached.`);
  }
  const bytes = new Uint8Array(await file.arrayBuffer());
  const isWide = (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff);
  const encoding = !isWide ? "utf-8" : bytes[0] === 0xff ? "utf-16le" : "utf-16be";
  let text = "\0";
  try {
    text = new TextDecoder(encoding, { fatal: true }).decode(bytes);
  } catch (error) {
    console.info(`${name} is not ${encoding}.`, error);
  }
  if (text.includes("\0")) throw new Error(`${name} is not a text file.`);
  if (!text.trim()) throw new Error(`${name} is empty.`);
  return { name, text: text.replace(/\r\n?/g, "\n") };
}

/** The files of the message that is being written: a button, drop, paste; a chip for each. */
export class Attachments {
  /** @type {TextFile[]} */
  #files = [];
  #list = part("attachments");
  #note = part("attach-note");

  /** @param {() => void} onChange */
  constructor(onChange) {
    this.onChange = onChange;
    const picker = /** @type {HTMLInputElement} */ (part("attach-file"));
    part("attach").addEventListener("click", () => picker.click());
    picker.addEventListener("change", () => {
      void this.take([...(picker.files ?? [])]);
      picker.value = ""; // so that the same file can be picked again
    });
    // Before the page's own listener, which takes what is dropped for a model.
    addEventListener("drop", (event) => this.#takeFrom(event, event.dataTransfer), { capture: true });
    part("input").addEventListener("paste", (event) => this.#takeFrom(event, event.clipboardData));
  }

  get files() {
    return this.#files;
  }

  set files(files) {
    this.#files = files;
    this.#note.hidden = true;
    this.#draw();
  }

  /** @param {File[]} files */
  async take(files) {
    /** @type {string[]} */
    const refused = [];
    for (const file of files) {
      try {
        if (this.#files.length >= MAX_FILES) throw new Error(`${MAX_FILES} files can be attached.`);
        const read = await readText(file);
        this.#files = [...this.#files.filter(({ name }) => name !== read.name), read];
      } catch (error) {
        refused.push(error instanceof Error ? error.message : String(error));
      }
    }
    this.#note.textContent = [...new Set(refused)].join(" ");
    this.#note.hidden = refused.length === 0;
    this.#draw();
  }

  /**
   * @param {Event} event
   * @param {DataTransfer | null} data
   */
  #takeFrom(event, data) {
    const files = [...(data?.files ?? [])];
    if (files.length === 0 || files.some(isModelFile) || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    void this.take(files);
  }

  #draw() {
    const chips = this.#files.map((file) => {
      const chip = document.createElement("li");
      chip.dataset.testid = "attachment";
      const remove = document.createElement("button");
      remove.type = "button";
      remove.className = "tool";
      remove.setAttribute("aria-label", `Remove ${file.name}`);
      remove.append(icon("close"));
      remove.addEventListener("click", () => {
        this.files = this.#files.filter((other) => other !== file);
        part("input").focus();
      });
      chip.append(icon("file"), ...nameAndSize(file), remove);
      return chip;
    });
    this.#list.replaceChildren(...chips);
    this.#list.hidden = chips.length === 0;
    this.onChange();
  }
}
