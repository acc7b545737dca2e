// @ts-check
/** Replays a program's plans: one call, one encoder and one submit for a decode step. */

import { bindGroupsOf } from "./bind_groups.js";
import { Failure, outOfDeviceMemory } from "./failure.js";
import { Pacer } from "./pacer.js";
import { DispatchTimer } from "./profiler.js";
import { decodeBytes, words } from "./program.js";
import { writeWeights } from "./weights.js";

/** @typedef {import("./gpu.js").GpuDevice} GpuDevice */
/** @typedef {import("./program.js").Program} Program */
/** @typedef {import("./program.js").Binding} Binding */
/**
 * @typedef {object} State One session's KV cache.
 * @property {Map<string, GPUBuffer>} buffers
 * @property {GPUBindGroup[][]} groups By plan, made at its first step.
 * @property {Promise<GPUError | null> | null} allocated
 */

const WANTED = ["", "logits", "argmax", "ahead", "candidates", "adjusted", "hidden", "embedding"];
/** Of these, what holds token ids or mixed words; all else is float32. */
const WORDS = ["argmax", "ahead", "candidates"];

export class GpuModel {
  /**
   * @param {GpuDevice} gpu
   * @param {Program} program
   */
  constructor(gpu, program) {
    this.gpu = gpu;
    this.program = program;
    /** @type {Map<string, GPUBuffer>} */
    this.buffers = new Map();
    /** @type {GPUComputePipeline[]} Empty until compiled. */
    this.pipelines = [];
    this.nCompiled = 0;
    /** @type {Promise<void>} */
    this.compiling = Promise.resolve();
    /** @type {unknown} What the compiler threw, if it did. */
    this.compileError = null;
    /** @type {Map<number, State>} */
    this.states = new Map();
    this.stateCount = 0;
    this.cancelled = false;
    this.submits = 0;
    /** Milliseconds spent in `run`; what a step takes beyond that is Python's. */
    this.runMs = 0;
    /** Of `runMs`, waiting for the GPU; the rest is JavaScript's. */
    this.waitMs = 0;
    /** @type {DispatchTimer | null} While a reply is profiled. */
    this.timer = null;
    this.plans = program.plans.map((plan) => ({
      ...plan,
      sizes: new Map(plan.slots.map(([name, nBytes]) => [name, nBytes])),
      kinds: new Map(plan.slots.map(([name, , kind]) => [name, kind])),
      input: new Uint32Array(plan.input_bytes / 4),
      pacer: new Pacer(plan.dispatches.length),
      paramsBuffer: /** @type {GPUBuffer | null} */ (null),
      /** @type {GPUBindGroup[]} Of dispatches that touch no state: shared by all states. */
      sharedGroups: [],
    }));
  }

  /**
   * @param {string} name
   * @param {number} nBytes
   * @param {number} [usage]
   */
  addBuffer(name, nBytes, usage) {
    const { STORAGE, UNIFORM, COPY_DST, COPY_SRC } = GPUBufferUsage;
    const buffer = this.gpu.createBuffer({
      label: name,
      size: words(nBytes),
      usage: usage ?? STORAGE | UNIFORM | COPY_DST | COPY_SRC,
    });
    this.buffers.set(name, buffer);
    return buffer;
  }

  /** Params of each plan, and the buffer that results are read through. */
  addPlanBuffers() {
    let largest = 4;
    for (const plan of this.plans) {
      const params = decodeBytes(plan.params);
      if (params.length > 0) {
        plan.paramsBuffer = this.addBuffer(`params of ${plan.name}`, params.length);
        this.write(`params of ${plan.name}`, 0, params);
      }
      for (const [slot, offset, nBytes] of Object.values(plan.outputs)) {
        largest = Math.max(largest, nBytes || (plan.sizes.get(slot) ?? 0) - offset);
      }
    }
    this.addBuffer("readback", largest, GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST);
  }

