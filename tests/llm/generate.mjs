// Completes a prompt with node-llama-cpp in several contexts at once, and prints what it measures, as JSON. Stops itself
// (SIGSTOP) when the model is loaded.
// usage: node generate.mjs MODEL TOKENS CONTEXTS
import {getLlama} from "node-llama-cpp";

const [path, tokens, contexts] = process.argv.slice(2);
const llama = await getLlama({build: "never", gpu: false, maxThreads: 1});
const model = await llama.loadModel({modelPath: path});

process.kill(process.pid, "SIGSTOP");

async function complete(number) {
	const context = await model.createContext({contextSize: 512, threads: 1});
	const prompt = model.tokenize("a prompt of some words and letters ".repeat(number + 1));
	const times = [];
	const began = performance.now();
	for await (const _ of context.getSequence().evaluate(prompt, {yieldEogToken: true})) {
		times.push(performance.now());
		if (times.length === Number(tokens))
			break;
	}
	console.log(JSON.stringify({
		prompt: prompt.length,
		tokens: times.length,
		first_ms: times[0] - began,
		rest_ms: times.at(-1) - times[0]
	}));
}

await Promise.all(Array.from({length: Number(contexts)}, (_, number) => complete(number)));
await llama.dispose();
