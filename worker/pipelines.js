// @ts-check
/** A program's kernels, compiled: each once per device, and named with its line if it is refused. */

import { Failure } from "./failure.js";

/** @typedef {import("./gpu.js").GpuDevice} GpuDevice */

/**
 * @param {GpuDevice} gpu
 * @param {import("./program.js").Program} program
 * @param {() => void} onDone Called after each pipeline.
 */
export function compilePipelines(gpu, program, onDone) {
  return Promise.all(
    program.kernels.map(async (kernel, index) => {
      try {
        const pipeline = await pipelineOf(gpu, kernel);
        onDone();
        return pipeline;
      } catch (error) {
        const { message, line } = /** @type {{message: string, line: number}} */ (error);
        const hint = "Report this with the adapter's name.";
        throw new Failure("shader_compile", message, hint, { kernel: index, line });
      }
    }),
  );
}

/**
 * A kernel's pipeline, compiled once: self-tests and a model's plans share many. Rejects with
 * the compiler's first message and its line.
 * @param {GpuDevice} gpu
 * @param {import("./program.js").Kernel} kernel
 */
function pipelineOf({ device, pipelines }, { name, code, constants }) {
  const key = JSON.stringify([code, constants]);
  let pipeline = pipelines.get(key);
  if (!pipeline) {
    const module = device.createShaderModule({ label: name, code });
    const compute = { module, entryPoint: "main", constants };
    pipeline = device
      .createComputePipelineAsync({ label: name, layout: "auto", compute })
      .catch(async (error) => {
        pipelines.delete(key);
        const { messages } = await module.getCompilationInfo();
        const first = messages.find((m) => m.type === "error");
        throw { message: first?.message ?? String(error), line: first?.lineNum ?? 0 };
      });
    pipelines.set(key, pipeline);
  }
  return pipeline;
}
