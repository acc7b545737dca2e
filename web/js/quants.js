// @ts-check
/** The files of a repository as choices: one a quantisation, the parts of a split model as one. */

import { partName, partOf } from "../worker/hub.js";

/** @typedef {import("../worker/hub.js").HubEntry} HubEntry */
/**
 * @typedef {object} QuantChoice
 * @property {string} path Of the first file.
 * @property {string} quant "" if the name does not say.
 * @property {number} nBytes Of all files.
 * @property {number} nFiles
 * @property {boolean} isRecommended
 * @property {string} missing The first file of the set that is not there; "".
 */

/** How files are named, by the mixtures that the engine reads. */
const READABLE =
  /^(F32|F16|BF16|Q4_[01]|Q5_[01]|Q8_0|Q[2-68]_K(_[SMLX]+)?|I?Q[1-4]_(XXS|XS|S|M|NL)|TQ[12]_0|MXFP4(_MOE)?)$/;
const QUANT = /(?:^|[-._/])((?:UD-)?(?:I?Q\d\w*|TQ\d_0|B?F(?:16|32)|(?:MX|NV)FP4\w*))(?=[-.]|$)/gi;
/** The best first; of what is not listed the smallest comes first. */
const PREFERRED = ["Q4_K_M", "Q4_K_S", "Q4_0", "Q5_K_M", "Q8_0"];

/** The mixture that a file's name tells, e.g. "Q4_K_M"; or "". @param {string} path */
export function quantOf(path) {
  const name = path.replace(/-\d{5}-of-\d{5}(?=\.gguf$)/i, "").replace(/\.gguf$/i, "");
  const found = [...name.matchAll(QUANT)].pop();
  return found ? found[1].toUpperCase() : "";
}

/** @param {string} quant */
export function isReadable(quant) {
  return quant === "" || READABLE.test(quant.replace(/^UD-/, "").replace(/_XL$/, "_L"));
}

/**
 * The models among a repository's files, the recommended one first, then by size.
 * @param {HubEntry[]} files
 * @returns {{choices: QuantChoice[], nLeftOut: number}} `nLeftOut`: of types that cannot be read.
 */
export function quantChoices(files) {
  const models = files.filter(({ path }) => /\.gguf$/i.test(path) && !/mmproj|imatrix/i.test(path));
  const byPath = new Map(models.map((file) => [file.path, file]));
  const all = models.filter(({ path }) => (partOf(path)?.number ?? 1) === 1).map((file) => choiceOf(file, byPath));
  const choices = all.filter(({ quant }) => isReadable(quant)).sort((a, b) => a.nBytes - b.nBytes);
  const whole = choices.filter(({ missing }) => !missing);
  const best = PREFERRED.map((quant) => whole.find((choice) => choice.quant === quant)).find(Boolean);
  if (best) {
    best.isRecommended = true;
    choices.sort((a, b) => Number(b.isRecommended) - Number(a.isRecommended));
  }
  return { choices, nLeftOut: all.length - choices.length };
}

/**
 * @param {HubEntry} first
 * @param {Map<string, HubEntry>} byPath
 * @returns {QuantChoice}
 */
function choiceOf(first, byPath) {
  const nFiles = partOf(first.path)?.count ?? 1;
  let nBytes = 0;
  let missing = "";
  for (let number = 1; number <= nFiles; number++) {
    const name = nFiles === 1 ? first.path : partName(first.path, number);
    nBytes += byPath.get(name)?.nBytes ?? 0;
    if (!byPath.has(name)) missing ||= name;
  }
  return { path: first.path, quant: quantOf(first.path), nBytes, nFiles, isRecommended: false, missing };
}
