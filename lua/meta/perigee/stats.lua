---@meta perigee.stats

--- Statistics as the reports compute them.
---@class perigee.stats
local stats = {}

--- The p-quantile with linear interpolation (numpy's default).
---@param list number[]
---@param p perigee.Quantity 0..1, or "95%"
---@return number? value nil for an empty list
---@return boolean enough whether there are enough values to trust it: 5 / (1 - p), 5 / p below the median; never for 0 and 1
function stats.quantile(list, p) end

---@class perigee.MeanOptions
---@field level? perigee.Quantity of the interval, default 0.95
---@field by? any[] the group of each value, as its session: values of a group are not independent

--- Mean and its interval: Student's t; with `by` over groups, as the reports do with sessions.
---@param list number[]
---@param opts? perigee.MeanOptions
---@return number? mean nil for an empty list
---@return number? low nil for fewer than two values (groups)
---@return number? high
---@return integer n values, or groups
function stats.mean_ci(list, opts) end

---@class perigee.HistOptions
---@field bins? integer equal ones over the range; default 10
---@field edges? number[] rising, instead of `bins`

---@class perigee.Histogram
---@field n integer
---@field edges number[] one more than counts
---@field counts integer[] edges[i] <= x < edges[i + 1]; the last bin holds its upper edge too
---@field below integer
---@field above integer

--- A histogram.
---@param list number[]
---@param opts? perigee.HistOptions
---@return perigee.Histogram
function stats.hist(list, opts) end

return stats
