// @ts-check
/** Facts for the device panel and bug reports: nothing that a person wrote is among them. */

import { recallTests } from "./store.js";

/** @typedef {import("./boot.js").Runtime} Runtime */

/**
 * Everything but the page's own words for it; see the protocol's Report.
 * @param {Runtime} runtime
 * @returns {Promise<import("./protocol.js").Report>}
 */
export async function reportOf({ engine, gpu, heapBytes, stepMs, version, notes }) {
  const own = JSON.parse(engine.report());
  const device = gpu ? JSON.parse(gpu.infoJson()) : {};
  const kernelTests = gpu ? await recallTests(gpu.identity) : null;
  return {
    version,
    backend: gpu ? "webgpu" : "cpu",
    adapter: gpu?.adapterName ?? own.adapter,
    heapBytes: heapBytes(),
    deviceBytes: own.deviceBytes,
    details: {
      ...own.details,
      kernelTests,
      bootMs: stepMs,
      bootNotes: notes,
      device,
      browser: await browserFacts(),
      userAgent: navigator.userAgent,
      atMs: performance.now(),
    },
  };
}

async function browserFacts() {
  const memoryGb = /** @type {{deviceMemory?: number}} */ (navigator).deviceMemory ?? 0;
  return {
    cores: navigator.hardwareConcurrency,
    memoryGb,
    isIsolated: self.crossOriginIsolated,
    hasGpu: "gpu" in navigator,
    storage: await storageFacts(),
  };
}

/** Null where the browser keeps nothing for this page. */
async function storageFacts() {
  try {
    const { usage = 0, quota = 0 } = await navigator.storage.estimate();
    return { usedBytes: usage, quotaBytes: quota, isPersisted: await navigator.storage.persisted() };
  } catch (error) {
    console.info("The browser says nothing about storage.", error);
    return null;
  }
}
