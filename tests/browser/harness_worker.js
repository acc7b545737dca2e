// @ts-check
/** The worker of the harness: the engine's own modules, driven by tests. */

import { startRuntime } from "../worker/boot.js";
import { asFailure } from "../worker/protocol.js";
import { openGpu } from "../worker/gpu.js";
import { decodeBytes } from "../worker/program.js";
import { openSource } from "../worker/sources.js";
import { gatherPlane } from "../worker/weights.js";

const say = (/** @type {string} */ status) => self.postMessage({ status });

/** @type {Awaited<ReturnType<typeof startRuntime>> | null} */
let started = null;

/** @type {Record<string, (options: any) => Promise<any>>} */
const jobs = {
  /** Replays steps of a program without Python: [state, plan, start, stop, want, bytes, words]. */
  async replay({ program, constants, uploads, source, nStates, steps, isFloor, cancelAfterMs }) {
    const gpu = await openGpu({ floor: isFloor });
    const model = await gpu.createModel(program);
    await model.compiled(() => {});
    for (const [name, data] of Object.entries(constants)) model.write(name, 0, decodeBytes(data));
    /** @type {number[][]} */
    const progress = [];
    const bytes = gpu.bytesSource(decodeBytes(source), "weights");
    await model.writeWeights([bytes], uploads, (done, total) => progress.push([done, total]));
    const states = Array.from({ length: nStates }, () => model.newState());
    const results = [];
    const began = performance.now();
    for (const [state, plan, start, stop, want, nBytes, words] of steps) {
      model.inputOf(plan).set(words);
      if (cancelAfterMs !== undefined) setTimeout(() => model.cancel(), cancelAfterMs);
      const result = await model.run(states[state], plan, start, stop, want, nBytes);
      results.push(result && Array.from(result));
    }
    const ms = performance.now() - began;
    const { submits } = model;
    model.destroy();
    return { results, progress, submits, ms, info: JSON.parse(gpu.infoJson()) };
  },

  /** What a step says after the device is gone. */
  async loseDevice({ program }) {
    const gpu = await openGpu();
    const model = await gpu.createModel(program);
    await model.compiled(() => {});
    const state = model.newState();
    gpu.device.destroy();
    await gpu.device.lost;
    return model.run(state, 0, 0, 4, 2, 4);
  },

  /**
   * Calls functions of rushlight.browser_checks, each on a model at an address if it has one. The
   * next job of the same worker goes on with the same Python.
   */
  async python({ backend, calls }) {
    started ??= await startRuntime(backend, ({ label }) => say(label));
    const { python, notes, stepMs, heapBytes } = started;
    const checks = python.pyimport("rushlight.browser_checks");
    const envelopes = [];
    const heapBefore = heapBytes();
    for (const { name, url, options } of calls) {
      const source = url ? await openSource({ kind: "url", url }) : null;
      const json = await checks[name](source, backend, JSON.stringify(options), say);
      envelopes.push(JSON.parse(json));
    }
    return { envelopes, notes, stepMs, heapBytes: heapBytes(), heapBefore };
  },

  /** Loads a model as the page does, in a browser that gives the CPU so little memory. */
  async loadInto({ url, maxBytes }) {
    const { engine, cpu } = await startRuntime("cpu", ({ label }) => say(label));
    if (cpu) cpu.maxBytes = maxBytes;
    const source = await openSource({ kind: "url", url });
    const read = source.read.bind(source);
    let nRead = 0;
    source.read = (offset, n) => {
      nRead += n;
      return read(offset, n);
    };
    const json = await engine.load_model(source, source.name, "cpu", "auto", 1, () => {});
    return { envelope: JSON.parse(json), nRead };
  },

  /** Reads ranges of a source: what each gave, as a list of bytes, or the failure. */
  async read({ url, blob, ranges, size }) {
    const source = await openSource(
      url ? { kind: "url", url, nBytes: size } : { kind: "file", file: new Blob(blob), name: "f" },
    );
    const parts = [];
    for (const [offset, n] of ranges) parts.push(Array.from(await source.read(offset, n)));
    return { parts, size: source.size, note: source.note, name: source.name };
  },

  /** Planes of blocks. */
  async planes({ data, typeSize, nBlocks, planes }) {
    return planes.map((/** @type {number[]} */ [offset, n]) =>
      Array.from(gatherPlane(new Uint8Array(data), typeSize, nBlocks, offset, n)),
    );
  },
};

self.addEventListener("message", async ({ data }) => {
  try {
    self.postMessage({ value: await jobs[data.job](data.options) });
  } catch (error) {
    const details = /** @type {any} */ (error).details ?? {};
    self.postMessage({ error: { ...asFailure(error), details } });
  }
});
