// Times llama.cpp, by way of node-llama-cpp, and prints one JSON line a round.
// node peer.mjs MODEL vulkan|cpu THREADS PREFILL DECODE ROUNDS
import { getLlama } from "node-llama-cpp";

const [model, gpu, ...numbers] = process.argv.slice(2);
const [threads, nPrefill, nDecode, rounds] = numbers.map(Number);
const llama = await getLlama({
  gpu: gpu === "vulkan" ? "vulkan" : false,
  build: "never",
  maxThreads: threads,
  logLevel: "error",
});
if (gpu === "vulkan" && llama.gpu !== "vulkan") throw new Error("llama.cpp found no Vulkan device");
const names = llama.gpu ? await llama.getGpuDeviceNames() : [];
const loaded = await llama.loadModel({ modelPath: model, gpuLayers: gpu === "vulkan" ? "max" : 0 });
const context = await loaded.createContext({ contextSize: 1024, threads, batchSize: 512 });
const sequence = context.getSequence();
const ids = Array.from({ length: nPrefill }, (_, i) => ((i * 37 + 11) % 20000) + 100);

for (let round = 0; round <= rounds; round++) {
  await sequence.clearHistory();
  let began = performance.now();
  await sequence.evaluateWithoutGeneratingNewTokens(ids);
  const prefill = (nPrefill / (performance.now() - began)) * 1e3;
  let n = -1; // the first token's step is part of neither figure
  for await (const _ of sequence.evaluate([105], { temperature: 0 })) {
    if (n < 0) began = performance.now();
    if (++n >= nDecode) break;
  }
  const decode = (n / (performance.now() - began)) * 1e3;
  const device = names.join(", ") || "cpu";
  if (round > 0) console.log(JSON.stringify({ device, prefill, decode })); // round 0 warms up
}
process.exit(0);
