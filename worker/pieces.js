// @ts-check
/** Reads a model's bytes piece by piece, one ahead of the one in hand. */

/** @typedef {import("./sources.js").ByteSource} ByteSource */
/** @typedef {{data: Promise<Uint8Array<ArrayBuffer>>}} Piece Its read begins when it is asked for. */
/** @typedef {[address: number, part: number, offset: number, nBytes: number]} Upload */

const PROGRESS_MS = 100;
const PIECE_BYTES = 16 << 20;

/**
 * @template {Piece} P
 * @param {Iterator<P, undefined>} pieces
 * @param {number} total Bytes of all.
 * @param {(piece: P, data: Uint8Array<ArrayBuffer>) => void | Promise<void>} take
 * @param {(done: number, total: number) => void} onProgress Bytes taken, at most ten times a second.
 */
export async function takePieces(pieces, total, take, onProgress) {
  let done = 0;
  let reported = 0;
  let next = pieces.next().value;
  while (next) {
    const piece = next;
    const data = await piece.data;
    next = pieces.next().value; // is being read while this one is taken in
    next?.data.catch(() => {}); // its failure is met when it is awaited
    await take(piece, data);
    done += data.length;
    if (performance.now() - reported > PROGRESS_MS) {
      reported = performance.now();
      onProgress(done, total);
    }
  }
  onProgress(done, total);
}

/**
 * Starts the read of a piece each time it is asked for one.
 * @param {Upload[]} uploads
 * @param {ByteSource[]} sources
 * @returns {Generator<{address: number, data: Promise<Uint8Array<ArrayBuffer>>}, undefined>}
 */
export function* readPieces(uploads, sources) {
  for (const [address, part, offset, nBytes] of uploads) {
    for (let at = 0; at < nBytes; at += PIECE_BYTES) {
      const n = Math.min(PIECE_BYTES, nBytes - at);
      yield { address: address + at, data: sources[part].read(offset + at, n) };
    }
  }
}
