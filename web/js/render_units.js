// @ts-check
/**
 * A Markdown text cut into units: the smallest parts that are drawn on their own. A block is one,
 * but for long ones that grow: each item of a list is a unit, and each row of a table.
 */

import { languageOf, readMarkdown, writeHtml } from "./render_markdown.js";

/** @typedef {import("./render_markdown.js").Token} Token */

/**
 * @typedef {object} Unit
 * @property {"block" | "item" | "head" | "row" | "code"} kind
 * @property {string} html Not safe yet; of code, the text itself.
 * @property {string} language Of code.
 * @property {number} start Where its source begins.
 * @property {string} raw Its source.
 * @property {boolean} isFirst It begins its list (an item after it goes into the same one).
 * @property {string} prefix What must stand before a text that goes on from within this unit's
 *   block, so that it is read as the rest of it.
 */

/** @param {string} text @returns {Unit[]} */
export function unitsOf(text) {
  const units = [];
  let start = 0;
  for (const token of readMarkdown(text)) {
    if (token.type === "list") units.push(...itemsOf(token, start));
    else if (token.type === "table") units.push(...rowsOf(token, start));
    else if (token.type === "code") units.push(codeOf(token, start));
    else if (token.type !== "space" && token.type !== "def") units.push(blockOf(token, start));
    start += token.raw.length;
  }
  return units;
}

/** @param {Token} token @param {number} start @returns {Unit} */
function blockOf(token, start) {
  const html = writeHtml(token);
  return { kind: "block", html, language: "", start, raw: token.raw, isFirst: true, prefix: "" };
}

/** @param {Token} token @param {number} start @returns {Unit} */
function codeOf(token, start) {
  const isFenced = /^ {0,3}(?:`{3}|~{3})/.test(token.raw);
  const prefix = isFenced ? token.raw.slice(0, token.raw.indexOf("\n") + 1) : "";
  const language = languageOf(token.lang);
  return { kind: "code", html: token.text ?? "", language, start, raw: token.raw, isFirst: true, prefix };
}

/** @param {Token} token @param {number} start @returns {Unit[]} */
function itemsOf(token, start) {
  let at = start;
  return (token.items ?? []).map((item, i) => {
    const number = token.ordered ? Number(token.start) + i : "";
    const html = writeHtml({ ...token, start: number, items: [item] });
    const unit = { html, language: "", start: at, raw: item.raw, isFirst: i === 0, prefix: "" };
    at += item.raw.length;
    return { kind: /** @type {const} */ ("item"), ...unit };
  });
}

/** @param {Token} token @param {number} start @returns {Unit[]} */
function rowsOf(token, start) {
  const lines = token.raw.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  const top = lines.slice(0, 2).join("");
  const html = writeHtml({ ...token, rows: [] });
  /** @type {Unit[]} */
  const units = [
    { kind: "head", html, language: "", start, raw: top, isFirst: true, prefix: top },
  ];
  let at = start + top.length;
  (token.rows ?? []).forEach((row, i) => {
    const raw = lines[i + 2] ?? "";
    const rowHtml = writeHtml({ ...token, rows: [row] });
    units.push({ kind: "row", html: rowHtml, language: "", start: at, raw, isFirst: false, prefix: top });
    at += raw.length;
  });
  return units;
}

/** A last line that may yet become something else: a rule or a list, a heading, a table, a fence. */
const UNDECIDED = /(?:^|\n)[ \t]*(?:[-=*+_#>`~|][-=*+_#>`~|: \t]*|\d{1,9}[.)]?[ \t]*)$/;
const TABLE_START = /^ {0,3}\|[^\n]*(?:\n[|:\- \t]*)?$/;

/**
 * A text that still grows, as far as it is certain how it will look: a marker at its end is held
 * back, and what has begun (bold, code, a link) is taken to be closed.
 * @param {string} text
 * @param {number} start Where its last unit begins.
 */
export function settled(text, start) {
  const before = text.slice(0, start);
  let last = text.slice(start);
  if (TABLE_START.test(last)) return before;
  const undecided = UNDECIDED.exec(last);
  if (undecided && (start + undecided.index > 0 || !/\d/.test(undecided[0]))) {
    last = last.slice(0, undecided.index);
  }
  return before + closed(last);
}

/** @param {string} text */
function closed(text) {
  const open = text.replace(/(`+)(?!`)[\s\S]*?[^`]\1(?!`)/g, (span) => "x".repeat(span.length));
  const tick = /`+/.exec(open)?.[0];
  if (tick) {
    // An empty span would be shown as backticks.
    return open.endsWith(tick) ? text.slice(0, -tick.length) : text + tick;
  }
  let end = text.replace(/(?:\*{1,3}|_{1,3}|~{1,2})$/, "");
  const link = /!?\[([^\]\n]*)(?:\]|\]\([^)\s]*)?$/.exec(open.slice(0, end.length));
  if (link) end = end.slice(0, link.index) + end.slice(link.index).replace(/^!?\[/, "").replace(/\](?:\([^)]*)?$/, "");
  for (const mark of ["**", "~~"]) {
    if (open.slice(0, end.length).replace(/\\./g, "").split(mark).length % 2 === 0) end = end.trimEnd() + mark;
  }
  return end;
}
