// Runs a program in node on a memory image, writes the image back and prints the least milliseconds.
import { readFileSync, writeFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";

// Node 20 has relaxed SIMD behind a flag, and its first compiler gets the dot wrong; later ones have
// it always.
if (process.versions.v8.startsWith("11.")) {
  setFlagsFromString("--experimental-wasm-relaxed-simd");
  setFlagsFromString("--no-liftoff");
}

const [kernels, image, control, nCalls, stack, nRuns] = JSON.parse(process.argv[2]);
const bytes = readFileSync(image);
const nPages = Math.ceil(bytes.length / 65536) + 1;
const memory = new WebAssembly.Memory({ initial: nPages, maximum: 65535, shared: true });
const module = new WebAssembly.Module(readFileSync(kernels));
const { exports } = new WebAssembly.Instance(module, { env: { memory } });
new Uint8Array(memory.buffer).set(bytes);
exports.__stack_pointer.value = stack;
let least = Infinity;
for (let i = 0; i < nRuns; i++) {
  const started = performance.now();
  const code = exports.run(control, 0, nCalls);
  if (code !== 0) throw new Error(`run gave ${code}`);
  least = Math.min(least, performance.now() - started);
}
console.log(least);
writeFileSync(image, new Uint8Array(memory.buffer).slice(0, bytes.length));
