-- perigee.render: the arguments of `perigee render`; what it prints is tested from outside (test_template.py).
local render = require "perigee.render"

local function refused(...)
  return select(2, render.read_args { ... })
end

describe("render.read_args", function()
  it("reads options in both forms, and one file", function()
    local opts = render.read_args { "--template", "t", "--kwargs={}", "--json", "--no-generation-prompt", "f.json" }
    expect(opts.template):eq "t"
    expect(opts.kwargs):eq "{}"
    expect(opts.json):eq(true)
    expect(opts.no_prompt):eq(true)
    expect(opts.input):eq "f.json"
    expect(render.read_args({ "--template=t", "--", "--x" }).input):eq "--x"
    expect(render.read_args({ "--template=t", "-" }).input):eq "-"
    expect(render.read_args({ "-h" }).help):eq(true)
  end)

  it("names what is wrong and the way out", function()
    expect(refused()):eq "--template is missing: chat_template.jinja, tokenizer_config.json or their folder"
    expect(refused("--template")):eq "--template needs a value"
    expect(refused("--template=")):eq "--template needs a value"
    expect(refused("--json=1", "--template=t")):eq "--json takes no value"
    expect(refused("--tool", "x")):eq "unknown option --tool (did you mean --tools?); see `perigee render --help`"
    expect(refused("--zzzzzzzzzzz")):eq "unknown option --zzzzzzzzzzz; see `perigee render --help`"
    expect(refused("--template=t", "a", "b")):eq "one FILE at a time, not a and b"
    expect(refused("--template=t", "--continue-final-message", "--no-generation-prompt"))
      :eq "--continue-final-message already goes without a generation prompt"
    expect(render.usage()):truthy()
  end)
end)
