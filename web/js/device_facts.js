// @ts-check
/** A report as groups of facts with a word on each: what the device panel and the copy both show. */

import { formatBytes, formatNumber, formatSeconds } from "./dom.js";

/** @typedef {import("../worker/protocol.js").Report} Report */
/** @typedef {import("../worker/protocol.js").CpuReport} CpuReport */
/** @typedef {[name: string, value: string]} Fact */
/** @typedef {{title: string, about: string, facts: Fact[]}} Group */
/**
 * What `details` holds; all of it may be missing.
 * @typedef {object} Details
 * @property {string} [architecture]
 * @property {{nBytes: number, nParams: number, quantisation: string, nCtx: number, kvDtype: string}} [model]
 * @property {Record<string, number>} [memoryBytes]
 * @property {{name: string, nBytes: number}} [largestBuffer]
 * @property {Record<string, number>} [splitTensors]
 * @property {string} [variants]
 * @property {string[]} [variantsOffered]
 * @property {{dropped: string[], timesMs: Record<string, Record<string, number>>}} [choice]
 * @property {{nPassed: number, failed: Record<string, string>} | null} [kernelTests]
 * @property {number} [kernels]
 * @property {Record<string, number>} [plans]
 * @property {string[]} [notes]
 * @property {string[]} [bootNotes]
 * @property {Record<string, number>} [bootMs]
 * @property {CpuReport} [cpu]
 * @property {GpuFacts} [device]
 * @property {BrowserFacts} [browser]
 * @property {string} [userAgent]
 */
/**
 * @typedef {object} GpuFacts
 * @property {Record<string, string>} [about]
 * @property {boolean} [isSoftware]
 * @property {Record<string, number>} [limits]
 * @property {string[]} [features]
 * @property {string[]} [adapterFeatures]
 * @property {number} [bufferBytes]
 * @property {number} [nBuffers]
 * @property {number} [nLost]
 */
/**
 * @typedef {object} BrowserFacts
 * @property {number} cores
 * @property {number} memoryGb
 * @property {boolean} isIsolated
 * @property {boolean} hasGpu
 * @property {{usedBytes: number, quotaBytes: number, isPersisted: boolean} | null} storage
 */

const MEMORY_WORDS = /** @type {Record<string, string>} */ ({
  weight: "Weights",
  state: "Context (KV cache)",
  scratch: "Scratch",
  constant: "Constants",
});
const FEATURE_WORDS = /** @type {Record<string, string>} */ ({
  "shader-f16": "Half precision (shader-f16)",
  subgroups: "Threads that share values (subgroups)",
  "timestamp-query": "Clock for single kernels (timestamp-query)",
});
const LIMIT_WORDS = /** @type {Record<string, string>} */ ({
  "max-storage-buffer-binding-size": "Largest binding",
  "max-buffer-size": "Largest buffer",
  "max-compute-workgroup-storage-size": "Memory of a workgroup",
  "max-compute-invocations-per-workgroup": "Threads of a workgroup",
  "max-compute-workgroups-per-dimension": "Workgroups in a row",
  "max-storage-buffers-per-shader-stage": "Buffers of a kernel",
});

/**
 * @param {Report} report
 * @returns {Group[]} Those that have something to say.
 */
export function groupsOf(report) {
  const details = /** @type {Details} */ (report.details);
  const all = [
    placeGroup(report, details),
    adapterGroup(details.device ?? {}),
    kernelGroup(details),
    memoryGroup(report, details),
    browserGroup(details),
    versionGroup(report, details),
  ];
  return all.filter(({ facts }) => facts.length > 0);
}

/** @param {Report} report @param {Details} details @returns {Group} */
function placeGroup({ backend, adapter }, { cpu, model, architecture, notes, bootNotes }) {
  const facts = backend === "webgpu" ? [fact("Runs on", `WebGPU, ${adapter}`)] : cpuFacts(cpu, adapter);
  if (model) {
    const { quantisation, nBytes, nCtx, kvDtype } = model;
    facts.push(["Model", `${architecture}, ${quantisation}, ${formatBytes(nBytes)}, context ${count(nCtx)} in ${kvDtype}`]);
  }
  for (const note of new Set([...(bootNotes ?? []), ...(notes ?? [])])) facts.push(["Note", note]);
  const about = "Where the model is computed: on the graphics card through WebGPU, or on the processor.";
  return { title: "In use", about, facts };
}

/** @param {CpuReport | undefined} cpu @param {string} adapter @returns {Fact[]} */
function cpuFacts(cpu, adapter) {
  if (!cpu) return [["Runs on", adapter ? `CPU, ${adapter}` : "CPU"]];
  const threads = cpu.threads === 1 ? "one thread" : `${cpu.threads} threads`;
  const exactness = cpu.variant === "exact" ? "exact" : "8-bit activations (int8)";
  return [
    ["Runs on", `CPU, ${threads}`],
    ["Kernels", `WebAssembly ${cpu.build === "relaxed" ? "relaxed SIMD" : "SIMD"}, ${exactness}`],
    ["Accelerated", cpu.accelerated.join(", ") || "nothing"],
    ["By numpy", cpu.reference.join(", ") || "nothing"],
  ];
}

