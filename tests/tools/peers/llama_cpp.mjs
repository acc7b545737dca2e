// Times llama.cpp, by way of node-llama-cpp: one JSON line in, one JSON line out for each round.
// node llama_cpp.mjs MODEL vulkan|cpu THREADS N_CTX
import { createInterface } from "node:readline";
import { getLlama } from "node-llama-cpp";

const [model, gpu, ...numbers] = process.argv.slice(2);
const [threads, contextSize] = numbers.map(Number);
const llama = await getLlama({
  gpu: gpu === "vulkan" ? "vulkan" : false,
  build: "never",
  maxThreads: threads,
  logLevel: "error",
});
if (gpu === "vulkan" && llama.gpu !== "vulkan") throw new Error("llama.cpp found no Vulkan device");
const names = llama.gpu ? await llama.getGpuDeviceNames() : [];
const loaded = await llama.loadModel({ modelPath: model, gpuLayers: gpu === "vulkan" ? "max" : 0 });
const context = await loaded.createContext({ contextSize, threads, batchSize: 512 });
const sequence = context.getSequence();

/** @param {number} nPrompt */
async function prefill(nPrompt) {
  const ids = Array.from({ length: nPrompt }, (_, i) => ((i * 37 + 11) % 20000) + 100);
  await sequence.clearHistory();
  const began = performance.now();
  await sequence.evaluateWithoutGeneratingNewTokens(ids);
  return (nPrompt / (performance.now() - began)) * 1e3;
}

/** @param {number} nTokens */
async function decode(nTokens) {
  let began = 0;
  let n = -1; // the first token's step is part of neither figure
  for await (const _ of sequence.evaluate([105], { temperature: 0 })) {
    if (n < 0) began = performance.now();
    if (++n >= nTokens) break;
  }
  return (n / (performance.now() - began)) * 1e3;
}

await prefill(16);
console.log(JSON.stringify({ device: names.join(", ") || "cpu" }));
for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  const speeds = {};
  for (const n of asked.prefill) speeds[n] = await prefill(n);
  await prefill(16); // decoding starts from as many tokens as in rushlight's own bench
  console.log(JSON.stringify({ prefill: speeds, decode: await decode(asked.decode) }));
}
