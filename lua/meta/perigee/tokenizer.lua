---@meta perigee.tokenizer

--- Exact tokenizers: the ids a server's tokenizer gives, from the model's own file. `perigee tokenize` does the same
--- from a shell.
---@class perigee.tokenizer
local tokenizer = {}

---@class perigee.TokenizerFile
---@field family? "cl100k_base"|"o200k_base"|"o200k_harmony"|"llama4"|"kimi_k2" whose rank file it is; a rank file needs it

--- Loads a tokenizer: a Hugging Face `tokenizer.json` or the folder that holds one (BPE models: byte-level, and
--- SentencePiece-style with byte fallback), a tiktoken rank file, `"bytes"` (a byte is a token), or a name that
--- `make deps` fetched: `"qwen3"`, `"o200k_base"`, `"o200k_harmony"`, `"cl100k_base"`. Names are looked for in
--- `$PERIGEE_TOKENIZERS`, else in `~/.cache/perigee/tokenizers` and in `share/perigee/tokenizers` of an installation.
---
--- Errors: `nil, message` when the file is missing, broken, or has a component that is not done exactly, which is
--- named.
---@param path string
---@param opts? perigee.TokenizerFile
---@return perigee.Tokenizer? tok
---@return string? message
function tokenizer.load(path, opts) end

--- A loaded tokenizer. It belongs to the state that loaded it; load it once, not per turn: it takes tenths of a second.
---@class perigee.Tokenizer
---@field name string the file's path, or the name given to `load`
---@field vocab_size integer every id is below it
local Tokenizer = {}

---@class perigee.TokenizeOptions
---@field add_special? boolean put the model's first (and last) tokens around the text; default false
---@field special? boolean special tokens written out in the text become their ids; default true

--- The ids of a text. Bytes that are not UTF-8 count as U+FFFD, as a server's JSON reader has them; tokenizer
--- "bytes" has an id for every byte and gives it (messages and prompts that go out as JSON text hold U+FFFD).
---
--- Errors: `nil, message` for texts of 800 MiB and more.
---@param text perigee.TextLike
---@param opts? perigee.TokenizeOptions
---@return integer[]? ids
---@return string? message
function Tokenizer:encode(text, opts) end

--- How many ids `encode` would give, without making the list.
---@param text perigee.TextLike
---@param opts? perigee.TokenizeOptions
---@return integer? n
---@return string? message
function Tokenizer:count(text, opts) end

--- The text of ids. A token may be part of a character: its bytes come as they are, so texts of parts can be joined.
---
--- Errors: `nil, message` for an id that the vocabulary does not have.
---@param ids integer[]
---@return string? text
---@return string? message
function Tokenizer:decode(ids) end

return tokenizer
