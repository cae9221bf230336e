-- The arithmetic of `perigee calibrate`: robust fits of the formula of src/kv/steptime.h, with intervals
-- from resampling. Plain functions; random choices come from a generator with a fixed seed.
local fit = {}

local RESAMPLES = 200
local MOST = 600 -- observations of a prefill fit; of more every k-th is taken
local LEAST_GAPS = 8 -- of a cell of the decode table
fit.WITHIN = 0.25 -- how far a decode step may lie from the formula (src/sim/simprofile.c)

function fit.median(list)
  local sorted = table.move(list, 1, #list, 1, {})
  table.sort(sorted)
  local n = #sorted
  return n > 0 and (sorted[(n + 1) // 2] + sorted[n // 2 + 1]) / 2 or nil
end

-- xorshift64*: whole numbers from 1 to n.
local function generator()
  local x = 0x2545F4914F6CDD1D
  return function(n)
    x = x ~ (x >> 12)
    x = x ~ (x << 25)
    x = x ~ (x >> 27)
    return ((x * 0x2545F4914F6CDD1D) >> 33) % n + 1
  end
end

-- The middle 95 % of a list of numbers.
local function interval(list)
  table.sort(list)
  local n = #list
  if n < 40 then
    return nil
  end
  return { list[math.max(1, n * 25 // 1000)], list[n - n * 25 // 1000] }
end

-- Weighted least squares of y on the columns of x that `on` names; the others are 0. nil: they are not
-- determined.
local function solve(points, weights, on)
  local n, a, scale = #on, {}, {}
  for r = 1, n do
    a[r] = {}
    for c = 1, n + 1 do
      a[r][c] = 0
    end
  end
  for i, p in ipairs(points) do
    local w = weights[i]
    for r = 1, n do
      local row, x = a[r], p[on[r]] * w
      for c = r, n do
        row[c] = row[c] + x * p[on[c]]
      end
      row[n + 1] = row[n + 1] + x * p.y
    end
  end
  for r = 1, n do
    scale[r] = a[r][r]
    for c = 1, r - 1 do
      a[r][c] = a[c][r]
    end
  end
  for r = 1, n do
    if a[r][r] <= 1e-9 * scale[r] or a[r][r] ~= a[r][r] then
      return nil
    end
    for below = r + 1, n do
      local by = a[below][r] / a[r][r]
      for c = r, n + 1 do
        a[below][c] = a[below][c] - by * a[r][c]
      end
    end
  end
  local x = { 0, 0, 0 }
  for r = n, 1, -1 do
    local sum = a[r][n + 1]
    for c = r + 1, n do
      sum = sum - a[r][c] * x[on[c]]
    end
    x[on[r]] = sum / a[r][r]
  end
  return x
end

local function value(x, p)
  return x[1] * p[1] + x[2] * p[2] + x[3] * p[3]
end

-- Relative errors of a fit.
local function errors(points, x)
  local list = {}
  for i, p in ipairs(points) do
    list[i] = math.abs(value(x, p) / p.y - 1)
  end
  return list
end

-- Least absolute relative errors, by weights that follow the errors, then Tukey's bisquare, so that a
-- request that waited for something has no weight. Columns that come out negative are left out.
local function robust(points, on, rounds)
  local weights, x = {}, nil
  for i, p in ipairs(points) do
    weights[i] = 1 / (p.y * p.y)
  end
  for round = 1, rounds do
    x = solve(points, weights, on)
    if not x then
      return nil
    end
    local e = errors(points, x)
    local typical = math.max(fit.median(e), 1e-5)
    for i, p in ipairs(points) do
      local w
      if round <= rounds // 2 then
        w = 1 / math.max(e[i], typical * 0.1)
      else
        local u = e[i] / (6 * typical)
        w = u < 1 and (1 - u * u) ^ 2 or 0
      end
      weights[i] = w / (p.y * p.y)
    end
  end
  for k, column in ipairs(on) do
    if x[column] < 0 and #on > 1 then
      local rest = table.move(on, 1, #on, 1, {})
      table.remove(rest, k)
      return robust(points, rest, rounds)
    end
  end
  return x
end

local function resampled(points, draw)
  local list = {}
  for i = 1, #points do
    list[i] = points[draw(#points)]
  end
  return list
end

-- Intervals of the three terms of a fit by resampling: once(draw) fits one sample, nil where it cannot.
local function intervals(once)
  local draw, values = generator(), { {}, {}, {} }
  for _ = 1, RESAMPLES do
    local x = once(draw)
    for k = 1, x and 3 or 0 do
      values[k][#values[k] + 1] = x[k]
    end
  end
  return { interval(values[1]), interval(values[2]), interval(values[3]) }
end

local function prefill_intervals(points, on)
  return intervals(function(draw)
    return robust(resampled(points, draw), on, 6)
  end)
end

local function quality(points, x)
  local e = errors(points, x)
  return { median = fit.median(e), worst = math.max(table.unpack(e)) }
end

--- Prefill from observations { tokens, cached, ns }: { overhead_ns, token_ns, context_ns, ci = { three
--- intervals }, n, lengths, least, most, error = { median, worst } }, or nil and why not. Time is overhead +
--- tokens · token + (tokens before each token, summed) · context; the last term is 0 unless the data
--- demand it: its interval lies above 0, it is more than 3 % of the longest prompt's time, and the
--- typical error falls by a fifth.
function fit.prefill(observations)
  local points, seen, lengths = {}, {}, 0
  local step = math.max(1, (#observations + MOST - 1) // MOST)
  local least, most = math.huge, 0
  for i = 1, #observations, step do
    local o = observations[i]
    points[#points + 1] = { 1, o.tokens, o.tokens * o.cached + o.tokens * (o.tokens - 1) / 2, y = o.ns }
    least, most = math.min(least, o.tokens), math.max(most, o.tokens)
    local size = math.floor(math.log(o.tokens, 1.25))
    lengths = lengths + (seen[size] and 0 or 1)
    seen[size] = true
  end
  if #points < 6 then
    return nil, ("%d requests ran alone, 6 are needed"):format(#points)
  elseif lengths < 3 or most < 4 * least then
    return nil, ("the %d requests that ran alone had %d to %d tokens to compute: too much alike to tell a "
      .. "rate from an overhead"):format(#points, least, most)
  end
  local x = robust(points, { 1, 2 }, 20)
  local ci = x and prefill_intervals(points, { 1, 2 })
  local curved = lengths > 3 and robust(points, { 1, 2, 3 }, 20)
  if x and curved and curved[3] > 0 then
    local curved_ci = prefill_intervals(points, { 1, 2, 3 })
    local share = curved[3] * most * most / 2 / (curved[1] + curved[2] * most + curved[3] * most * most / 2)
    if curved_ci[3] and curved_ci[3][1] > 0 and share > 0.03
      and fit.median(errors(points, curved)) < 0.8 * fit.median(errors(points, x)) then
      x, ci = curved, curved_ci
    end
  end
  if not x or x[2] * most < 0.02 * x[1] then
    return nil, "first tokens do not come later for longer prompts"
  end
  return { overhead_ns = x[1], token_ns = x[2], context_ns = x[3], ci = ci, n = #points, lengths = lengths,
    least = least, most = most, error = quality(points, x) }
end

--- ns per token of observations that ran from short to long, without more; nil when they did not.
function fit.token_ns(observations)
  local points, least, most = {}, math.huge, 0
  for i = 1, #observations, math.max(1, (#observations + MOST - 1) // MOST) do
    local o = observations[i]
    points[#points + 1] = { 1, o.tokens, 0, y = o.ns }
    least, most = math.min(least, o.tokens), math.max(most, o.tokens)
  end
  local x = #points >= 5 and most >= 4 * least and robust(points, { 1, 2 }, 20)
  return x and x[2] > 0 and x[2] or nil
end

-- ---- decoding ----

local MASKS = { { 1 }, { 2 }, { 3 }, { 1, 2 }, { 1, 3 }, { 2, 3 }, { 1, 2, 3 } }

-- As src/sim/simprofile.c fits decode_steps: least squares of the relative error, the best of all
-- sets of terms that are not negative.
local function formula(points)
  local weights, best, least = {}, nil, math.huge
  for i, p in ipairs(points) do
    weights[i] = 1 / (p.y * p.y)
  end
  for _, on in ipairs(MASKS) do
    local x = solve(points, weights, on)
    if x and math.min(x[1], x[2], x[3]) >= 0 then
      local sum = 0
      for _, p in ipairs(points) do
        sum = sum + (value(x, p) / p.y - 1) ^ 2
      end
      if sum < least then
        best, least = x, sum
      end
    end
  end
  return best
end

local function point(cell, ns)
  return { 1, cell.batch, cell.batch * cell.context, y = ns }
end

local function points_of(cells)
  local points = {}
  for i, cell in ipairs(cells) do
    points[i] = point(cell, cell.ns)
  end
  return points
end

--- Cells of the decode table, sorted: { batch, context, ns, gaps, requests, each }, `each` the steps by
--- request, in ns. Contexts within about 20 % of one another are one.
function fit.cells(stretches)
  local by_key, cells = {}, {}
  for _, s in ipairs(stretches) do
    local key = s.batch * 1000 + math.floor(math.log(s.context + 1, 2) * 2 + 0.5)
    local cell = by_key[key]
    if not cell then
      cell = { batch = s.batch, gaps = 0, contexts = {}, by_request = {}, requests = 0, all = {} }
      by_key[key] = cell
      cells[#cells + 1] = cell
    end
    cell.gaps = cell.gaps + s.gaps
    cell.contexts[#cell.contexts + 1] = s.context
    cell.all[#cell.all + 1] = s.ns
    local own = cell.by_request[s.request]
    if not own then
      own = {}
      cell.by_request[s.request] = own
      cell.requests = cell.requests + 1
      cell[#cell + 1] = own
    end
    own[#own + 1] = s.ns
  end
  local kept = {}
  for _, cell in ipairs(cells) do
    if cell.gaps >= LEAST_GAPS then
      local each = {}
      for i, own in ipairs(cell) do
        each[i] = fit.median(own)
      end
      kept[#kept + 1] = { batch = cell.batch, context = fit.median(cell.contexts), ns = fit.median(cell.all),
        gaps = cell.gaps, requests = cell.requests, each = each }
    end
  end
  table.sort(kept, function(a, b)
    if a.context ~= b.context and a.batch == b.batch then
      return a.context < b.context
    end
    return a.batch < b.batch
  end)
  return kept, #cells - #kept
end

-- Resampling by request within each cell.
local function decode_intervals(cells)
  return intervals(function(draw)
    local points = {}
    for i, cell in ipairs(cells) do
      points[i] = point(cell, fit.median(resampled(cell.each, draw)))
    end
    return formula(points)
  end)
end

local function spread(cells, name)
  local least, most = math.huge, 0
  for _, cell in ipairs(cells) do
    least, most = math.min(least, cell[name]), math.max(most, cell[name])
  end
  return least, most
end

--- Decode steps from cells: { base_ns, seq_ns, context_ns, ci, cells, odd, error, batches, contexts }, where
--- `odd` are cells left out since they lie far from what fits the others (a profile cannot hold one that is
--- more than 25 % away); or nil and why not,
--- and which experiment is missing ("batches", "contexts", "decodes").
function fit.decode(cells)
  if #cells < 3 then
    return nil, ("%d kinds of decode steps (batch and context) were seen at work alone, 3 are needed"):format(
      #cells), "decodes"
  end
  local kept, odd = table.move(cells, 1, #cells, 1, {}), {}
  local least_batch, most_batch = spread(cells, "batch")
  local least_context, most_context = spread(cells, "context")
  if most_batch < 2 * least_batch then
    return nil, ("decode steps were seen at batch %d only"):format(least_batch), "batches"
  elseif most_context < 2 * least_context then
    return nil, ("decode steps were seen at contexts of %.0f to %.0f tokens only"):format(least_context,
      most_context), "contexts"
  end
  local x
  while true do
    local points = points_of(kept)
    x = formula(points)
    if not x then
      return nil, "decode steps do not follow the formula", "decodes"
    end
    local worst, at = 0, nil
    for i, p in ipairs(points) do
      local e = math.abs(value(x, p) / p.y - 1)
      if e > worst then
        worst, at = e, i
      end
    end
    local typical = fit.median(errors(points, x))
    if worst <= math.min(fit.WITHIN * 0.98, math.max(0.05, 8 * typical)) then
      break
    end
    odd[#odd + 1] = table.remove(kept, at)
    if #odd * 3 > #cells or #kept < 3 then
      return nil, ("decode steps do not follow the formula: of %d kinds, %d lie more than %.0f %% from what "
        .. "fits the others"):format(#cells, #odd, fit.WITHIN * 100), "decodes"
    end
  end
  for _, cell in ipairs(odd) do
    cell.fitted_ns = value(x, point(cell, cell.ns))
  end
  return { base_ns = x[1], seq_ns = x[2], context_ns = x[3], ci = decode_intervals(kept), cells = kept,
    odd = odd, error = quality(points_of(kept), x), batches = { least_batch, most_batch },
    contexts = { least_context, most_context } }
end

--- A step of the fitted formula, ns.
function fit.step(decode, batch, context)
  return decode.base_ns + batch * decode.seq_ns + batch * context * decode.context_ns
end

return fit