  /**
   * Writes bytes into a slot; a tail of less than a word is padded with zeros.
   * @param {string} slot
   * @param {number} offset
   * @param {Uint8Array<ArrayBuffer>} data
   */
  write(slot, offset, data) {
    const buffer = /** @type {GPUBuffer} */ (this.buffers.get(slot));
    const whole = data.length & ~3;
    if (whole > 0) this.gpu.device.queue.writeBuffer(buffer, offset, data, 0, whole);
    if (whole === data.length) return;
    const tail = new Uint8Array(4);
    tail.set(data.subarray(whole));
    this.gpu.device.queue.writeBuffer(buffer, offset + whole, tail);
  }

  /** @param {(onDone: () => void) => Promise<GPUComputePipeline[]>} compile */
  compileWith(compile) {
    this.compiling = compile(() => void this.nCompiled++).then(
      (pipelines) => void (this.pipelines = pipelines),
      (error) => void (this.compileError = error),
    );
  }

  /** @param {(done: number, total: number) => void} onProgress */
  async compiled(onProgress) {
    const report = () => onProgress(this.nCompiled, this.program.kernels.length);
    report();
    const timer = setInterval(report, 100);
    await this.compiling;
    clearInterval(timer);
    this.throwIfBroken();
    report();
  }

  /** Throws what went wrong with the compiler or the device, so that a long load ends early. */
  throwIfBroken() {
    if (this.compileError) {
      this.gpu.uncaptured = null; // a failed module also raises an uncaptured error
      throw this.compileError;
    }
    this.gpu.check();
  }

  /**
   * Streams the weights in; see weights.js.
   * @param {import("./sources.js").ByteSource[]} sources
   * @param {string} uploadsJson
   * @param {(done: number, total: number) => void} onProgress
   */
  writeWeights(sources, uploadsJson, onProgress) {
    return writeWeights(this, sources, uploadsJson, onProgress);
  }

  /** Allocates one session's state; a lack of memory is reported by its first `run`. */
  newState() {
    const { device } = this.gpu;
    /** @type {Map<string, GPUBuffer>} */
    const buffers = new Map();
    const { STORAGE, COPY_DST, COPY_SRC } = GPUBufferUsage;
    device.pushErrorScope("out-of-memory");
    for (const [label, nBytes, kind] of this.program.slots) {
      if (kind !== "state") continue;
      const usage = STORAGE | COPY_DST | COPY_SRC;
      buffers.set(label, this.gpu.createBuffer({ label, size: words(nBytes), usage }));
    }
    this.states.set(++this.stateCount, { buffers, groups: [], allocated: device.popErrorScope() });
    return this.stateCount;
  }

  /** @param {number} handle */
  freeState(handle) {
    for (const buffer of this.states.get(handle)?.buffers.values() ?? []) this.gpu.destroyBuffer(buffer);
    this.states.delete(handle);
  }

  /** @param {number} plan @returns The words that Python fills before `run`. */
  inputOf(plan) {
    return this.plans[plan].input;
  }

