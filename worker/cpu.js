// @ts-check
/** The CPU as a device: the kernels of `wasm/`, and the threads that run a model's program. */

import { canReserve, KernelMemory, maxMemoryBytes } from "./cpu_memory.js";
import { bestBuild, fetchKernels, withoutSharing } from "./cpu_module.js";
import { Pool } from "./cpu_pool.js";
import { Failure } from "./failure.js";
import { Pacer, events } from "./pacer.js";
import { readPieces, takePieces } from "./pieces.js";
import { BlobSource } from "./sources.js";

/** @typedef {import("./sources.js").ByteSource} ByteSource */
/** @typedef {import("./cpu_memory.js").Address} Address */
/** @typedef {import("./pieces.js").Upload} Upload */
/**
 * @typedef {object} KernelExports
 * @property {(control: Address, first: number, stop: number) => number} run 0, or what went wrong.
 * @property {(control: Address, index: number) => void} pool_loop
 * @property {WebAssembly.Global} __stack_pointer
 */

const MAX_THREADS = 16;
const ONE = Uint8Array.of(1, 0, 0, 0);
/** A token's step that takes no longer is one range. */
const TOKEN_TARGET_MS = 50;
/** So often, at least, events are let in between tokens: a stop is among them. */
const EVENTS_MS = 100;

/** Two logical processors are mostly one core, and one core is one thread. */
function defaultThreads() {
  const nLogical = navigator.hardwareConcurrency || 1;
  return nLogical <= 2 ? nLogical : Math.min(8, Math.ceil(nLogical / 2));
}

/**
 * Loads the kernels. Throws Failure "no_simd" where the browser has no SIMD.
 * @param {import("./cpu_module.js").KernelFiles} files
 * @param {URL} site
 */
export async function openCpu(files, site) {
  const build = bestBuild();
  if (!build) {
    const hint = "Update the browser: replies are much slower without.";
    throw new Failure("no_simd", "This browser has no WebAssembly SIMD.", hint);
  }
  const isShared = self.crossOriginIsolated;
  const load = async (/** @type {string} */ name) => {
    const bytes = await fetchKernels(files[name], site);
    return WebAssembly.compile(isShared ? bytes : withoutSharing(bytes));
  };
  return new CpuDevice(await load(build), build, isShared, load);
}

/** The loaded kernels; each model gets a memory and a pool of its own. */
export class CpuDevice {
  /**
   * @param {WebAssembly.Module} module
   * @param {string} build
   * @param {boolean} isShared
   * @param {(build: string) => Promise<WebAssembly.Module>} load
   */
  constructor(module, build, isShared, load) {
    this.module = module;
    this.build = build;
    this.isShared = isShared;
    this.load = load;
    this.maxBytes = maxMemoryBytes();
  }

  /** @param {number} nThreads 0: as many as suit this machine. */
  newModel(nThreads) {
    return new CpuModel(this, nThreads);
  }

  /** @param {number} nBytes Whether so many can be had now. */
  takes(nBytes) {
    return canReserve(nBytes);
  }

  /**
   * Bytes that Python already holds, as a source.
   * @param {Uint8Array<ArrayBuffer>} data
   * @param {string} name
   */
  bytesSource(data, name) {
    return new BlobSource(new Blob([data]), name);
  }
}

/** One model's memory, and the threads that run its program. */
export class CpuModel {
  /** @type {KernelMemory | null} */
  #memory = null;
  /** @type {KernelExports | null} */
  #kernels = null;
  #pool = new Pool();
  #control = 0;
  #nThreadsAt = 0;
  #stoppingAt = 0;
  #tokenPacer = new Pacer(0);
  #chunkPacer = new Pacer(0);
  #isCancelled = false;
  /** When events were last let in. */
  #heardAt = 0;

  /**
   * @param {CpuDevice} device
   * @param {number} nThreads
   */
  constructor(device, nThreads) {
    this.device = device;
    this.module = device.module;
    /** @type {string[]} Visible fall-backs. */
    this.notes = [];
    this.nThreads = this.#allowed(nThreads);
    /** Milliseconds spent in the kernels. */
    this.kernelMs = 0;
  }

