-- Decides, refunds or resets checks of any algorithms together, all or nothing.
--
-- One script serves all algorithms, because checks of one request must be
-- decided in one call. The arithmetic is that of the core package's files named
-- after the algorithms; every number is an integer below 2^53, exact in Lua.
--
-- The usual way through is one straight piece of code, and not a function per
-- step: Lua creates functions each time the script runs, and a dozen of them cost
-- as much as the decision.
--
-- KEYS   one per client key, each holding all limits of that key
--
-- ARGV[1]  operation    1 byte: 't' take, 'p' peek, 'r' refund, 'x' reset
--          clock        7 bytes: microseconds since the epoch; 0 for the server's own
-- ARGV[2…] one per check, integers big-endian:
--          key          1 byte: index into KEYS
--          shadow       1 byte: 1 if the check is judged and not enforced
--          limit        4 bytes: the limit's id
--          algorithm    1 byte: 1 token bucket, 2 fixed window, 3 sliding window, 4 sliding log
--          tick         4 bytes: microseconds
--          unit         7 bytes: token bucket: debt of one unit; else the window in ticks
--          rate         7 bytes: token bucket: debt drained in a tick
--          capacity     7 bytes: token bucket: debt that the bucket holds; else the quota in units
--          cost         7 bytes: units
--          offset       7 bytes: of the windows, in microseconds
--          charged      7 bytes: refund: when the cost was charged
--          form         the rest: how algorithm, tick, unit and rate are stored
--
-- RETURN   now          7 bytes: microseconds since the epoch
--          per check    29 bytes: 1 if charged, else 0; then four numbers of 7 bytes,
--                       the check's core.Reading
--
-- VALUE    version      1 byte: 1
--          per limit    length of the record (2 bytes), limit (4), expires (7:
--                       microseconds since the epoch), form, state
-- FORM     algorithm × 16 + tick (0: 1 µs, 1: 1 ms, 2: 1 s), length of unit × 16 + length
--          of rate, unit, rate (absent if 1)
-- STATE    token bucket    fraction of the tick in which the debt ends, over rate (7; absent if rate is 1)
--          fixed window    units used (7)
--          sliding window  units used in this window (7), in the one before (7)
--          sliding log     units used (2), then per entry when (7) and units (2)
--
-- A record whose time has passed equals none. The key expires with its last record.

local VERSION = '\1'
local HEAD = 13                   -- bytes of a record before its form
local BUCKET, WINDOW, ESTIMATE = 1, 2, 3

local unpack, pack, sub, floor = struct.unpack, struct.pack, string.sub, math.floor

local operation, now = unpack('>c1I7', ARGV[1])
local own = now == 0
if own then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- Per key: what Redis holds, what it shall hold if the checks are denied, and
-- what if they are granted. They differ while a check is charged, and in the
-- first only where a limit's numbers have changed.
local stored, denied, granted = {}, {}, {}

local grant = operation == 't'    -- whether all enforced checks fit so far
local denials, grants = {}, {}    -- per check: the two possible answers
local checks = #ARGV - 1

