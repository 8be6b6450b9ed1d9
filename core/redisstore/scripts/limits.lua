-- Decides, refunds or resets checks of any algorithms together, all or nothing.
--
-- One script serves all algorithms, because checks of one request must be
-- decided in one call. The arithmetic is that of the core package's files named
-- after the algorithms; every number is an integer below 2^53, exact in Lua.
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
local RECORD = 13                 -- bytes of a record before its form
local ENTRY = 9                   -- bytes of a sliding log's entry
local HOUR = 3600000              -- milliseconds
local MAX = 2251799813685248     -- 2^51: no scaled number is larger
local TICKS = {[0] = 1, 1000, 1000000}
local BUCKET, WINDOW, ESTIMATE, LOG = 1, 2, 3, 4

local pack, unpack, sub, byte = struct.pack, struct.unpack, string.sub, string.byte
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min

local operation, now = unpack('>c1I7', ARGV[1])
local own = now == 0
if own then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- The bucket that is being worked on: see core/bucket.go.
local expires, x, y, entries

-- ticks until the debt of a bucket ends, whole and over rate
local function debt(tick)
  if expires <= now then return 0, 0 end
  local whole = expires / tick - floor(now / tick)
  if x > 0 then whole = whole - 1 end
  return whole, x
end

local function set_debt(whole, fraction, tick)
  x = fraction
  if fraction > 0 then whole = whole + 1 end
  expires = 0
  if whole > 0 then expires = (floor(now / tick) + whole) * tick end
end

-- the microseconds until enough of the oldest entries have left for cost to fit
local function log_wait(cost, unit, capacity)
  local missing = x + cost - capacity
  if missing <= 0 or cost > capacity then return 0 end
  for at = 1, #entries, ENTRY do
    local when, units = unpack('>I7I2', entries, at)
    missing = missing - units
    if missing <= 0 then return when + unit - now end
  end
  return 0
end

-- a × b / c rounded up, for a < c and all below 2^51, exactly: long division
-- bit by bit, since the product may need 102 bits
local function ceil_mul_div(a, b, c)
  local bit, quotient, rest = 1, 0, 0
  while bit * 2 <= b do bit = bit * 2 end
  while bit >= 1 do
    quotient, rest = quotient * 2, rest * 2
    if b >= bit then b, rest = b - bit, rest + a end
    if rest >= c then quotient, rest = quotient + 1, rest - c end
    if rest >= c then quotient, rest = quotient + 1, rest - c end
    bit = bit / 2
  end
  if rest > 0 then quotient = quotient + 1 end
  return quotient
end

-- moves a sliding window on to now, or begins the one now is in
local function roll_estimate(tick, unit, offset)
  local ticks = floor(now / tick)
  if expires ~= 0 and ticks >= expires / tick - unit then
    x, y = 0, x
    expires = y > 0 and expires + unit * tick or 0
  end
  if expires == 0 then
    expires = (ticks - (ticks - offset / tick) % unit + 2 * unit) * tick
  end
end

local function elapsed(tick, unit)
  return max(floor(now / tick) - (expires / tick - 2 * unit), 0)
end

-- begins or moves on the windows of a bucket of its own form
local function roll(algorithm, tick, unit, offset)
  if algorithm == WINDOW then
    if expires == 0 then expires = now - (now - offset) % unit + unit end
  elseif algorithm == ESTIMATE then
    roll_estimate(tick, unit, offset)
  elseif algorithm == LOG then
    local gone, size = 0, #entries
    while gone < size do
      local when, units = unpack('>I7I2', entries, gone + 1)
      if when + unit > now then break end
      gone, x = gone + ENTRY, x - units
    end
    if gone > 0 then entries = sub(entries, gone + 1) end
  end
end

-- reads the state of a record; true if it was written under the given form
local function load(value, at, form)
  local length, _, ends, kind, sizes = unpack('>I2I4I7BB', value, at)
  local state = at + RECORD + 2 + floor(sizes / 16) + sizes % 16
  local algorithm = floor(kind / 16)
  expires, x, y, entries = ends, 0, 0, ''
  if algorithm == BUCKET then
    if sizes % 16 > 0 then x = unpack('>I7', value, state) end
  elseif algorithm == WINDOW then
    x = unpack('>I7', value, state)
  elseif algorithm == ESTIMATE then
    x, y = unpack('>I7I7', value, state)
  else
    x = unpack('>I2', value, state)
    entries = sub(value, state + 2, at + length - 1)
  end
  return sub(value, at + RECORD, state - 1) == form
end

