// Writes cases.json: small tokenizers, a component or flag each, with the ids and texts that the reference (Hugging
// Face's tokenizers, through an npm package of native code) gives for them.
//   NODE_PATH=… node cases.mjs > cases.json
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import path from 'node:path';
const require = createRequire((process.env.NODE_PATH || '.') + '/');
const { Tokenizer } = require(path.join(process.env.NODE_PATH, '@anush008/tokenizers'));
const bases = JSON.parse(readFileSync(new URL('./bases.json', import.meta.url)));

const BYTES = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false };
const GPT2 = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };
const seq = (...pretokenizers) => ({ type: 'Sequence', pretokenizers });
const norm = (...normalizers) => ({ type: 'Sequence', normalizers });
const split = (pattern, behavior, invert = false) => ({ type: 'Split', pattern, behavior, invert });
const re = (Regex) => ({ Regex });
const str = (String) => ({ String });
const UP = '▁';
const LLAMA = { type: 'Sequence', decoders: [{ type: 'Replace', pattern: str(UP), content: ' ' }, { type: 'ByteFallback' }, { type: 'Fuse' }, { type: 'Strip', content: ' ', start: 1, stop: 0 }] };
const meta = (prepend_scheme, split) => ({ type: 'Metaspace', replacement: UP, prepend_scheme, split });
const template = (before, after) => ({
  type: 'TemplateProcessing',
  single: [...before.map((id) => ({ SpecialToken: { id, type_id: 0 } })), { Sequence: { id: 'A', type_id: 0 } }, ...after.map((id) => ({ SpecialToken: { id, type_id: 0 } }))],
  pair: [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 1 } }],
  special_tokens: Object.fromEntries([...before, ...after].map((id) => [id, { id, ids: [SPECIAL[id]], tokens: [id] }])),
});
const SPECIAL = { '<s>': 1, '</s>': 2 };
const added = (list) => (base) => {
  let next = Object.keys(base.vocab).length;
  return list.map((t) => ({ id: base.vocab[t.content] ?? next++, single_word: false, lstrip: false, rstrip: false, normalized: false, special: false, ...t }));
};

// Chunks of the known patterns, as their models' files have them.
const P = (mid, digits, others) => `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?${mid}+|${digits}| ?[^\\s${others}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`;
const U = '[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]', W = '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]', C = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";
const O = (c, d) => `[^\\r\\n\\p{L}\\p{N}]?${U}*${W}+${c}|[^\\r\\n\\p{L}\\p{N}]?${U}+${W}*${c}|${d}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`;
const known = {
  cl100k: P('\\p{L}', '\\p{N}{1,3}', '\\p{L}\\p{N}'), qwen2: P('\\p{L}', '\\p{N}', '\\p{L}\\p{N}'), qwen35: P('[\\p{L}\\p{M}]', '\\p{N}', '\\p{L}\\p{M}\\p{N}'),
  o200k: O(C, '\\p{N}{1,3}'), tekken: O('', '\\p{N}'),
  possessive: "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
};
const deepseek = seq(split(re('\\p{N}{1,3}'), 'Isolated'), split(re('[一-龥\u3040-ゟ゠-ヿ]+'), 'Isolated'), split(re('[!"#$%&\'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+'), 'Isolated'), BYTES);
const bytes = (pre_tokenizer, more = {}) => ({ base: 'bytes', pre_tokenizer, decoder: GPT2, ...more });
const chars = (more = {}) => ({ base: 'chars', decoder: LLAMA, model: { unk_token: '<unk>', fuse_unk: true, byte_fallback: true }, ...more });
const FLAGS = added([
  { content: '<|end|>', special: true }, { content: '<|end|>more', special: true }, { content: '<pad>', special: true, lstrip: true }, { content: '<mask>', special: true, rstrip: true },
  { content: 'both', lstrip: true, rstrip: true }, { content: 'word', single_word: true }, { content: 'Norm', normalized: true }, { content: 'é́', normalized: true, special: true }, { content: '\n\n' }, { content: 'the' },
]);

