// @ts-check
/** Bind groups: which buffer each kernel of a plan sees, for one session's state. */

import { Failure } from "./failure.js";
import { words } from "./program.js";

/** @typedef {import("./replay.js").GpuModel} GpuModel */
/** @typedef {import("./replay.js").State} State */

/**
 * Bind groups of a plan for a state; made once.
 * @param {GpuModel} model
 * @param {State} state
 * @param {number} planIndex
 */
export function bindGroupsOf(model, state, planIndex) {
  if (state.groups[planIndex]) return state.groups[planIndex];
  const plan = model.plans[planIndex];
  state.groups[planIndex] = plan.dispatches.map(([kernel, bindings, , label], i) => {
    const touchesState = bindings.some(([slot]) => plan.kinds.get(slot) === "state");
    if (!touchesState && plan.sharedGroups[i]) return plan.sharedGroups[i];
    const group = model.gpu.device.createBindGroup({
      label,
      layout: model.pipelines[kernel].getBindGroupLayout(0),
      entries: bindings.map(([slot, offset, nBytes], binding) => ({
        binding,
        resource: {
          buffer: bufferOf(model, slot, plan, state.buffers),
          offset,
          size: nBytes || words((plan.sizes.get(slot) ?? 0) - offset),
        },
      })),
    });
    if (!touchesState) plan.sharedGroups[i] = group;
    return group;
  });
  return state.groups[planIndex];
}

/**
 * @param {GpuModel} model
 * @param {string} slot
 * @param {GpuModel["plans"][0]} plan
 * @param {Map<string, GPUBuffer>} stateBuffers
 */
function bufferOf(model, slot, plan, stateBuffers) {
  const kind = plan.kinds.get(slot);
  const buffer =
    kind === "params" ? plan.paramsBuffer : stateBuffers.get(slot) ?? model.buffers.get(slot);
  if (!buffer) throw new Failure("device", `Plan ${plan.name} uses an unknown slot ${slot}.`);
  return buffer;
}
