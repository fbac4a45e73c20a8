// Runs in Node: one ONNX file after the other in onnxruntime-web.
//
// usage: node web_child.mjs PACKAGES MANIFEST
// PACKAGES is the folder node_modules with the package. MANIFEST is a JSON list of {"model", "feeds" (for each run: name ->
// {"type", "shape", "file" of raw numbers}), "outputs" (for each run a file to write: JSON of name -> {"type", "shape", "file"}),
// "error" (file for the reason why there is none)}.

import fs from 'fs';
import { pathToFileURL } from 'url';

const [packages, manifest] = process.argv.slice(2);
const { default: ort } = await import(pathToFileURL(`${packages}/onnxruntime-web/dist/ort.wasm.bundle.min.mjs`));
ort.env.wasm.numThreads = 1;

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, int8: Int8Array, uint8: Uint8Array,
  int32: Int32Array, int64: BigInt64Array, bool: Uint8Array,
};

function tensor({ type, shape, file }) {
  const bytes = new Uint8Array(fs.readFileSync(file));
  return new ort.Tensor(type, new ARRAYS[type](bytes.buffer), shape);
}

async function run({ model, feeds, outputs }) {
  const options = { executionProviders: ['wasm'], logSeverityLevel: 4 };
  const session = await ort.InferenceSession.create(new Uint8Array(fs.readFileSync(model)), options);
  for (const [index, feed] of feeds.entries()) {
    const given = Object.fromEntries(Object.entries(feed).map(([name, stored]) => [name, tensor(stored)]));
    const found = {};
    for (const [number, [name, { type, dims, data }]] of Object.entries(await session.run(given)).entries()) {
      const file = `${outputs[index]}.${number}`;
      fs.writeFileSync(file, Buffer.from(data.buffer, data.byteOffset, data.byteLength));
      found[name] = { type, shape: dims, file };
    }
    fs.writeFileSync(outputs[index], JSON.stringify(found));
  }
  await session.release();
}

for (const entry of JSON.parse(fs.readFileSync(manifest))) {
  try {
    await run(entry);
  } catch (error) {
    fs.writeFileSync(entry.error, String(error.message ?? error));
  }
}
