---@meta perigee.blockhash

--- Block hashes of KV-cache routers and engines, byte for byte. `perigee hash --help` lists the schemes.
---@class perigee.blockhash
local blockhash = {}

--- Options of a chain; which of them a scheme knows, `perigee hash --help` says. One that it does not know
--- raises.
---@class perigee.HashOptions
---@field scheme? string default `"ic-xxh3"`
---@field block_size? integer tokens (bytes or characters where the scheme hashes text); default: the scheme's own, 16 for most
---@field seed? string|integer vLLM: the text of the server's `PYTHONHASHSEED`, never assumed; ic-xxh3 and AIBrix: a number
---@field none_hash? string NONE_HASH itself, in hex
---@field pythonhashseed? string what NONE_HASH is made from
---@field none_hash_string? string lmcache-builtin: the text that is hashed, when it is not the seed's
---@field hash_seed? string llm-d: the index's seed
---@field model? string llm-d and the endpoint picker: the model's name
---@field parent? string the hash before the first block: 16 hex digits (Mooncake: decimal)
---@field parent_prefix? string the same for ic-xxh3
---@field additional_salt? string Mooncake's conductor
---@field cache_salt? string
---@field lora_name? string
---@field mm? { identifier: string, offset: integer, length: integer }[] multimodal items and the tokens they lie over
---@field mm_form? "tuple"|"bare" how vLLM writes them: since March 2026 with their offset
---@field prompt_embeds_sha256? string[] of each block
---@field cache_namespace? string Dynamo
---@field block_mm? table<string, string[]> Dynamo: block number from 0 -> multimodal hashes
---@field is_eagle? boolean Dynamo: windows of one token more
---@field bigram? boolean SGLang: pairs of tokens
---@field partial? "drop"|"hash" SGLang: an incomplete page; default drop
---@field chain? "event"|"storage" SGLang; default event
---@field extra_key? string SGLang's storage chain
---@field variant? string epp-approx-chars: the release; pstack-xxh64: `python` or `go`
---@field max_blocks? integer
---@field prefix_token_count? integer smg-prefix-hash; default 256
---@field prefix_token_length? integer ranvier-fnv1a; default 128
---@field algorithm? "sha256"|"sha256_cbor"|"xxhash"|"xxhash_cbor" lmcache-vllm-hash
---@field save_unfull_chunk? boolean LMCache: hash the incomplete last chunk

--- The block hashes of a prompt: a list of token ids, or a text for schemes that hash text.
---
--- Errors: raises for wrong options, and for a vLLM scheme without a seed; `nil, message` for ids out of
--- range and for text where ids are wanted.
---@param prompt integer[]|perigee.TextLike
---@param opts? perigee.HashOptions
---@return perigee.Hashes? hashes
---@return string? message
function blockhash.hash(prompt, opts) end

--- The names of all schemes.
---@return string[]
function blockhash.schemes() end

---@class perigee.HashScheme
---@field name string
---@field about string whose it is
---@field input "tokens"|"text"|"tokens or text"
---@field block_size integer the default; 0: one hash of the whole
---@field params { name: string, json: boolean }[] `json`: a flag, a list or an object
---@field fields string[]

--- What a scheme takes and has.
---@param name string
---@return perigee.HashScheme? scheme nil when there is none of that name
function blockhash.scheme(name) end

--- A chain of block hashes. `#hashes` is their number, `hashes[i]` the bytes of one. Extending it costs the
--- work of what is new, a fork shares what is there.
---@class perigee.Hashes
---@operator len: integer
local Hashes = {}

--- Every hash in hex.
---@return string[]
function Hashes:hex() end

--- Every hash as the scheme's engine publishes it in its KV events: vLLM the last 8 bytes in hex, SGLang the
--- first 8 as a signed number, others the hash itself.
---@return string[]
function Hashes:event() end

--- Another field of the scheme: `content_hashes`, `sequence_hashes`, `digests` (lists), `none_hash`,
--- `init_hash`, `seed` (one text).
---@param name string
---@return string[]|string
function Hashes:field(name) end

--- Appends more tokens, or text; returns the same hashes.
---@param more integer[]|perigee.TextLike
---@return perigee.Hashes? hashes
---@return string? message
function Hashes:extend(more) end

--- A chain that goes on by itself from here.
---@return perigee.Hashes
function Hashes:fork() end

return blockhash
