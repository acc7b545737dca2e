// @ts-check
/**
 * One more thread for the CPU kernels: a copy of the module over the engine's memory, which works
 * on each range of the program until the pool is dropped. It never returns to its event loop.
 */

/** @param {import("./cpu_pool.js").Member} member */
async function work({ module, memory, control, index, stack, lock }) {
  const { exports } = await WebAssembly.instantiate(module, { env: { memory } });
  const kernels = /** @type {import("./cpu.js").KernelExports} */ (/** @type {unknown} */ (exports));
  kernels.__stack_pointer.value = stack;
  await new Promise((held) => {
    void navigator.locks.request(lock, () => {
      held(null);
      return new Promise(() => {});
    });
  });
  self.postMessage("ready");
  kernels.pool_loop(control, index);
}

// Only an error event reaches the engine's thread, so a trap is reported as one.
self.addEventListener("message", ({ data }) => void work(data).catch(reportError));
