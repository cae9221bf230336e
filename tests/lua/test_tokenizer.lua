-- perigee.tokenizer: golden rows through Lua, misuse, and what comes back for bad files.
local gen = require "perigee.gen"
local json = require "perigee.json"
local tokenizer = require "perigee.tokenizer"

local HOME = os.getenv "PERIGEE_CACHE" or (os.getenv "HOME" or "") .. "/.cache/perigee"
local FIXTURES = os.getenv "PERIGEE_FIXTURES" or "../shared/fixtures"
local SANITIZED = os.getenv "PERIGEE_SANITIZED" -- then a twelfth is enough: tests/unit/test_tokenizer.c has all
local MODELS = {
  { "qwen3", HOME .. "/tokenizers/qwen3" },
  { "gemma3", HOME .. "/tokenizers/gemma3" },
  { "llama3_1", HOME .. "/tokenizers/llama3_1" },
  { "gptoss", HOME .. "/tokenizers/gptoss" },
  { "gpt4o", HOME .. "/tokenizers/gpt4o" },
  { "deepseek_v3", HOME .. "/tokenizers/deepseek_v3" },
  { "mistral_v01_from_lenml_llama2", HOME .. "/tokenizers/llama2" },
  { "llama2_mirror", FIXTURES .. "/vocabularies/llama2.json" },
  { "mistral01_mirror", FIXTURES .. "/vocabularies/mistral01.json" },
  { "mistral03_mirror", FIXTURES .. "/vocabularies/mistral03.json" },
  { "gpt2_mirror", FIXTURES .. "/vocabularies/gpt2.json" },
  { "tiktoken_cl100k_base", HOME .. "/tokenizers/ranks/cl100k_base.tiktoken", "cl100k_base" },
  { "tiktoken_o200k_base", HOME .. "/tokenizers/ranks/o200k_base.tiktoken", "o200k_base" },
  { "tiktoken_o200k_harmony", HOME .. "/tokenizers/ranks/o200k_base.tiktoken", "o200k_harmony" },
  { "tiktoken_llama4_mirror", FIXTURES .. "/vocabularies/llama4.tiktoken", "llama4" },
  { "tiktoken_kimi_k2_mirror", FIXTURES .. "/vocabularies/kimi_k2.tiktoken", "kimi_k2" },
}

local function exists(path)
  local file = io.open(path, "rb")
  if file then
    file:close()
  end
  return file ~= nil
end

