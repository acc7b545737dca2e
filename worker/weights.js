// @ts-check
/**
 * Streams tensors into GPU buffers. A tensor is read in pieces of whole blocks, each piece is
 * taken apart into the planes that the kernels read, and each plane goes straight to its buffer:
 * no weight ever enters Python's heap.
 */

import { takePieces } from "./pieces.js";

/** @typedef {import("./sources.js").ByteSource} ByteSource */
/** @typedef {import("./replay.js").GpuModel} GpuModel */
/** @typedef {[offset: number, nBytes: number, dest: number]} Plane Bytes of each block. */
/**
 * As webgpu_common.uploads_json writes it, in the file's order.
 * @typedef {[tensor: string, slot: string, part: number, sourceOffset: number,
 *   sourceBytes: number, typeSize: number, planes: Plane[]]} Upload
 */
/** @typedef {{upload: Upload, first: number, nBlocks: number, data: Promise<Uint8Array<ArrayBuffer>>}} Piece */

const PIECE_BYTES = 16 << 20;
/** Pieces hold a multiple of this many blocks, so each plane's piece starts on a whole word. */
const BLOCKS_ALIGN = 64;
const IN_FLIGHT_BYTES = 64 << 20;

/**
 * @param {GpuModel} model
 * @param {ByteSource[]} sources One per part of the file.
 * @param {string} uploadsJson
 * @param {(done: number, total: number) => void} onProgress Bytes read, at most ten times a second.
 */
export async function writeWeights(model, sources, uploadsJson, onProgress) {
  /** @type {Upload[]} */
  const uploads = JSON.parse(uploadsJson);
  const total = uploads.reduce((sum, upload) => sum + upload[4], 0);
  let queued = 0;
  /** @param {Piece} piece @param {Uint8Array<ArrayBuffer>} data */
  const take = async (piece, data) => {
    model.throwIfBroken();
    writePiece(model, piece, data);
    queued += data.length;
    if (queued < IN_FLIGHT_BYTES) return;
    queued = 0;
    await drain(model);
  };
  await takePieces(readPieces(uploads, sources), total, take, onProgress);
  await drain(model);
}

/**
 * Starts the read of a piece each time it is asked for one.
 * @param {Upload[]} uploads
 * @param {ByteSource[]} sources
 * @returns {Generator<Piece, undefined>}
 */
function* readPieces(uploads, sources) {
  for (const upload of uploads) {
    const [, , part, sourceOffset, sourceBytes, typeSize] = upload;
    const total = sourceBytes / typeSize;
    const step = Math.max(1, Math.floor(PIECE_BYTES / typeSize / BLOCKS_ALIGN)) * BLOCKS_ALIGN;
    for (let first = 0; first < total; first += step) {
      const nBlocks = Math.min(step, total - first);
      const offset = sourceOffset + first * typeSize;
      yield { upload, first, nBlocks, data: sources[part].read(offset, nBlocks * typeSize) };
    }
  }
}

/**
 * Lets the GPU process take in what was written, so that staging memory stays bounded.
 * @param {GpuModel} model
 */
async function drain(model) {
  const { queue } = model.gpu.device;
  queue.submit([]);
  await model.gpu.settle(queue.onSubmittedWorkDone());
  model.throwIfBroken();
}

/**
 * @param {GpuModel} model
 * @param {Piece} piece
 * @param {Uint8Array<ArrayBuffer>} data
 */
function writePiece(model, { upload, first, nBlocks }, data) {
  const [, slot, , , , typeSize, planes] = upload;
  for (const [offset, nBytes, dest] of planes) {
    const plane = gatherPlane(data, typeSize, nBlocks, offset, nBytes);
    model.write(slot, dest + first * nBytes, plane);
  }
}

/**
 * Bytes offset..offset+nBytes of every block, contiguous. Copies in the widest unit that fits.
 * @param {Uint8Array<ArrayBuffer>} data Starts at byte 0 of its buffer.
 * @param {number} typeSize
 * @param {number} nBlocks
 * @param {number} offset
 * @param {number} nBytes
 */
export function gatherPlane(data, typeSize, nBlocks, offset, nBytes) {
  if (nBytes === typeSize) return data;
  const all = typeSize | offset | nBytes;
  const Unit = all % 4 === 0 ? Uint32Array : all % 2 === 0 ? Uint16Array : Uint8Array;
  const width = Unit.BYTES_PER_ELEMENT;
  const from = new Unit(data.buffer, data.byteOffset, (nBlocks * typeSize) / width);
  const to = new Unit((nBlocks * nBytes) / width);
  const stride = typeSize / width;
  const count = nBytes / width;
  let at = 0;
  for (let block = 0, base = offset / width; block < nBlocks; block++, base += stride) {
    for (let i = 0; i < count; i++) to[at++] = from[base + i];
  }
  return new Uint8Array(to.buffer);
}