const cases = {};
for (const [name, pattern] of Object.entries(known)) cases['split_' + name] = bytes(seq(split(re(pattern), 'Isolated'), BYTES));
Object.assign(cases, {
  split_removed_invert: bytes(seq(split(re(known.o200k), 'Removed', true), BYTES)),
  split_deepseek: bytes(deepseek), byte_regex: bytes(GPT2), byte_prefix: bytes({ ...GPT2, add_prefix_space: true }), byte_whole: bytes(BYTES),
  byte_prefix_whole: bytes({ ...BYTES, add_prefix_space: true }),
  digits: bytes(seq({ type: 'Digits', individual_digits: true }, GPT2)), digits_runs: bytes(seq({ type: 'Digits', individual_digits: false }, GPT2)),
  white_split: bytes(seq({ type: 'WhitespaceSplit' }, BYTES)),
  punctuation: bytes(seq({ type: 'Punctuation', behavior: 'Isolated' }, BYTES)), punctuation_runs: bytes(seq({ type: 'Punctuation', behavior: 'Contiguous' }, BYTES)),
  ignore_merges: bytes(GPT2, { model: { ignore_merges: true } }),
  lookahead: bytes(seq(split(re('(?=(\\d{3})+(?!\\d))'), 'Isolated'), split(re(known.qwen2), 'Isolated'), BYTES)),
  cohere: bytes(seq(split(re('\\d{1,3}(?=(?:\\d{3})*\\b)'), 'Isolated'), GPT2)),
  exaone: bytes(seq(split(re('(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+'), 'Isolated'), BYTES)),
  words: bytes(seq(split(re('\\w+|[^\\w\\s]+'), 'Removed', true), BYTES)), not_words: bytes(seq(split(re('\\W+|\\D+'), 'Isolated'), BYTES)),
  long_space: bytes(seq(split(re('\\s{3}(?!\\S)|\\s+|[^\\s]{1,4}'), 'Isolated'), BYTES)), empty_matches: bytes(seq(split(re('x*'), 'Isolated'), BYTES)),
  unicode_classes: bytes(seq(split(re('[\\p{Lu}\\P{L}]|\\p{^N}\\p{S}|.'), 'Contiguous'), BYTES)),
  nfc: bytes(GPT2, { normalizer: { type: 'NFC' }, added: FLAGS }), nfd: bytes(GPT2, { normalizer: { type: 'NFD' }, added: FLAGS }),
  lower: bytes(GPT2, { normalizer: norm({ type: 'Lowercase' }, { type: 'NFC' }), added: FLAGS }),
  strip: bytes(GPT2, { normalizer: { type: 'Strip', strip_left: true, strip_right: true }, added: FLAGS }), strip_left: bytes(GPT2, { normalizer: { type: 'Strip', strip_left: true, strip_right: false } }),
  replace_regex: bytes(GPT2, { normalizer: norm({ type: 'Replace', pattern: re('\\s+'), content: ' ' }, { type: 'Replace', pattern: str('e'), content: 'é' }) }),
  flags: bytes(GPT2, { added: FLAGS }),
  llama: chars({ normalizer: norm({ type: 'Prepend', prepend: UP }, { type: 'Replace', pattern: str(' '), content: UP }), post_processor: template(['<s>'], []), added: FLAGS }),
  gemma: chars({ normalizer: { type: 'Replace', pattern: str(' '), content: UP }, pre_tokenizer: split(str(' '), 'MergedWithPrevious'), post_processor: template(['<s>'], ['</s>']) }),
  meta_first: chars({ pre_tokenizer: meta('first', false), added: FLAGS }), meta_always: chars({ pre_tokenizer: meta('always', true), decoder: meta('always', true), added: FLAGS }), meta_never: chars({ pre_tokenizer: meta('never', true), decoder: meta('never', true) }),
  meta_first_split: chars({ pre_tokenizer: meta('first', true), normalizer: norm({ type: 'Strip', strip_left: true, strip_right: false }, { type: 'Replace', pattern: str('the'), content: ' ' }), added: FLAGS }),
  unk_fused: chars({ pre_tokenizer: meta('always', false), model: { unk_token: '<unk>', fuse_unk: true } }), unk_single: chars({ pre_tokenizer: meta('always', false), model: { unk_token: '<unk>', fuse_unk: false } }),
  unk_none: chars({ pre_tokenizer: meta('always', false), model: {} }), fallback_no_unk: chars({ pre_tokenizer: meta('never', false), model: { byte_fallback: true } }),
  chars_ignore: chars({ pre_tokenizer: meta('never', false), model: { ignore_merges: true, byte_fallback: true } }), no_decoder: chars({ pre_tokenizer: meta('never', false), decoder: null }),
  bert: chars({ pre_tokenizer: meta('never', false), post_processor: { type: 'BertProcessing', sep: ['</s>', 2], cls: ['<s>', 1] } }),
  posts: chars({ pre_tokenizer: meta('never', false), post_processor: { type: 'Sequence', processors: [GPT2, { type: 'RobertaProcessing', sep: ['</s>', 2], cls: ['<s>', 1], trim_offsets: true, add_prefix_space: false }] } }),
});
for (const b of ['Isolated', 'Removed', 'MergedWithPrevious', 'MergedWithNext', 'Contiguous'])
  for (const invert of [false, true]) {
    cases[`behavior_${b}_${invert}`] = bytes(seq(split(re('[aeiou]|the|\\s'), b, invert), BYTES));
    cases[`string_${b}_${invert}`] = chars({ pre_tokenizer: split(str('e'), b, invert) });
  }