  /** @param {number} asked */
  #allowed(asked) {
    const wanted = Math.min(asked || defaultThreads(), MAX_THREADS);
    if (wanted === 1 || this.device.isShared) return wanted;
    this.notes.push(
      "The CPU runs on one thread: this page is not cross-origin isolated. For more, serve it with " +
        "the headers Cross-Origin-Opener-Policy: same-origin and " +
        "Cross-Origin-Embedder-Policy: require-corp.",
    );
    return 1;
  }

  /**
   * Makes the memory. Throws Failure "out_of_device_memory" when the browser gives none of this size.
   * @param {number} nBytes
   * @param {number} nBytesMore What it will have to grow by at least.
   */
  async create(nBytes, nBytesMore) {
    const { isShared, load } = this.device;
    const memory = new KernelMemory(nBytes, nBytesMore, isShared);
    if (memory.isWide) this.module = await load("relaxed64");
    const { exports } = await WebAssembly.instantiate(this.module, { env: { memory: memory.wasm } });
    this.#kernels = /** @type {KernelExports} */ (/** @type {unknown} */ (exports));
    this.#memory = memory;
  }

  get memory() {
    if (this.#memory) return this.#memory;
    throw new Failure("closed", "The model is closed.", "Load it again.");
  }

  /**
   * Starts the threads beside this one, over what was written; one that does not start leaves a note
   * and one thread.
   * @param {number} nCalls Of the program.
   * @param {number} control Address of the control block.
   * @param {number} nThreadsAt Address of its n_threads.
   * @param {number} stoppingAt Address of the word that makes threads leave.
   * @param {number[]} stacks Where the stack of each further thread starts.
   * @returns How many notes there are now.
   */
  async start(nCalls, control, nThreadsAt, stoppingAt, stacks) {
    const { memory, module } = this;
    this.#control = control;
    this.#nThreadsAt = nThreadsAt;
    this.#stoppingAt = stoppingAt;
    this.#tokenPacer = new Pacer(nCalls, TOKEN_TARGET_MS);
    this.#chunkPacer = new Pacer(nCalls);
    const members = stacks.map((stack, i) => ({
      module,
      memory: memory.wasm,
      control: memory.address(control),
      index: i + 1,
      stack: memory.address(stack),
    }));
    try {
      await this.#pool.start(members);
    } catch (error) {
      this.#dropPool(error instanceof Error ? error.message : String(error));
    }
    return this.notes.length;
  }

  #endPool() {
    // Chromium lets a terminated worker run on for two seconds; this makes it leave by itself.
    if (this.#stoppingAt) this.memory.write(this.#stoppingAt, ONE);
    this.#pool.end();
  }

  /** @param {string} why */
  #dropPool(why) {
    this.#endPool();
    this.notes.push(`A thread of the CPU was lost (${why}): one goes on alone.`);
    this.nThreads = 1;
    this.memory.write(this.#nThreadsAt, ONE);
  }

  /** @param {number} address @param {Uint8Array} data */
  write(address, data) {
    this.memory.write(address, data);
  }

  /** @param {number} address @param {number} nBytes A copy. */
  read(address, nBytes) {
    return this.memory.read(address, nBytes);
  }

  /** @param {number} address @returns The signed integer there. */
  readInt(address) {
    return this.memory.readInt(address);
  }

  /** @param {number} nBytes @returns The address of as many more bytes, zeros. */
  grow(nBytes) {
    return this.memory.grow(nBytes);
  }

  /**
   * Streams weights from their sources into the memory.
   * @param {ByteSource[]} sources One per part of the file.
   * @param {string} uploadsJson A list of Upload.
   * @param {(done: number, total: number) => void} onProgress
   */
  async writeWeights(sources, uploadsJson, onProgress) {
    /** @type {Upload[]} */
    const uploads = JSON.parse(uploadsJson);
    const total = uploads.reduce((sum, upload) => sum + upload[3], 0);
    const pieces = readPieces(uploads, sources);
    await takePieces(pieces, total, ({ address }, data) => this.write(address, data), onProgress);
  }

  /**
   * Runs calls for one token without a pause, where they are known to be short: waiting for a promise
   * costs Python more than all else in a step.
   * @param {number} first @param {number} stop @returns Whether they were run; if not, `run` has to.
   */
  runNow(first, stop) {
    const began = performance.now();
    if (began - this.#heardAt > EVENTS_MS || this.#pool.failure) return false;
    if (this.#tokenPacer.endOfSubmit(first, stop) < stop) return false;
    return this.#runRange(this.#tokenPacer, first, stop, 1);
  }

  /**
   * @param {Pacer} pacer @param {number} first @param {number} stop @param {number} nTokens
   * @returns False: a thread was lost, the pool is dropped, and all must be run again.
   */
  #runRange(pacer, first, stop, nTokens) {
    const control = this.memory.address(this.#control);
    const began = performance.now();
    const fault = /** @type {KernelExports} */ (this.#kernels).run(control, first, stop);
    const elapsed = performance.now() - began;
    this.kernelMs += elapsed;
    if (fault) this.#dropPool("it no longer answers");
    else pacer.measured(first, stop, elapsed, nTokens);
    return !fault;
  }

  /**
   * Runs calls of the program in ranges of about 30 ms (50 for one token), with the event loop free
   * in between. If a thread dies, the pool is dropped with a note and all is run again, by this
   * thread alone: a range may have overwritten what it began with. Throws Failure "cancelled".
   * @param {number} first
   * @param {number} stop Past the last call
   * @param {number} nTokens What the time of a call grows with.
   * @returns How many notes there are now.
   */
  async run(first, stop, nTokens) {
    this.#isCancelled = false;
    this.#heardAt = performance.now(); // Python's wait for this promise lets events in
    const pacer = nTokens > 1 ? this.#chunkPacer : this.#tokenPacer;
    for (let at = first; ; ) {
      if (this.#pool.failure) this.#dropPool(this.#pool.failure);
      const end = pacer.endOfSubmit(at, stop, nTokens);
      if (!this.#runRange(pacer, at, end, nTokens)) {
        at = first;
        continue;
      }
      at = end;
      if (at >= stop) return this.notes.length;
      await events();
      if (this.#isCancelled) throw new Failure("cancelled", "Stopped.");
    }
  }

  /** Makes the run under way stop after its present range. */
  cancel() {
    this.#isCancelled = true;
  }

  /** Ends a thread as a browser might, for tests. @param {number} index */
  endThread(index) {
    this.#pool.workers[index - 1]?.terminate();
  }

  destroy() {
    if (this.#memory) this.#endPool();
    this.#memory = null;
    this.#kernels = null;
  }
}