  /**
   * One step. Several submits for a prefill chunk, with the event loop free in between; the last
   * one replays a second range after the first, and both of them `nRepeats` times.
   * @param {number} handle State
   * @param {number} planIndex
   * @param {number} start First dispatch
   * @param {number} stop Past the last dispatch
   * @param {number} want Index into WANTED
   * @param {number} readBytes
   * @param {number} [tailStart]
   * @param {number} [tailStop]
   * @param {number} [nRepeats]
   * @returns {Promise<Float32Array | Int32Array | null>}
   */
  async run(handle, planIndex, start, stop, want, readBytes, tailStart = 0, tailStop = 0, nRepeats = 1) {
    const entered = performance.now();
    const { gpu } = this;
    gpu.check();
    this.cancelled = false;
    const plan = this.plans[planIndex];
    const state = this.states.get(handle);
    if (!state) throw new Failure("device", `There is no session state ${handle}.`);
    if (state.allocated) {
      const failed = await state.allocated;
      if (failed) throw outOfDeviceMemory(failed.message);
      state.allocated = null;
    }
    const groups = bindGroupsOf(this, state, planIndex);
    const { queue } = gpu.device;
    const input = /** @type {GPUBuffer} */ (this.buffers.get("input"));
    queue.writeBuffer(input, 0, plan.input);
    const isPrefill = plan.n_tokens_max > 1;
    const output = want > 0 ? plan.outputs[WANTED[want]] : null;
    for (let at = start; ; ) {
      const end = isPrefill ? plan.pacer.endOfSubmit(at, stop) : stop;
      const began = performance.now();
      const isLast = end >= stop;
      const read = isLast ? output : null;
      const ranges = isLast ? [at, end, tailStart, tailStop] : [at, end];
      const commands = this.#encode(plan, groups, ranges, isLast ? nRepeats : 1, read, readBytes);
      queue.submit([commands]);
      const submitted = performance.now();
      const result = await gpu.settle(read ? this.#read(want, readBytes) : queue.onSubmittedWorkDone());
      this.waitMs += performance.now() - submitted;
      await this.timer?.collect();
      if (end > at) plan.pacer.measured(at, end, performance.now() - began);
      gpu.check();
      if (isLast) {
        this.runMs += performance.now() - entered;
        return result ?? null;
      }
      if (this.cancelled) throw new Failure("cancelled", "Stopped.");
      at = end;
    }
  }

  /**
   * @param {(typeof this.plans)[0]} plan
   * @param {GPUBindGroup[]} groups
   * @param {number[]} ranges Start and end of each range of dispatches
   * @param {number} nRepeats
   * @param {Binding | null} read
   * @param {number} readBytes
   */
  #encode(plan, groups, ranges, nRepeats, read, readBytes) {
    const encoder = this.gpu.device.createCommandEncoder();
    const { timer } = this;
    let pass = timer ? null : encoder.beginComputePass();
    let last = -1;
    for (let n = 0; n < nRepeats; n++) {
      for (let r = 0; r < ranges.length; r += 2) {
        for (let i = ranges[r]; i < ranges[r + 1]; i++) {
          const [kernel, , [x, y, z]] = plan.dispatches[i];
          if (timer) pass?.end();
          if (timer) pass = timer.pass(encoder, i);
          pass = /** @type {GPUComputePassEncoder} */ (pass);
          if (timer || kernel !== last) pass.setPipeline(this.pipelines[kernel]);
          last = kernel;
          pass.setBindGroup(0, groups[i]);
          pass.dispatchWorkgroups(x, y, z);
        }
      }
    }
    pass?.end();
    timer?.resolve(encoder);
    if (read) {
      const from = /** @type {GPUBuffer} */ (this.buffers.get(read[0]));
      const to = /** @type {GPUBuffer} */ (this.buffers.get("readback"));
      encoder.copyBufferToBuffer(from, read[1], to, 0, readBytes);
    }
    this.submits++;
    return encoder.finish();
  }

  /** @param {number} want @param {number} readBytes */
  async #read(want, readBytes) {
    const buffer = /** @type {GPUBuffer} */ (this.buffers.get("readback"));
    await buffer.mapAsync(GPUMapMode.READ, 0, readBytes);
    const copy = buffer.getMappedRange(0, readBytes).slice(0);
    buffer.unmap();
    return WORDS.includes(WANTED[want]) ? new Int32Array(copy) : new Float32Array(copy);
  }

  /** @param {boolean} isOn Whether each dispatch is timed from now on; see `timer.takeJson`. */
  profile(isOn) {
    this.timer?.destroy();
    this.timer = isOn ? new DispatchTimer(this.gpu) : null;
  }

  /** Makes the running chunk stop at its next submit. */
  cancel() {
    this.cancelled = true;
  }

  destroy() {
    this.profile(false);
    for (const handle of [...this.states.keys()]) this.freeState(handle);
    for (const buffer of this.buffers.values()) this.gpu.destroyBuffer(buffer);
    this.buffers.clear();
  }
}
