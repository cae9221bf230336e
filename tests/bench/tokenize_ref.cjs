// The same texts through other tokenizers, on one thread: MB/s of CPU.
//   node tokenize_ref.cjs MODULES native|tiktoken FILE TEXTFILE BYTES DOC_BYTES
// native: Hugging Face's tokenizers (FILE: a tokenizer.json); tiktoken: its wasm build (FILE: an encoding's name).
const fs = require('node:fs');
const path = require('node:path');
process.env.RAYON_NUM_THREADS = '1';
process.env.TOKENIZERS_PARALLELISM = 'false';
const [modules, kind, file, textFile, bytes, doc] = process.argv.slice(2);

function documents(text, size) {
  const out = [];
  for (let at = 0; at < text.length;) {
    let end = Math.min(at + size, text.length);
    while (end < text.length && (text[end] & 0xc0) === 0x80) end++;
    out.push(text.subarray(at, end).toString('utf8'));
    at = end;
  }
  return out;
}

async function main() {
  let encode;
  if (kind === 'native') {
    const { Tokenizer } = require(path.join(modules, '@anush008/tokenizers'));
    const t = Tokenizer.fromFile(file);
    encode = async (s) => (await t.encode(s, null, { addSpecialTokens: false })).getLength();
  } else {
    const t = require(path.join(modules, 'tiktoken')).get_encoding(file);
    encode = async (s) => t.encode(s, 'all').length;
  }
  const docs = documents(fs.readFileSync(textFile).subarray(0, Number(bytes)), Number(doc));
  await encode(docs[0]);
  const before = process.cpuUsage();
  let n = 0, size = 0;
  for (const d of docs) {
    n += await encode(d);
    size += Buffer.byteLength(d);
  }
  const used = process.cpuUsage(before);
  console.log(JSON.stringify({ mbs: size / (used.user + used.system), tokens: n }));
}

main();
