---@meta perigee.json

--- JSON that keeps integers, key order, and the difference between `{}` and `[]`. Every request body goes
--- through it, so equal values are equal bytes.
---@class perigee.json
---@field null userdata stands for null
local json = {}

---@class perigee.DecodeOptions
---@field drop_null? boolean members of objects that are null are left out; default false

--- Reads one JSON text (RFC 8259, strict). Objects and arrays come as tables that remember what they are;
--- null comes as `json.null`.
---@param text perigee.TextLike
---@param opts? perigee.DecodeOptions
---@return any value nil for bad text
---@return string? message with line and column
function json.decode(text, opts) end

---@class perigee.EncodeOptions
---@field pretty? boolean two-space indentation, for people; default false

--- Canonical JSON: no spaces, numbers as Python prints them, keys of plain tables sorted. A plain table with
--- keys 1..n is an array, any other an object, also when empty; texts are strings.
---
--- Errors: raises, with the path of the culprit, for functions, NaN, infinities and keys that JSON does not have.
---@param value any
---@param opts? perigee.EncodeOptions
---@return string
function json.encode(value, opts) end

--- An object that keeps its key order: first the pairs of the list, then named fields in sorted order, then
--- what is assigned later: `object { { "b", 1 }, { "a", 2 } }`.
---@param fields? table
---@return table
function json.object(fields) end

--- An array, also when it is empty.
---@param items? any[] without holes; `json.null` for an absent one
---@return table
function json.array(items) end

--- What perigee.json made of a table.
---@param value any
---@return "object"|"array"|nil
function json.kind(value) end

return json