const texts = [
  '', ' ', 'a', ' a', 'Hello world', "It's the prefix cache, isn't it? WE'LL see; they'Ve 'S 's'", 'the then the\n\nthe  there\n \n  x', '1234567 12 3.14 x²³ ½ Ⅷ ٣٤', '   leading and trailing   ',
  'tabs\tand\r\nlines\r\n\r\n\tend\n', 'camelCase HTTPServer XMLHttpRequest snake_case ÄÖÜäöü ǅ ǅa AǅB', 'Größe für später, müssen', 'Префикс кэша хранит', '前缀缓存保存提示。123の計算結果、キャッシュ〇々〆', '한국어 텍스트', 'नमस्ते दुनिया ก็ครับ',
  'é é ñ ñ ộ ộ 가 각 Å Å', '🙂👩‍💻🇩🇪👍🏽', '<|end|>more<|end|> <|end|>m', 'a <pad> b<pad>  c  <mask>  d<mask>e', ' both both  bothboth', 'word words sword word, _word word_ wordé', 'Norm norm NORM é́ É́ Normé́',
  '\u0000\u0001\u007f\u0085\u00a0\u180e\u200b\u2028\u3000\ufeff', 'ſ\'ſ Kelvin K İstanbul ẞ', '!@#$%^&*()_+-=[]{}|;:",./<>?`~', '//// path/to/file.c\n//\n/', 'x'.repeat(40) + ' ' + 'abc'.repeat(20), ' '.repeat(37) + 'q' + '\n'.repeat(9), 'qQ前計ö前前qq end qq前',
  '▁▁ ▁a ▁ b', '<0x41><s></s><unk>', 'a\u0301\u0316\u0327b\u0316\u0301\u0327 q\u0307\u0323', 'e\u0301'.repeat(12), '𝔘𝔫𝔦 \u{1fa77}\u{1f6dc} \u{31350}\u{2ebf0}', 'the\u00a0the\u2003the', 'xxaxxbxx', "don't DON'T d'accord l'été 'tis", '12,345,678.90 0x1F 1e10 v1.2.3', 'def f(x):\n        return x + 1\n\n\n# end',
];

const out = [];
for (const [name, c] of Object.entries(cases)) {
  const base = bases[c.base];
  const tokens = c.added ? c.added(base) : [];
  const file = {
    version: '1.0', truncation: null, padding: null, added_tokens: tokens, normalizer: c.normalizer ?? null, pre_tokenizer: c.pre_tokenizer ?? null,
    post_processor: c.post_processor ?? null, decoder: c.decoder, model: { type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: false, byte_fallback: false, ignore_merges: false, ...(c.model ?? {}), vocab: base.vocab, merges: base.merges },
  };
  const t = Tokenizer.fromString(JSON.stringify(file));
  const rows = [];
  for (let i = 0; i < texts.length; i++) {
    const ids = (await t.encode(texts[i], null, { addSpecialTokens: false })).getIds();
    const all = (await t.encode(texts[i], null, { addSpecialTokens: true })).getIds();
    const row = [i, ids, ids.length ? await t.decode(ids, false) : ''];
    if (JSON.stringify(all) !== JSON.stringify(ids)) row.push(all);
    rows.push(row);
  }
  delete file.model.vocab;
  delete file.model.merges;
  out.push({ name, base: c.base, file, rows });
}
console.log('{"texts":' + JSON.stringify(texts) + ',"cases":[\n' + out.map((c) => JSON.stringify(c)).join(',\n') + '\n]}');
