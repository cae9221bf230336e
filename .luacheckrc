-- luacheck settings: Lua 5.4, lines of at most 110 characters, no globals beyond the standard ones.
std = "lua54"
max_line_length = 110
cache = false
exclude_files = { "build/**" }
files["tests/lua"] = { globals = { "describe", "it", "expect", "before_each", "after_each" }, max_line_length = 120 }
files["examples/**/*_spec.lua"] = { globals = { "describe", "it", "expect", "before_each", "after_each" } }
files["lua/meta"] = { ignore = { "212", "111", "112", "113", "131", "241" }, max_line_length = false }
files["tests/lint"] = { max_line_length = 120 }