for i = 1, checks do
  local arg = ARGV[i + 1]
  local key, shadow, limit, algorithm, tick, unit, rate, capacity, cost, offset, charged, rest =
    unpack('>BBI4BI4I7I7I7I7I7I7', arg)
  local form = sub(arg, rest)

  local value = granted[key]
  if not value then
    value = redis.call('GET', KEYS[key]) or VERSION
    if sub(value, 1, 1) ~= VERSION then
      return redis.error_reply('WEBLIMIT value of an unknown version at ' .. KEYS[key])
    end
    stored[key], denied[key], granted[key] = value, value, value
  end

  -- Find the limit's record: at is where it stands or would.
  local at, size, length, expires = 2, #value, 0, 0
  while at <= size do
    local other
    length, other, expires = unpack('>I2I4I7', value, at)
    if other == limit then break end
    at, length, expires = at + length, 0, 0
  end

  -- The bucket: see core/bucket.go. An expired one is as good as none.
  local x, y, entries = 0, 0, ''
  local converted = false
  if expires > now then
    local state = at + HEAD + #form
    if sub(value, at + HEAD, state - 1) ~= form then
      -- The limit's numbers have changed since: keep what was used under the old ones.
      local BIG, ENTRY = 2251799813685248, 9 -- no scaled number is above 2^51
      local kind, sizes, p = unpack('>BB', value, at + HEAD)
      local old = {algorithm = floor(kind / 16), tick = ({[0] = 1, 1000, 1000000})[kind % 16], rate = 1}
      old.unit, p = unpack('>I' .. floor(sizes / 16), value, p)
      if sizes % 16 > 0 then old.rate, p = unpack('>I' .. sizes % 16, value, p) end
      local units, rest, parts = 0, 0, 1 -- whole units used, and rest of parts of one
      if old.algorithm == BUCKET then
        local fraction = old.rate > 1 and unpack('>I7', value, p) or 0
        local whole = expires / old.tick - floor(now / old.tick)
        if fraction > 0 then whole = whole - 1 end
        local debt = math.min(whole, floor(BIG / old.rate)) * old.rate + fraction
        units, rest, parts = floor(debt / old.unit), debt % old.unit, old.unit
      elseif old.algorithm == WINDOW then
        units = unpack('>I7', value, p)
      elseif old.algorithm == ESTIMATE then
        local current, previous = unpack('>I7I7', value, p)
        local start, ticks = expires / old.tick - 2 * old.unit, floor(now / old.tick)
        if ticks >= start + old.unit then
          start, current, previous = start + old.unit, 0, current
        end
        local weighted = previous * (old.unit - math.max(ticks - start, 0))
        units, rest, parts = current + floor(weighted / old.unit), weighted % old.unit, old.unit
      else
        units = unpack('>I2', value, p)
        entries = sub(value, p + 2, at + length - 1)
        while entries ~= '' do
          local when, n = unpack('>I7I2', entries)
          if when + old.unit > now then break end
          entries, units = sub(entries, ENTRY + 1), units - n
        end
      end
      converted = true
      expires = 0
      if algorithm == BUCKET then
        local debt = capacity
        if units < capacity / unit then
          -- rest × unit / parts rounded up, by long division: the product may need 102 bits.
          local bit, factor, quotient, left = 1, unit, 0, 0
          while bit * 2 <= factor do bit = bit * 2 end
          while bit >= 1 and rest > 0 do
            quotient, left = quotient * 2, left * 2
            if factor >= bit then factor, left = factor - bit, left + rest end
            if left >= parts then quotient, left = quotient + 1, left - parts end
            if left >= parts then quotient, left = quotient + 1, left - parts end
            bit = bit / 2
          end
          if left > 0 then quotient = quotient + 1 end
          debt = math.min(capacity, units * unit + quotient)
        end
        x = debt % rate
        local ends = floor(debt / rate) + (x > 0 and 1 or 0)
        if ends > 0 then expires = (floor(now / tick) + ends) * tick end
      elseif algorithm == WINDOW or algorithm == ESTIMATE then
        x = math.min(units + (rest > 0 and 1 or 0), capacity)
      elseif old.algorithm == algorithm then
        -- A log's entries know their times: the new window just applies to them.
        x = units
        if x > 0 then expires = unpack('>I7', entries, #entries - ENTRY + 1) + unit end
      else
        x = math.min(units + (rest > 0 and 1 or 0), capacity)
        entries = x > 0 and pack('>I7I2', now, x) or ''
        expires = now + unit
      end
    elseif algorithm == BUCKET then
      if rate > 1 then x = unpack('>I7', value, state) end
    elseif algorithm == WINDOW then
      x = unpack('>I7', value, state)
    elseif algorithm == ESTIMATE then
      x, y = unpack('>I7I7', value, state)
    else
      x = unpack('>I2', value, state)
      entries = sub(value, state + 2, at + length - 1)
    end
  else
    expires = 0
  end

  -- By algorithm: bring the bucket to now and read it (a to d, the check's
  -- core.Reading); see whether cost fits; charge it, or give it back; read it
  -- again (e to h). before and after are the record's state, nil for no record.
  local fits, a, b, c, d, e, f, g, h, before, after = cost == 0, 0, 0, 0, 0, 0, 0, 0, 0
  local ends = 0                  -- when the bucket expires once it is charged

  if algorithm == BUCKET then
    local ticks = tick == 1 and now or floor(now / tick)
    local whole, fraction = 0, 0  -- ticks until the debt ends, and over rate
    if expires > 0 then
      whole, fraction = expires / tick - ticks, x
      if fraction > 0 then whole = whole - 1 end
      before = rate > 1 and pack('>I7', x) or ''
    end
    a, b = whole, fraction
    if operation == 'r' then
      local debt = math.min(cost, capacity / unit) * unit
      local passed = math.max(ticks - floor(charged / tick), 0)
      if passed <= floor(debt / rate) then
        debt = debt - passed * rate
        whole, fraction = whole - floor(debt / rate), fraction - debt % rate
        if fraction < 0 then whole, fraction = whole - 1, fraction + rate end
        if whole < 0 then whole, fraction = 0, 0 end
      end
      fits = true
    elseif cost > 0 then
      local room = capacity - cost * unit - fraction
      fits = room >= 0 and whole <= floor(room / rate)
      if fits then
        local debt = whole * rate + fraction + cost * unit
        whole, fraction = floor(debt / rate), debt % rate
      end
    end
    e, f = whole, fraction
    if whole > 0 or fraction > 0 then
      ends = (ticks + whole + (fraction > 0 and 1 or 0)) * tick
      after = rate > 1 and pack('>I7', fraction) or ''
    end

  elseif algorithm == WINDOW then
    if expires == 0 then expires = now - (now - offset) % unit + unit end
    ends = expires
    a, b = x, expires - now
    if x > 0 then before = pack('>I7', x) end
    if operation == 'r' then
      if charged >= expires - unit then x = x - math.min(x, cost) end
      fits = true
    elseif cost > 0 then
      fits = x + cost <= capacity
      if fits then x = x + cost end
    end
    e, f = x, b
    if x > 0 then after = pack('>I7', x) end

  elseif algorithm == ESTIMATE then
    local ticks = tick == 1 and now or floor(now / tick)
    if expires > 0 and ticks >= expires / tick - unit then
      x, y = 0, x
      expires = y > 0 and expires + unit * tick or 0
    end
    if expires == 0 then
      expires = (ticks - (ticks - offset / tick) % unit + 2 * unit) * tick
    end
    ends = expires
    local start = expires / tick - 2 * unit
    local elapsed = ticks > start and ticks - start or 0
    a, b, c = x, y, elapsed
    if x > 0 or y > 0 then before = pack('>I7I7', x, y) end
    if operation == 'r' then
      local when = floor(charged / tick)
      if when >= start then
        x = x - math.min(x, cost)
      elseif when >= start - unit then
        y = y - math.min(y, cost)
      end
      fits = true
    elseif cost > 0 then
      local room = capacity - cost - x
      fits = room >= 0 and y * (unit - elapsed) <= room * unit
      if fits then x = x + cost end
    end
    e, f, g = x, y, elapsed
    if x > 0 or y > 0 then after = pack('>I7I7', x, y) end

  else -- sliding log
    local ENTRY = 9
    local gone = 0
    while gone < #entries do
      local when, n = unpack('>I7I2', entries, gone + 1)
      if when + unit > now then break end
      gone, x = gone + ENTRY, x - n
    end
    if gone > 0 then entries = sub(entries, gone + 1) end

    -- the microseconds until enough of the oldest entries have left for units to fit
    local function wait(units)
      local missing = x + units - capacity
      if missing <= 0 or units > capacity then return 0 end
      for p = 1, #entries, ENTRY do
        local when, n = unpack('>I7I2', entries, p)
        missing = missing - n
        if missing <= 0 then return when + unit - now end
      end
      return 0
    end
    local function newest()
      return entries ~= '' and unpack('>I7', entries, #entries - ENTRY + 1) or 0
    end
    local asked = operation == 'r' and 0 or cost

    local last = newest()
    a, b, c, d = x, wait(asked), wait(1), x > 0 and last + unit - now or 0
    if x > 0 then before, expires = pack('>I2', x) .. entries, last + unit end
    if operation == 'r' then
      for p = 1, #entries, ENTRY do
        local when, n = unpack('>I7I2', entries, p)
        if when == charged then
          local less = math.min(n, cost)
          local left = less < n and pack('>I7I2', when, n - less) or ''
          x, entries = x - less, sub(entries, 1, p - 1) .. left .. sub(entries, p + ENTRY)
          break
        end
      end
      fits = true
    elseif cost > 0 then
      fits = x + cost <= capacity
      if fits then
        x = x + cost
        if last >= now then
          local n = unpack('>I2', entries, #entries - 1)
          entries = sub(entries, 1, -ENTRY - 1) .. pack('>I7I2', last, n + cost)
        else
          entries = entries .. pack('>I7I2', now, cost)
        end
      end
    end
    last = newest()
    e, f, g, h = x, wait(asked), wait(1), x > 0 and last + unit - now or 0
    if x > 0 then after, ends = pack('>I2', x) .. entries, last + unit end
  end

  if operation == 'x' then
    fits, after, converted = true, nil, false
  end

  -- Put the new record where the old one is, or at the end.
  local state = after
  if not fits then
    state = before
    if shadow == 0 then grant = false end
  end
  if converted or fits and (cost > 0 or operation == 'x') then
    local record = state and pack('>I2I4I7', HEAD + #form + #state, limit, fits and ends or expires) .. form .. state or ''
    granted[key] = sub(value, 1, at - 1) .. record .. sub(value, at + length)
    if converted then
      -- The old numbers must go even if the request is denied: see core.Rule.open.
      record = before and pack('>I2I4I7', HEAD + #form + #before, limit, expires) .. form .. before or ''
      local same, spot, span, other = denied[key], 2
      while true do
        span, other = unpack('>I2I4', same, spot)
        if other == limit then break end
        spot = spot + span
      end
      denied[key] = sub(same, 1, spot - 1) .. record .. sub(same, spot + span)
    end
  end

  if operation == 'r' then
    denials[i] = pack('>BI7I7I7I7', 0, e, f, g, h)
  else
    if checks > 1 or not grant then denials[i] = pack('>BI7I7I7I7', 0, a, b, c, d) end
    if grant then grants[i] = fits and pack('>BI7I7I7I7', 1, e, f, g, h) or pack('>BI7I7I7I7', 0, a, b, c, d) end
  end
end

-- Write what changed, key by key, less the records whose time has passed.
local final = (grant or operation == 'r' or operation == 'x') and granted or denied
for key = 1, #KEYS do
  local value = final[key]
  if value ~= stored[key] and operation ~= 'p' then
    local last, at = 0, 2
    while at <= #value do
      local length, _, expires = unpack('>I2I4I7', value, at)
      if expires > now then
        if expires > last then last = expires end
        at = at + length
      else
        value = sub(value, 1, at - 1) .. sub(value, at + length)
      end
    end
    if last > 0 then
      -- Expiry is in whole milliseconds, of a clock that may have been read a moment earlier.
      local ttl = math.ceil(last / 1000) - floor(now / 1000) + 1
      if not own then ttl = ttl + 3600000 end -- a test's clock may stand still for an hour
      redis.call('PSETEX', KEYS[key], string.format('%d', ttl), value)
    else
      redis.call('DEL', KEYS[key])
    end
  end
end

return pack('>I7', now) .. (checks > 1 and table.concat(grant and grants or denials) or grants[1] or denials[1])