-- The text of a row: given, or made by its recipe.
local function text_of(row)
  if row.text then
    return row.text
  end
  local parts, bytes = {}, 0
  for _, piece in ipairs(row.recipe.pieces or {}) do
    parts[#parts + 1] = piece[1]:rep(piece[2])
  end
  local cycle = row.recipe.cycle
  while cycle and bytes < row.recipe.bytes do
    parts[#parts + 1] = cycle[#parts % #cycle + 1]
    bytes = bytes + #parts[#parts]
  end
  return table.concat(parts)
end

local function same(list, ids, from)
  for i, id in ipairs(list) do
    if ids[from + i] ~= id then
      return false
    end
  end
  return true
end

local function equal(row, ids)
  if row.ids then
    return #ids == #row.ids and same(row.ids, ids, 0)
  end
  return #ids == row.n_ids and same(row.ids_head, ids, 0) and same(row.ids_tail, ids, #ids - #row.ids_tail)
end

describe("golden rows", function()
  for _, model in ipairs(MODELS) do
    local name, path, family = table.unpack(model)
    if exists(path) then
      it(name, function()
        local tok = assert(tokenizer.load(path, { family = family }))
        local number = 0
        for line in io.lines("tests/data/tokenize/" .. name .. ".jsonl") do
          number = number + 1
          if not SANITIZED or number % 12 == 0 then
            local row = json.decode(line)
            local text = text_of(row)
            local special = row.allow_special
            if special == nil then
              special = true
            end
            local options = { add_special = row.add_special or false, special = special }
            local ids = tok:encode(text, options)
            assert(equal(row, ids), ("%s, row %d"):format(name, number))
            expect(tok:count(text, options)):eq(#ids)
          end
        end
        expect(number):eq(774)
      end)
    end
  end
end)

describe("a small tokenizer", function()
  local all = json.decode((function()
    local file <close> = assert(io.open("tests/data/tokenizer/cases.json", "rb"))
    return file:read "a"
  end)())
  local bases = json.decode((function()
    local file <close> = assert(io.open("tests/data/tokenizer/bases.json", "rb"))
    return file:read "a"
  end)())

  -- Loads a case by name from a file made for it.
  local function load_case(name)
    for _, case in ipairs(all.cases) do
      if case.name == name then
        local path = os.tmpname()
        local file = case.file
        file.model.vocab, file.model.merges = bases[case.base].vocab, bases[case.base].merges
        local out <close> = assert(io.open(path, "wb"))
        out:write(json.encode(file))
        out:close()
        local tok, message = tokenizer.load(path)
        os.remove(path)
        return assert(tok, message), case
      end
    end
  end

  it("encodes, counts and decodes as the reference", function()
    for _, name in ipairs { "flags", "llama" } do
      local tok, case = load_case(name)
      for _, row in ipairs(case.rows) do
        local text = all.texts[row[1] + 1]
        expect(tok:encode(text)):eq(row[2])
        expect(tok:decode(row[2])):eq(row[3])
        expect(tok:encode(text, { add_special = true })):eq(row[4] or row[2])
      end
    end
  end)

  it("leaves special tokens as text when told so", function()
    local tok = load_case "flags"
    local with, without = tok:encode "<|end|>", tok:encode("<|end|>", { special = false })
    expect(#with):eq(1)
    expect(#without > 1):eq(true)
    expect(tok:decode(without)):eq "<|end|>"
  end)

  it("knows its size and name, and takes text handles", function()
    local tok = load_case "flags"
    expect(tok.vocab_size > 600):eq(true)
    expect(type(tok.name)):eq "string"
    expect(tok.colour):eq(nil)
    local handle = gen.text { tokens = 5, seed = "x" }
    expect(tok:count(handle)):eq(tok:count(tostring(handle)))
  end)
end)

describe("tokenizer.load", function()
  it("has bytes built in", function()
    local tok = assert(tokenizer.load "bytes")
    expect(tok:encode "a\0\xff"):eq { 97, 0, 255 }
    expect(tok:decode { 104, 105 }):eq "hi"
    expect(tok.vocab_size):eq(256)
    expect(tostring(tok)):eq "tokenizer: bytes"
  end)

  it("says what is wrong with a file", function()
    local tok, message = tokenizer.load "no-such-tokenizer"
    expect(tok):eq(nil)
    expect(message):contains "no-such-tokenizer"
    tok, message = tokenizer.load("tests/data/tokenizer/bases.json")
    expect(tok):eq(nil)
    expect(message):contains "no \"model\" in it"
    tok, message = tokenizer.load("tests/data/tokenizer/train.py", { family = "llama4" })
    expect(tok):eq(nil)
    expect(message):contains "line 1: no base64"
  end)

  it("refuses misuse at the script's line", function()
    local tok = assert(tokenizer.load "bytes")
    local function raises(part, f, ...)
      local ok, message = pcall(f, ...)
      expect(ok):eq(false)
      expect(tostring(message)):contains(part)
    end
    raises("a path or a name is expected, got 7", tokenizer.load, 7)
    raises("unknown option 'famly' (did you mean 'family'?)", tokenizer.load, "bytes", { famly = "x" })
    raises("family must be a string", tokenizer.load, "bytes", { family = 1 })
    raises("a text is expected, got nil", tok.encode, tok)
    raises("special must be true or false", tok.count, tok, "x", { special = 1 })
    raises("token 2 is the string \"x\", not a token id", tok.decode, tok, { 1, "x" })
    raises("a list of token ids is expected", tok.decode, tok, 3)
    expect(select(2, tok:decode { 256 })):contains "token 0: id 256"
    local closed
    do
      local t <close> = assert(tokenizer.load "bytes")
      closed = t
    end
    raises("this one was closed", closed.encode, closed, "x")
  end)
end)
