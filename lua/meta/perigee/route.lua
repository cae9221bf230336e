---@meta perigee.route

--- Routing policies, for a plan's or a conversation's `route`. A function of yours is a policy too.
---@class perigee.route
local route = {}

---@class perigee.Prompt
---@field api "chat"|"completions"
---@field conversation perigee.Conversation? for chat
---@field prompt any for completions: what was asked to be sent
---@field turn integer
---@field step integer
---@field branch integer
---@field parent integer?

---@class perigee.Route
---@field replica integer? index of `vu.fleet.replicas`; nil: the gateway
---@field policy string name, for the rows
---@field reason string? why, for the rows
---@field fallback boolean? the first choice was not available

--- One replica, by index or id; without an argument the gateway, else the first replica.
---@param replica? integer|string
---@return perigee.Policy
function route.direct(replica) end

---@class perigee.RoundRobinOptions
---@field counter? string policies with the same name share a turn; default "round_robin"

--- Each replica in turn, exact over all workers.
---@param opts? perigee.RoundRobinOptions
---@return perigee.Policy
function route.round_robin(opts) end

--- Any replica alike, by a hash of session, branch, turn and step: the same in every run.
---@return perigee.Policy
function route.random() end

--- The replica with the fewest of this run's requests in flight, over all workers; ties go to the one that
--- was picked longest ago.
---@return perigee.Policy
function route.least_inflight() end

--- A session stays on one replica, by a hash of its number.
---@return perigee.Policy
function route.session_hash() end

--- What is used when nobody says: the gateway, the only replica, or `session_hash`.
---@return perigee.Policy
function route.default() end

return route
