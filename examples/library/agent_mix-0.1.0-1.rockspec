rockspec_format = "3.0"
package = "agent_mix"
version = "0.1.0-1"
source = {
  url = "git+https://example.invalid/agent_mix.git", -- where yours is kept
  tag = "v0.1.0",
}
description = {
  summary = "Mixed traffic for perigee scenarios",
  detailed = "Each session is one of several kinds, chosen by share and tagged.",
  license = "Apache-2.0",
}
dependencies = {
  "lua >= 5.4", -- perigee's own modules are built into its binary
}
build = {
  type = "builtin",
  modules = {
    agent_mix = "agent_mix.lua",
  },
}
