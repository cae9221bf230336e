---@meta perigee.route

--- Routing policies, for a plan's or a conversation's `route`. A function of yours is a policy too.
---
--- A replica can be out of rotation: a spare that has not been added yet (`--spares`), one that a plan's `timeline`
--- drains. No policy here sends to one. What a policy of yours chooses (`vu:in_rotation` says which are in) is moved when
--- it is out: to the next replica in rotation, in the fleet's order and round its end; the row then has `fallback` and
--- the reason. With nothing in rotation the request is not sent and fails as `connect`, saying so.
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

--- One replica, by index or id; without an argument the gateway, else the first replica. While it is out of rotation
--- the next one in the fleet's order, as a fallback.
---@param replica? integer|string
---@return perigee.Policy
function route.direct(replica) end

---@class perigee.RoundRobinOptions
---@field counter? string policies with the same name share a turn; default "round_robin"

--- Each replica in turn, exact over all workers: while k replicas are in rotation, any k requests in a row go to all of
--- them. One that comes into rotation has its turn when its place in the fleet's order is reached.
---@param opts? perigee.RoundRobinOptions
---@return perigee.Policy
function route.round_robin(opts) end

--- Any replica in rotation alike, by a hash of session, branch, turn and step: the same in every run.
---@return perigee.Policy
function route.random() end

--- The replica in rotation with the fewest of this run's requests in flight, over all workers; ties go to the one
--- that was picked longest ago, so to one that was just added.
---@return perigee.Policy
function route.least_inflight() end

--- A session stays on one replica, by a hash of its number. The hash leads to all replicas of the fleet, spares
--- included, in an order of the session's own, and the first of them in rotation has it. So one that goes out of rotation
--- hands its sessions on to all others alike, and gets them back when it is in again; one that is added takes an equal
--- part of everybody's; no other session moves.
---@return perigee.Policy
function route.session_hash() end

--- What is used when nobody says: the gateway, the only replica, or `session_hash`.
---@return perigee.Policy
function route.default() end

return route
