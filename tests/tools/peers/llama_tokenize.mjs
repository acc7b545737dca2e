// Token ids that llama.cpp gives: JSON list of texts in, JSON list of id lists out.
// node llama_tokenize.mjs MODEL < texts.json
import { readFileSync } from "node:fs";
import { getLlama } from "node-llama-cpp";

const llama = await getLlama({ gpu: false, build: "never", logLevel: "error" });
const model = await llama.loadModel({ modelPath: process.argv[2], vocabOnly: true });
const texts = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(texts.map((text) => model.tokenize(text, false, "trimLeadingSpace"))));
process.exit(0);