-- the units that a loaded bucket of another form holds: whole ones, and rest parts of unit
local function used(algorithm, tick, unit, rate)
  if algorithm == BUCKET then
    local whole, fraction = debt(tick)
    local all = min(whole, floor(MAX / rate)) * rate + fraction
    return floor(all / unit), all % unit, unit
  elseif algorithm == ESTIMATE then
    roll_estimate(tick, unit, 0)
    local previous = y * (unit - elapsed(tick, unit))
    return x + floor(previous / unit), previous % unit, unit
  end
  return x, 0, 1
end

-- puts what was used under another form into a bucket of this one
local function adopt(value, at, algorithm, tick, unit, rate, capacity, offset)
  local kind, sizes, p = unpack('>BB', value, at + RECORD)
  local before, old_tick, old_rate = floor(kind / 16), TICKS[kind % 16], 1
  local old
  old, p = unpack('>I' .. floor(sizes / 16), value, p)
  if sizes % 16 > 0 then old_rate = unpack('>I' .. sizes % 16, value, p) end
  if before == LOG then
    roll(LOG, old_tick, old, 0)
    if algorithm == LOG then -- the entries know their times
      expires = unpack('>I7', entries, #entries - ENTRY + 1) + unit
      roll(LOG, tick, unit, offset)
      return
    end
  end
  local units, rest
  units, rest, old = used(before, old_tick, old, old_rate)
  expires, x, y, entries = 0, 0, 0, ''
  roll(algorithm, tick, unit, offset)
  if algorithm == BUCKET then
    local all = capacity
    if units < capacity / unit then
      all = min(capacity, units * unit + (rest > 0 and ceil_mul_div(rest, unit, old) or 0))
    end
    set_debt(floor(all / rate), all % rate, tick)
    return
  end
  if rest > 0 then units = units + 1 end
  x = min(units, capacity)
  if algorithm == LOG and x > 0 then
    entries, expires = pack('>I7I2', now, x), now + unit
  end
end

-- the record of a bucket; '' if it is worth none
local function record(limit, algorithm, rate, form)
  local state
  if algorithm == BUCKET then
    if expires == 0 then return '' end
    state = rate > 1 and pack('>I7', x) or ''
  elseif x == 0 and y == 0 then
    return ''
  elseif algorithm == WINDOW then
    state = pack('>I7', x)
  elseif algorithm == ESTIMATE then
    state = pack('>I7I7', x, y)
  else
    state = pack('>I2', x) .. entries
  end
  return pack('>I2I4I7', RECORD + #form + #state, limit, expires) .. form .. state
end

-- the check's core.Reading
local function reading(charged, algorithm, tick, unit, capacity, cost)
  local a, b, c, d = x, 0, 0, 0
  if algorithm == BUCKET then
    a, b = debt(tick)
  elseif algorithm == WINDOW then
    b = expires - now
  elseif algorithm == ESTIMATE then
    b, c = y, elapsed(tick, unit)
  else
    b, c = log_wait(cost, unit, capacity), log_wait(1, unit, capacity)
    if entries ~= '' then d = unpack('>I7', entries, #entries - ENTRY + 1) + unit - now end
  end
  return pack('>BI7I7I7I7', charged, a, b, c, d)
end

-- whether cost fits into the bucket: core.Rule.wait compared with 0
local function fit(algorithm, tick, unit, rate, capacity, cost)
  if cost == 0 then
    return true
  elseif algorithm == BUCKET then
    local whole, fraction = debt(tick)
    local room = capacity - cost * unit - fraction
    return room >= 0 and whole <= floor(room / rate)
  elseif algorithm == ESTIMATE then
    local room = capacity - cost - x
    return room >= 0 and y * (unit - elapsed(tick, unit)) <= room * unit
  end
  return x + cost <= capacity
end

local function charge(algorithm, tick, unit, rate, cost)
  if algorithm == BUCKET then
    local whole, fraction = debt(tick)
    local all = whole * rate + fraction + cost * unit
    set_debt(floor(all / rate), all % rate, tick)
    return
  end
  x = x + cost
  if algorithm == LOG then
    local size, when, units = #entries, now, cost
    if size > 0 then
      local last, several = unpack('>I7I2', entries, size - ENTRY + 1)
      if last >= now then
        when, units, entries = last, several + cost, sub(entries, 1, size - ENTRY)
      end
    end
    entries, expires = entries .. pack('>I7I2', when, units), when + unit
  end
end

-- gives back a cost that was charged at the given time
local function refund(algorithm, tick, unit, rate, capacity, cost, at)
  if algorithm == BUCKET then
    local all, passed = min(cost, capacity / unit) * unit, max(floor(now / tick) - floor(at / tick), 0)
    if expires == 0 or passed > floor(all / rate) then return end
    all = all - passed * rate
    local whole, fraction = debt(tick)
    whole, fraction = whole - floor(all / rate), fraction - all % rate
    if fraction < 0 then whole, fraction = whole - 1, fraction + rate end
    if whole < 0 then whole, fraction = 0, 0 end
    set_debt(whole, fraction, tick)
  elseif algorithm == WINDOW then
    if at >= expires - unit then x = x - min(x, cost) end
  elseif algorithm == ESTIMATE then
    local start, ticks = expires / tick - 2 * unit, floor(at / tick)
    if ticks >= start then
      x = x - min(x, cost)
    elseif ticks >= start - unit then
      y = y - min(y, cost)
    end
  else
    for p = 1, #entries, ENTRY do
      local when, units = unpack('>I7I2', entries, p)
      if when == at then
        local less = min(units, cost)
        local left = less < units and pack('>I7I2', when, units - less) or ''
        x, entries = x - less, sub(entries, 1, p - 1) .. left .. sub(entries, p + ENTRY)
        expires = x > 0 and unpack('>I7', entries, #entries - ENTRY + 1) + unit or 0
        return
      end
    end
  end
end

-- where the record of a limit stands in a value; nil if it does not
local function find(value, limit)
  local at, size = 2, #value
  while at < size do
    local length, other = unpack('>I2I4', value, at)
    if other == limit then return at end
    at = at + length
  end
end

-- Look at every check before anything is charged.
local values = {}                 -- per key, what Redis holds; '' if nothing
local kept, charged = {}, {}      -- per key and limit, the new record if all is denied or granted
local denial, grant = {}, {}      -- per check, the answer if all is denied or granted
local granted = operation == 't'

for i = 2, #ARGV do
  local key, shadow, limit, algorithm, tick, unit, rate, capacity, cost, offset, when, rest =
    unpack('>BBI4BI4I7I7I7I7I7I7', ARGV[i])
  local form = sub(ARGV[i], rest)
  local value = values[key]
  if not value then
    value = redis.call('GET', KEYS[key]) or ''
    if value ~= '' and sub(value, 1, 1) ~= VERSION then
      return redis.error_reply('WEBLIMIT value of another version at ' .. KEYS[key])
    end
    values[key], kept[key], charged[key] = value, {}, {}
  end

  if operation == 'x' then
    kept[key][limit] = ''
  else
    local at = find(value, limit)
    local converted = false
    expires, x, y, entries = 0, 0, 0, ''
    if at then
      local same = load(value, at, form)
      if expires <= now then
        expires, x, y, entries = 0, 0, 0, ''
        roll(algorithm, tick, unit, offset)
      elseif same then
        roll(algorithm, tick, unit, offset)
      else
        adopt(value, at, algorithm, tick, unit, rate, capacity, offset)
        converted = true
      end
    else
      roll(algorithm, tick, unit, offset)
    end

    if operation == 'r' then
      if at then
        refund(algorithm, tick, unit, rate, capacity, cost, when)
        kept[key][limit] = record(limit, algorithm, rate, form)
      end
      denial[i - 1] = reading(0, algorithm, tick, unit, capacity, 0)
    else
      if converted and operation == 't' then
        kept[key][limit] = record(limit, algorithm, rate, form)
      end
      denial[i - 1] = reading(0, algorithm, tick, unit, capacity, cost)
      if fit(algorithm, tick, unit, rate, capacity, cost) then
        if cost > 0 then
          charge(algorithm, tick, unit, rate, cost)
          charged[key][limit] = record(limit, algorithm, rate, form)
        end
        grant[i - 1] = reading(1, algorithm, tick, unit, capacity, cost)
      else
        grant[i - 1] = denial[i - 1]
        if shadow == 0 then granted = false end
      end
    end
  end
end

-- Write what changed, key by key, dropping records whose time has passed.
for key, value in pairs(values) do
  local changes = kept[key]
  if granted then
    for limit, new in pairs(charged[key]) do changes[limit] = new end
  end
  if next(changes) then
    local records, last = {VERSION}, 0
    local at, size = 2, #value
    while at < size do
      local length, limit, ends = unpack('>I2I4I7', value, at)
      if ends > now and not changes[limit] then
        records[#records + 1] = sub(value, at, at + length - 1)
        last = max(last, ends)
      end
      at = at + length
    end
    for _, new in pairs(changes) do
      if new ~= '' then
        records[#records + 1] = new
        last = max(last, (unpack('>I7', new, 7)))
      end
    end
    if #records > 1 then
      local ttl = ceil((last - now) / 1000)
      if not own then ttl = ttl + HOUR end -- a test's clock may stand still for a while
      redis.call('PSETEX', KEYS[key], string.format('%d', ttl), table.concat(records))
    elseif value ~= '' then
      redis.call('DEL', KEYS[key])
    end
  end
end

return pack('>I7', now) .. table.concat(granted and grant or denial)
