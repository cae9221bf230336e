-- Objects of scripts (conversations, tools, …): methods that say how to call them when they are called
-- without their object, and names that are none, with the nearest one. Not for scripts.
local core = require "perigee.core"

local object = {}

-- "conv:tool(text, id)", from the function's own parameters
local function signature(name, method, fn)
  local params, i = {}, 2 -- the first is the object
  while debug.getlocal(fn, i) do
    params[#params + 1] = debug.getlocal(fn, i)
    i = i + 1
  end
  if debug.getinfo(fn, "u").isvararg then
    params[#params + 1] = "..."
  end
  return ("%s:%s(%s)"):format(name, method, table.concat(params, ", "))
end

local function checked(class, name, method, fn)
  local wrong = ("%s:%s: call it with a colon, %s"):format(name, method, signature(name, method, fn))
  return function(self, ...)
    if getmetatable(self) ~= class then
      core.raise(wrong)
    end
    return fn(self, ...)
  end
end

--- Finishes a class: a table of methods that is its objects' metatable. `name` is what scripts call
--- such an object, `fields` what it may hold: reading any other name raises. `hidden` are fields that
--- are never suggested; `meant` says for words that are none which one is.
function object.class(class, name, fields, hidden, meant)
  local names, is_field = table.move(fields, 1, #fields, 1, {}), {}
  for _, field in ipairs(fields) do
    is_field[field] = true
  end
  for _, field in ipairs(hidden or {}) do
    is_field[field] = true
  end
  for method, fn in pairs(class) do
    if type(fn) == "function" and not method:find "^__" then
      names[#names + 1] = method
      class[method] = checked(class, name, method, fn)
    end
  end
  class.__index = class
  setmetatable(class, {
    __index = function(_, key)
      if is_field[key] then
        return nil
      end
      local near = meant and meant[key] or core.nearest(tostring(key), names)
      core.raise(("%s has no '%s'%s"):format(name, tostring(key),
        near and (" (did you mean '%s'?)"):format(near) or ""))
    end,
  })
  return class
end

return object
