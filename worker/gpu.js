// @ts-check
/** Owns the GPUDevice: asks for it, and builds a model's buffers and pipelines from a program. */

import { Failure, outOfDeviceMemory } from "./failure.js";
import { compilePipelines } from "./pipelines.js";
import { GpuModel } from "./replay.js";
import { BlobSource } from "./sources.js";
import { recall, remember } from "./store.js";

/** @typedef {import("./program.js").Program} Program */

/** What the engine looks at; everything else stays at the default. */
const LIMITS = /** @type {const} */ ([
  "maxStorageBufferBindingSize",
  "maxBufferSize",
  "maxStorageBuffersPerShaderStage",
  "maxUniformBufferBindingSize",
  "maxComputeWorkgroupStorageSize",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupSizeX",
  "maxComputeWorkgroupSizeY",
  "maxComputeWorkgroupSizeZ",
  "maxComputeWorkgroupsPerDimension",
  "minStorageBufferOffsetAlignment",
  "minUniformBufferOffsetAlignment",
]);

/** Asked for where the adapter has them; no kernel may need one without saying so. */
const WANTED_FEATURES = /** @type {const} */ (["timestamp-query", "shader-f16", "subgroups"]);

const REOPEN_TRIES = 5;
const REOPEN_WAIT_MS = 500;

