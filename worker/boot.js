// @ts-check
/** Starts Python and the engine, in named steps. */

import { openCpu } from "./cpu.js";
import { Failure } from "./failure.js";
import { openGpu } from "./gpu.js";

/** @typedef {import("./protocol.js").OnProgress} OnProgress */
/** @typedef {import("./gpu.js").GpuDevice} GpuDevice */
/** @typedef {import("./cpu.js").CpuDevice} CpuDevice */
/** @typedef {{gpu: GpuDevice | null, cpu: CpuDevice | null, notes: string[]}} Devices */
/** @typedef {{version: string, wheel: string, kernels: import("./cpu_module.js").KernelFiles}} Site */

/**
 * What the worker calls of rushlight.browser; every string is JSON.
 * @typedef {object} PythonEngine
 * @property {(gpu: GpuDevice | null, cpu: CpuDevice | null, variant: string) => void} use_devices
 * @property {() => import("./storage/stored_source.js").WholeHash} new_hash
 * @property {(source: import("./sources.js").ByteSource, name: string, backend: string,
 *   context: string, threads: number, onProgress: (step: string, label: string, done: number, total: number) => void,
 *   isForced: boolean, kvDtype: string) => Promise<string>} load_model
 * @property {(messages: string, options: string, onToken: (piece: string) => void)
 *   => Promise<string>} chat
 * @property {() => boolean} is_loaded
 * @property {() => Promise<string>} profile
 * @property {() => void} stop
 * @property {() => void} reset
 * @property {() => void} unload
 * @property {() => string} report
 */
/**
 * @typedef {object} Runtime
 * @property {any} python Pyodide's interface.
 * @property {PythonEngine} engine
 * @property {GpuDevice | null} gpu
 * @property {CpuDevice | null} cpu Null on the GPU, and where numpy has to do.
 * @property {string[]} notes
 * @property {string} version
 * @property {() => number} heapBytes
 * @property {Record<string, number>} stepMs How long each step took.
 */

/** The site's root: this file lies in worker/. */
const SITE = new URL("../", import.meta.url);
/** Beside the engine's own wheel. jinja2 is imported only if a model brings a chat template. */
const PACKAGES = ["numpy", "jinja2"];

/**
 * @param {import("./protocol.js").BackendChoice | "numpy"} backend "numpy": no kernels at all.
 * @param {OnProgress} onProgress
 * @param {string} [variant] Of the kernels; "auto" tests and times them.
 * @returns {Promise<Runtime>}
 */
export async function startRuntime(backend, onProgress, variant = "auto") {
  /** @type {Record<string, number>} */
  const stepMs = {};
  /** @template T @param {import("./protocol.js").Step} step @param {string} label
   * @param {() => Promise<T>} run @returns {Promise<T>} */
  const timed = async (step, label, run) => {
    onProgress({ step, label, done: 0, total: 0 });
    const began = performance.now();
    const result = await run();
    stepMs[step] = Math.round(performance.now() - began);
    return result;
  };
  /** @type {Promise<Site>} */
  const site = fetchJson("site.json");
  const devices = chooseDevices(backend, site); // asks the GPU process while Python starts
  devices.catch(() => {}); // its failure is met below
  const python = await timed("runtime", "Starting Python", startPython);
  await timed("packages", "Loading numpy", () => loadPackages(python, PACKAGES));
  return timed("engine", "Loading the engine", async () => {
    const { wheel, version } = await site;
    await loadPackages(python, [new URL(wheel, SITE).href]);
    const engine = python.pyimport("rushlight.browser");
    const { gpu, cpu, notes } = await devices;
    engine.use_devices(gpu, cpu, variant);
    const heapBytes = () => python._module.HEAPU8.length;
    return { python, engine, gpu, cpu, notes, version, heapBytes, stepMs };
  });
}

/** @param {string} path @returns {Promise<any>} */
async function fetchJson(path) {
  const response = await fetch(new URL(path, SITE));
  if (response.ok) return response.json();
  throw new Failure("not_found", `The site has no ${path} (${response.status}).`, "Rebuild the site.");
}

async function startPython() {
  const base = new URL("pyodide/", SITE).href;
  try {
    const { loadPyodide } = await import(`${base}pyodide.mjs`);
    return await loadPyodide({ indexURL: base });
  } catch (error) {
    const hint = "Check the connection and reload; WebAssembly must be allowed.";
    throw new Failure("boot_failed", `Python did not start: ${error}`, hint);
  }
}

/**
 * @param {any} python Pyodide's interface; its types live in another origin's package.
 * @param {string[]} names Names in Pyodide's lock file, or addresses of wheels.
 */
async function loadPackages(python, names) {
  /** @type {string[]} */
  const errors = [];
  await python.loadPackage(names, {
    messageCallback: () => {},
    errorCallback: (/** @type {string} */ message) => errors.push(message),
  });
  if (errors.length > 0) {
    throw new Failure("boot_failed", errors.join("; "), "Check the connection and reload.");
  }
}

/**
 * "auto" takes a GPU if there is one; otherwise the CPU, with a note that says why.
 * @param {import("./protocol.js").BackendChoice | "numpy"} backend
 * @param {Promise<Site>} site
 * @returns {Promise<Devices>}
 */
async function chooseDevices(backend, site) {
  /** @type {string[]} */
  const notes = [];
  if (backend === "numpy") return { gpu: null, cpu: null, notes };
  if (backend !== "cpu") {
    try {
      return { gpu: await openGpu(), cpu: null, notes };
    } catch (error) {
      if (backend === "webgpu") throw error;
      notes.push(`${wordsOf(error)} Running on the CPU.`);
    }
  }
  try {
    return { gpu: null, cpu: await openCpu((await site).kernels, SITE), notes };
  } catch (error) {
    notes.push(`${wordsOf(error)} Running on numpy, which is many times slower.`);
    return { gpu: null, cpu: null, notes };
  }
}

/** @param {unknown} error */
const wordsOf = (error) => (error instanceof Error ? error.message : String(error));
