// @ts-check
/** Times every dispatch of a submit: a compute pass each, between two timestamps. */

/** A query set holds 4096 timestamps; dispatches beyond that are not timed. */
const MAX_DISPATCHES = 2048;

/** What `GpuModel` calls around its dispatches while a reply is profiled. */
export class DispatchTimer {
  /** @param {import("./gpu.js").GpuDevice} gpu With the feature "timestamp-query". */
  constructor(gpu) {
    this.gpu = gpu;
    const size = MAX_DISPATCHES * 16;
    this.queries = gpu.device.createQuerySet({ type: "timestamp", count: 2 * MAX_DISPATCHES });
    this.stamps = gpu.createBuffer({
      size,
      usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC,
    });
    this.readback = gpu.createBuffer({
      size,
      usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
    });
    /** @type {number[]} Dispatches of the submit that is being encoded. */
    this.order = [];
    /** @type {[dispatch: number, ms: number][]} */
    this.samples = [];
  }

  /**
   * A pass for one dispatch.
   * @param {GPUCommandEncoder} encoder
   * @param {number} dispatch
   */
  pass(encoder, dispatch) {
    const k = this.order.length;
    if (k === MAX_DISPATCHES) return encoder.beginComputePass();
    this.order.push(dispatch);
    const timestampWrites = {
      querySet: this.queries,
      beginningOfPassWriteIndex: 2 * k,
      endOfPassWriteIndex: 2 * k + 1,
    };
    return encoder.beginComputePass({ timestampWrites });
  }

  /** @param {GPUCommandEncoder} encoder */
  resolve(encoder) {
    const n = this.order.length;
    if (n === 0) return;
    encoder.resolveQuerySet(this.queries, 0, 2 * n, this.stamps, 0);
    encoder.copyBufferToBuffer(this.stamps, 0, this.readback, 0, n * 16);
  }

  /** Reads the times of the submit that was encoded last. */
  async collect() {
    const { order } = this;
    if (order.length === 0) return;
    this.order = [];
    await this.readback.mapAsync(GPUMapMode.READ, 0, order.length * 16);
    const stamps = new BigInt64Array(this.readback.getMappedRange(0, order.length * 16));
    order.forEach((dispatch, k) => {
      const ns = Number(stamps[2 * k + 1] - stamps[2 * k]);
      this.samples.push([dispatch, Math.max(0, ns) / 1e6]);
    });
    this.readback.unmap();
  }

  /** The times since the last call, as JSON: `[[dispatch, ms], ...]`. */
  takeJson() {
    const taken = this.samples;
    this.samples = [];
    return JSON.stringify(taken);
  }

  destroy() {
    this.queries.destroy();
    this.gpu.destroyBuffer(this.stamps);
    this.gpu.destroyBuffer(this.readback);
  }
}
