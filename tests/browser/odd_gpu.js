/**
 * WebGPU as some browsers, drivers and devices have it. `odd_gpu.py` puts this in front of the
 * worker of a test's site; `odd_gpu.json` beside it says what is odd:
 *
 *   hasNoFeatures  the adapter offers no optional feature (no shader-f16, no subgroups)
 *   limits         the adapter grants no more than these
 *   refuses        kernels whose name matches do not compile
 *   losesAt        the device goes away at this submit (counted from 1), once
 *
 * A test reaches `self.oddGpu` to change the last one while the worker runs.
 */

const request = new XMLHttpRequest();
request.open("GET", new URL("./odd_gpu.json", import.meta.url), false); // before anything asks
request.send();
const odd = JSON.parse(request.responseText);
const state = { losesAt: odd.losesAt ?? 0, nSubmits: 0 };
Object.assign(self, { oddGpu: state });

function replaceGetter(prototype, name, change) {
  const { get } = Object.getOwnPropertyDescriptor(prototype, name);
  Object.defineProperty(prototype, name, {
    get() {
      return change(get.call(this));
    },
  });
}

if (odd.hasNoFeatures) replaceGetter(GPUAdapter.prototype, "features", () => new Set());
if (odd.limits) {
  replaceGetter(GPUAdapter.prototype, "limits", (limits) => {
    return new Proxy(limits, { get: (all, name) => odd.limits[name] ?? all[name] });
  });
}

const { createComputePipelineAsync } = GPUDevice.prototype;
GPUDevice.prototype.createComputePipelineAsync = function (descriptor) {
  if (odd.refuses && new RegExp(odd.refuses).test(descriptor.label)) {
    return Promise.reject(new Error("CreateComputePipelines failed with VK_ERROR_UNKNOWN"));
  }
  return createComputePipelineAsync.call(this, descriptor);
};

const devices = new WeakMap();
const { requestDevice } = GPUAdapter.prototype;
GPUAdapter.prototype.requestDevice = async function (descriptor) {
  const device = await requestDevice.call(this, descriptor);
  devices.set(device.queue, device);
  return device;
};
const { submit } = GPUQueue.prototype;
GPUQueue.prototype.submit = function (commands) {
  state.nSubmits++;
  if (state.nSubmits === state.losesAt) devices.get(this).destroy();
  return submit.call(this, commands);
};