/** @param {GpuFacts} device @returns {Group} */
function adapterGroup({ about = {}, features = [], limits = {}, isSoftware, nLost }) {
  const facts = Object.entries(about)
    .filter(([, value]) => value)
    .map(([name, value]) => fact(capital(name), value));
  if (isSoftware) facts.push(["Kind", "software: the processor plays the graphics card"]);
  if (Object.keys(limits).length > 0) {
    for (const [name, words] of Object.entries(FEATURE_WORDS)) {
      facts.push([words, features.includes(name) ? "yes" : "no"]);
    }
  }
  for (const [name, words] of Object.entries(LIMIT_WORDS)) {
    if (name in limits) facts.push([words, name.endsWith("size") ? formatBytes(limits[name]) : count(limits[name])]);
  }
  if (nLost) facts.push(["Went away", nLost === 1 ? "once" : `${nLost} times`]);
  const words = "What the browser tells of the graphics card, and the most that one kernel may use of it.";
  return { title: "Graphics adapter", about: words, facts };
}

/** @param {Details} details @returns {Group} */
function kernelGroup({ variants, variantsOffered, choice, kernelTests, kernels, plans }) {
  /** @type {Fact[]} */
  const facts = [];
  if (variants) facts.push(["Chosen", variants]);
  if (variantsOffered) facts.push(["Possible here", variantsOffered.join(", ")]);
  if (kernelTests) {
    const { nPassed, failed } = kernelTests;
    const nFailed = Object.keys(failed).length;
    facts.push(["Self-test", `${nPassed} right${nFailed ? `, ${nFailed} wrong` : ", none wrong"}`]);
    for (const [name, failure] of Object.entries(failed)) facts.push([name, failure]);
  }
  for (const dropped of choice?.dropped ?? []) facts.push(["Dropped", dropped]);
  for (const [phase, times] of Object.entries(choice?.timesMs ?? {})) {
    const text = Object.entries(times).map(([name, ms]) => `${name} ${formatNumber(ms)} ms`);
    facts.push([`One layer, ${phase}`, text.join(", ")]);
  }
  if (kernels) facts.push(["Compiled", `${kernels} kernels`]);
  if (plans) facts.push(["Calls of a step", Object.entries(plans).map(([name, n]) => `${name} ${n}`).join(", ")]);
  const about =
    "A kernel is a small program on the graphics card. There are several kinds of each: all are checked " +
    "on this adapter first, wrong ones are dropped, and the fastest of the rest is taken.";
  return { title: "Kernels", about, facts };
}

/** @param {Report} report @param {Details} details @returns {Group} */
function memoryGroup({ heapBytes, deviceBytes }, { memoryBytes = {}, largestBuffer, splitTensors, device }) {
  /** @type {Fact[]} */
  const facts = Object.entries(memoryBytes).map(([kind, nBytes]) => [
    MEMORY_WORDS[kind] ?? capital(kind),
    formatBytes(nBytes),
  ]);
  if (facts.length > 0) facts.push(["Planned, together", formatBytes(deviceBytes)]);
  if (device?.nBuffers !== undefined) {
    facts.push(["Held now", `${formatBytes(device.bufferBytes ?? 0)} in ${count(device.nBuffers)} buffers`]);
  }
  if (largestBuffer) facts.push(["Largest buffer", `${formatBytes(largestBuffer.nBytes)} (${largestBuffer.name})`]);
  const split = Object.entries(splitTensors ?? {});
  if (largestBuffer) {
    facts.push(["Cut to fit", split.map(([name, n]) => `${name} in ${n}`).join(", ") || "nothing"]);
  }
  facts.push(["Python", formatBytes(heapBytes)]);
  const about =
    "What is set aside before the weights are read, and what is held now. The context grows with the " +
    "length that you chose; the rest comes with the model.";
  return { title: "Memory", about, facts };
}

/** @param {Details} details @returns {Group} */
function browserGroup({ browser, userAgent }) {
  /** @type {Fact[]} */
  const facts = [];
  if (browser) {
    const { cores, memoryGb, isIsolated, storage } = browser;
    facts.push(["Processor threads", count(cores)]);
    if (memoryGb) facts.push(["Memory, at least", `${memoryGb} GB`]);
    facts.push(["Threads allowed", isIsolated ? "yes" : "no: the site sends no isolation headers"]);
    facts.push(["Storage", storage ? storageWords(storage) : "none"]);
  }
  if (userAgent) facts.push(["Browser", userAgent]);
  return { title: "Browser", about: "What this browser grants the page.", facts };
}

/** @param {NonNullable<BrowserFacts["storage"]>} storage */
function storageWords({ usedBytes, quotaBytes, isPersisted }) {
  const kept = isPersisted ? "kept until you delete it" : "the browser may clear it";
  return `${formatBytes(usedBytes)} of ${formatBytes(quotaBytes)}; ${kept}`;
}

/** @param {Report} report @param {Details} details @returns {Group} */
function versionGroup({ version }, { bootMs = {} }) {
  /** @type {Fact[]} */
  const facts = [["Rushlight", version]];
  for (const [step, ms] of Object.entries(bootMs)) facts.push([`Start, ${step}`, formatSeconds(ms)]);
  return { title: "Version and start", about: "", facts };
}

/** @param {string} name @param {string} value @returns {Fact} */
const fact = (name, value) => [name, value];
const count = (/** @type {number} */ n) => n.toLocaleString("en");
const capital = (/** @type {string} */ text) => text.charAt(0).toUpperCase() + text.slice(1);

/**
 * The groups as Markdown, for an issue.
 * @param {Group[]} groups
 */
export function asMarkdown(groups) {
  const cell = (/** @type {string} */ text) => text.replaceAll("|", "\\|").replace(/\s+/g, " ");
  const tables = groups.map(({ title, facts }) =>
    [`### ${title}`, "", "| | |", "|---|---|", ...facts.map((pair) => `| ${pair.map(cell).join(" | ")} |`), ""].join("\n"),
  );
  return ["## Rushlight device report", "", ...tables].join("\n");
}
