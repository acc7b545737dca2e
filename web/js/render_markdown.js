// @ts-check
/**
 * Markdown as safe nodes.
 *
 * The text is untrusted: marked makes HTML of it, DOMPurify keeps an allow-list of text markup, and
 * the result is inserted as nodes. Nothing in it can load or run: no images, media, frames, forms,
 * styles, ids, classes.
 */

import { Marked } from "../vendor/marked.esm.js";
import DOMPurify from "../vendor/purify.es.mjs";

const PLAIN_ATTRIBUTES = ["start", "colspan", "rowspan", "align", "lang"];
const KEPT = {
  ALLOWED_TAGS: (
    "p br strong em b i del s sub sup code pre ul ol li blockquote hr a " +
    "h1 h2 h3 h4 h5 h6 table thead tbody tr th td"
  ).split(" "),
  ALLOWED_ATTR: ["href", ...PLAIN_ATTRIBUTES],
  ADD_URI_SAFE_ATTR: PLAIN_ATTRIBUTES, // their values need not look like an address
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: /** @type {const} */ (true),
};

/** These read in the direction of their first letters; what is inside them follows. */
const BLOCKS = "p,h1,h2,h3,h4,h5,h6,ul,ol,li,blockquote,th,td";

/** @param {string} text */
const escape = (text) =>
  text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

const PLAIN_TAG = /^(?:<br ?\/?>|<\/?(?:b|i|em|strong|s|sub|sup)>)$/;
const MATH_BLOCK = /^ {0,3}(?:\$\$[\s\S]+?\$\$|\\\[[\s\S]+?\\\])[ \t]*(?:\n|$)/;
const MATH = /^(?:\$\$[^\n]+?\$\$|\\\([^\n]+?\\\)|\\\[[^\n]+?\\\])/;
/** Between single dollars only what has a letter of mathematics in it: prices have dollars too. */
const DOLLAR_MATH = /^\$(?=[^$\n]*[\\^_{}=])[^\s$](?:[^$\n]*[^\s$])?\$(?!\d)/;

/** Formulas stay as they were written: Markdown would eat their backslashes and underscores. */
const formulas = [
  {
    name: "mathBlock",
    level: /** @type {const} */ ("block"),
    start: (/** @type {string} */ src) => positionOf(/^ {0,3}(?:\$\$|\\\[)/m.exec(src)),
    tokenizer: (/** @type {string} */ src) => formula("mathBlock", MATH_BLOCK.exec(src)),
    renderer: (/** @type {{raw: string}} */ { raw }) =>
      `<p>${escape(raw.trim()).replaceAll("\n", "<br>")}</p>\n`,
  },
  {
    name: "math",
    level: /** @type {const} */ ("inline"),
    start: (/** @type {string} */ src) => positionOf(/\$|\\[([]/.exec(src)),
    tokenizer: (/** @type {string} */ src) => formula("math", MATH.exec(src) ?? DOLLAR_MATH.exec(src)),
    renderer: (/** @type {{raw: string}} */ { raw }) => escape(raw),
  },
];

/** @param {RegExpExecArray | null} found */
function positionOf(found) {
  return found?.index;
}

/**
 * @param {string} type
 * @param {RegExpExecArray | null} found
 */
function formula(type, found) {
  return found ? { type, raw: found[0] } : undefined;
}

const markdown = new Marked({
  gfm: true,
  breaks: true,
  extensions: formulas,
  renderer: {
    // HTML in a reply is text to read, bar a few plain tags that models use inside Markdown.
    html: ({ text, block }) => {
      if (PLAIN_TAG.test(text.trim())) return text;
      return block ? `<p>${escape(text.trim()).replaceAll("\n", "<br>")}</p>` : escape(text);
    },
    // The language travels as an attribute; render_code.js takes it off.
    code: ({ text, lang }) => {
      const language = languageOf(lang);
      return `<pre><code lang="${escape(language)}">${escape(text)}</code></pre>\n`;
    },
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
    // Fetching an image would tell its host what was said here; a link leaves that to the reader.
    image: ({ href, text }) => `<a href="${escape(href)}">${escape(text || href)}</a>`,
  },
});

/** @typedef {import("../vendor/marked.esm.js").Token} Token */

/** The first word after a fence. @param {string} [info] */
export function languageOf(info = "") {
  return info.trim().split(/[\s{,:]/)[0];
}

/** @param {string} text */
export function readMarkdown(text) {
  return markdown.lexer(text);
}

/** @param {Token} token @returns {string} HTML that is not safe yet. */
export function writeHtml(token) {
  return markdown.parser([token]);
}

/**
 * @param {string} html
 * @returns {DocumentFragment}
 */
export function safeNodes(html) {
  const fragment = DOMPurify.sanitize(html, KEPT);
  for (const link of fragment.querySelectorAll("a")) {
    if (!URL.canParse(link.getAttribute("href") ?? "")) {
      link.replaceWith(...link.childNodes); // a dead link is text
      continue;
    }
    link.rel = "noopener noreferrer nofollow";
    link.target = "_blank";
  }
  for (const block of fragment.querySelectorAll(BLOCKS)) {
    if (!block.parentElement?.closest("[dir]")) block.setAttribute("dir", "auto");
  }
  return fragment;
}