/** @param {string} name "maxBufferSize" -> "max-buffer-size", wgpu-py's spelling */
const kebab = (name) => name.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`);

/**
 * Opens the adapter with its real limits. Throws Failure "no_adapter" when there is none.
 * @param {{floor?: boolean}} [options] `floor` asks for no more than every device grants.
 * @returns {Promise<GpuDevice>}
 */
export async function openGpu({ floor = false } = {}) {
  if (!navigator.gpu) {
    const why = self.isSecureContext ? "This browser has no WebGPU." : "WebGPU needs https.";
    throw new Failure("no_adapter", why, "Use a recent Chrome, Edge, Firefox or Safari.");
  }
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
  if (!adapter) {
    const hint = "Update the graphics driver, or turn hardware acceleration on.";
    throw new Failure("no_adapter", "The browser found no GPU adapter.", hint);
  }
  /** @type {Record<string, number>} */
  const requiredLimits = {};
  if (!floor) for (const name of LIMITS) requiredLimits[name] = adapter.limits[name];
  const requiredFeatures = floor ? [] : WANTED_FEATURES.filter((f) => adapter.features.has(f));
  try {
    const device = await adapter.requestDevice({ requiredLimits, requiredFeatures });
    return new GpuDevice(adapter, device, []);
  } catch (error) {
    // Some drivers list limits that they then refuse to grant.
    const note = `The adapter refused its own limits (${error}); using the default ones.`;
    const again = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
    if (!again) throw new Failure("no_adapter", "The GPU adapter went away.");
    return new GpuDevice(again, await again.requestDevice(), [note]);
  }
}

export class GpuDevice {
  /**
   * @param {GPUAdapter} adapter
   * @param {GPUDevice} device
   * @param {string[]} notes
   */
  constructor(adapter, device, notes) {
    this.device = device;
    this.notes = notes;
    const info = adapter.info;
    const { vendor, architecture, device: model, description } = info;
    /** What the browser tells of the adapter; most keep some of it to themselves. */
    this.about = { vendor, architecture, device: model, description };
    this.adapterFeatures = [...adapter.features].sort();
    this.adapterName = [info.vendor, info.architecture || info.device].filter(Boolean).join(" ");
    // The browser's version stands for its shader compiler.
    this.identity = [...Object.values(this.about), navigator.userAgent].join(" | ");
    this.minSubgroup = info.subgroupMinSize ?? 0;
    this.isSoftware = Boolean(info.isFallbackAdapter) || /swiftshader|llvmpipe/.test(this.adapterName);
    if (this.isSoftware) notes.push("The GPU adapter is software: expect low speed.");
    /** @type {Map<string, Promise<GPUComputePipeline>>} By code and constants. */
    this.pipelines = new Map();
    /** Buffers that were created and not destroyed: none while no model is loaded. */
    this.nBuffers = 0;
    this.bufferBytes = 0;
    /** @type {string | null} Why the device went away. */
    this.lost = null;
    this.nLost = 0;
    /** @type {string | null} The first error that no error scope caught. */
    this.uncaptured = null;
    /** Milliseconds spent waiting for the GPU. */
    this.waitMs = 0;
    this.#watch();
  }

  #watch() {
    const { device } = this;
    device.lost.then((lost) => {
      if (this.device !== device) return; // another took its place
      this.lost = lost.message || lost.reason || "unknown reason";
    });
    device.addEventListener("uncapturederror", (event) => {
      if (this.device === device) this.uncaptured ??= event.error.message;
    });
  }

  /**
   * Opens the adapter anew after it went away, in this object's place. Buffers and pipelines of
   * before are gone: unload first. A driver that restarts has no adapter for a moment.
   */
  async reopen() {
    const nLost = this.nLost + 1;
    for (let left = REOPEN_TRIES; ; left--) {
      try {
        Object.assign(this, await openGpu(), { nLost });
        return this.#watch();
      } catch (error) {
        if (left <= 1) throw error;
        await new Promise((done) => setTimeout(done, REOPEN_WAIT_MS));
      }
    }
  }

  /** @param {GPUBufferDescriptor} descriptor */
  createBuffer(descriptor) {
    this.nBuffers++;
    this.bufferBytes += descriptor.size;
    return this.device.createBuffer(descriptor);
  }

  /** @param {GPUBuffer} buffer */
  destroyBuffer(buffer) {
    this.nBuffers--;
    this.bufferBytes -= buffer.size;
    buffer.destroy();
  }

  /**
   * Whether this many bytes can be had beside what is held; all are given back.
   * @param {number} nBytes
   */
  async takes(nBytes) {
    this.check();
    const { device } = this;
    const most = Math.floor(device.limits.maxBufferSize / 4) * 4;
    /** @type {GPUBuffer[]} */
    const buffers = [];
    device.pushErrorScope("validation");
    device.pushErrorScope("out-of-memory");
    for (let left = Math.ceil(nBytes / 4) * 4; left > 0; left -= most) {
      buffers.push(device.createBuffer({ size: Math.min(left, most), usage: GPUBufferUsage.STORAGE }));
    }
    const failed = await Promise.all([device.popErrorScope(), device.popErrorScope()]);
    for (const buffer of buffers) buffer.destroy();
    this.check();
    return !failed.some(Boolean);
  }

  /** The device in words and numbers, for Python and for reports. */
  infoJson() {
    const limits = Object.fromEntries(LIMITS.map((n) => [kebab(n), this.device.limits[n]]));
    const features = [...this.device.features, ...(navigator.gpu.wgslLanguageFeatures ?? [])];
    const { adapterName: adapter, identity, isSoftware, minSubgroup, notes } = this;
    const { about, adapterFeatures, nBuffers, bufferBytes, nLost, waitMs } = this;
    const words = { adapter, about, identity, isSoftware, minSubgroup, notes };
    const counts = { nBuffers, bufferBytes, nPipelines: this.pipelines.size, nLost, waitMs };
    return JSON.stringify({ ...words, ...counts, limits, features, adapterFeatures });
  }

  /** Throws if the device is lost or has reported an error since the last look. */
  check() {
    if (this.lost !== null) {
      throw new Failure("device_lost", `The GPU went away: ${this.lost}`, "Load the model again.");
    }
    if (this.uncaptured !== null) {
      const message = this.uncaptured;
      this.uncaptured = null;
      throw new Failure("device", `The GPU refused a command: ${message}`);
    }
  }

  /**
   * Waits for a GPU promise; its rejection becomes "device_lost" if that is the cause.
   * @template T
   * @param {Promise<T>} promise
   */
  async settle(promise) {
    const began = performance.now();
    try {
      const result = await promise;
      this.waitMs += performance.now() - began;
      return result;
    } catch (error) {
      // A lost device rejects pending promises first and resolves `lost` a moment later.
      await Promise.race([this.device.lost, new Promise((done) => setTimeout(done, 200))]);
      this.check();
      throw new Failure("device", `The GPU failed: ${error}`);
    }
  }

  /**
   * Allocates buffers and starts to compile. Weights are empty until `writeWeights`, which runs
   * at the same time; `compiled` tells when the pipelines are there.
   * @param {string} programJson From webgpu_common.program_json.
   */
  async createModel(programJson) {
    this.check();
    /** @type {Program} */
    const program = JSON.parse(programJson);
    const model = new GpuModel(this, program);
    try {
      await this.#allocate(model, program);
    } catch (error) {
      model.destroy();
      throw error;
    }
    model.compileWith((onDone) => compilePipelines(this, program, onDone));
    return model;
  }

  /**
   * @param {GpuModel} model
   * @param {Program} program
   */
  async #allocate(model, program) {
    const { device } = this;
    device.pushErrorScope("validation");
    device.pushErrorScope("out-of-memory");
    for (const [name, nBytes, kind] of program.slots) {
      if (kind !== "state" && kind !== "params") model.addBuffer(name, nBytes);
    }
    model.addPlanBuffers();
    // Both at once, so that other models may be allocated meanwhile.
    const popped = [device.popErrorScope(), device.popErrorScope()];
    const [outOfMemory, invalid] = await Promise.all(popped);
    this.check();
    const failed = outOfMemory ?? invalid;
    if (failed) throw outOfDeviceMemory(failed.message);
  }

  /**
   * Bytes that Python already holds, as a source for `writeWeights`.
   * @param {Uint8Array<ArrayBuffer>} data
   * @param {string} name
   */
  bytesSource(data, name) {
    return new BlobSource(new Blob([data]), name);
  }

  /** @param {string} key */
  recall(key) {
    return recall(key);
  }

  /** @param {string} key @param {string} text */
  remember(key, text) {
    return remember(key, text);
  }

  destroy() {
    this.device.destroy();
  }
}
