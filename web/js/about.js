// @ts-check
/** The terms of the model in use, in the settings' last line; links are never fetched. */

import { part } from "./dom.js";

/** @typedef {{name: string, url: string}} Terms */

/**
 * @param {import("../worker/protocol.js").ModelInfo} info
 * @param {Terms | null} known The site's word on its own model.
 */
export function showTerms(info, known) {
  const target = part("model-terms");
  const terms = known ?? { name: info.license, url: info.licenseLink };
  if (!terms.name && !isWebAddress(terms.url)) {
    target.textContent = `${info.name} does not name its terms: see where it came from.`;
    return;
  }
  target.replaceChildren(`${info.name} has its own terms: `, termsNode(terms), ".");
}

/** @param {Terms} terms */
function termsNode({ name, url }) {
  if (!isWebAddress(url)) return name;
  const link = document.createElement("a");
  link.href = url;
  link.rel = "noopener noreferrer nofollow";
  link.target = "_blank";
  link.textContent = name || url;
  return link;
}

/** @param {string} url It comes from the file, so it may be anything. */
function isWebAddress(url) {
  return /^https:\/\/[^\s]+$/.test(url);
}
