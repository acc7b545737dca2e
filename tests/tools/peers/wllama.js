// Holds a model in wllama and times rounds; llama.cpp's own clock, so that no messaging counts.
import { Wllama } from "./wllama.mjs";

let engine = null;
let nPrompts = 0;

window.openModel = async ({ url, nThreads, nCtx }) => {
  const wasm = new URL("./wllama.wasm", import.meta.url).href;
  engine = new Wllama({ default: wasm }, { suppressNativeLog: true });
  const file = await (await fetch(url)).blob();
  await engine.loadModel([file], { n_gpu_layers: 0, n_threads: nThreads, n_ctx: nCtx, n_batch: 512, n_parallel: 1 });
  await complete(16, 1);
  return engine.getNumThreads();
};

// Each of these is one token in the vocabularies of the models we measure.
const WORDS = " the of and to in is was for that with as on by at from it an are this which".split(" ").slice(1);

// It takes text only; how many tokens that was, it tells.
async function complete(nPrompt, nDecode) {
  nPrompts++;
  const words = Array.from({ length: nPrompt - 1 }, (_, i) => WORDS[(i * 7 + nPrompts + (i >> 4)) % WORDS.length]);
  const { timings } = await engine.createCompletion({
    prompt: ` ${words.join(" ")}`,
    max_tokens: nDecode,
    temperature: 0,
    cache_prompt: false,
    ignore_eos: true,
  });
  if (Math.abs(timings.prompt_n - nPrompt) > 2) throw new Error(`a prompt of ${timings.prompt_n} tokens, not ${nPrompt}`);
  return timings;
}

window.round = async ({ nDecode, prefill }) => {
  const speeds = {};
  for (const n of prefill) speeds[n] = (await complete(n, 1)).prompt_per_second;
  const { predicted_per_second: decode, predicted_n: n } = await complete(16, nDecode + 1);
  if (n < nDecode) throw new Error(`${n} of ${nDecode} tokens were decoded`);
  return { prefill: speeds, decode };
};
