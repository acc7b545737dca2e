// Runs a program in node on a memory image and writes the image back.
import { readFileSync, writeFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";

// Node 20 has relaxed SIMD behind a flag, and its first compiler gets the dot wrong (has_dots in
// matmul_int8.c says so); later ones have it always.
if (process.versions.v8.startsWith("11.")) {
  setFlagsFromString("--experimental-wasm-relaxed-simd");
  setFlagsFromString("--no-liftoff");
}

const [kernels, image, control, nCalls, stack] = JSON.parse(process.argv[2]);
const bytes = readFileSync(image);
const nPages = Math.ceil(bytes.length / 65536) + 1;
const memory = new WebAssembly.Memory({ initial: nPages, maximum: 65535, shared: true });
const module = new WebAssembly.Module(readFileSync(kernels));
const { exports } = new WebAssembly.Instance(module, { env: { memory } });
new Uint8Array(memory.buffer).set(bytes);
exports.__stack_pointer.value = stack;
const code = exports.run(control, 0, nCalls);
if (code !== 0) throw new Error(`run gave ${code}`);
writeFileSync(image, new Uint8Array(memory.buffer).slice(0, bytes.length));
