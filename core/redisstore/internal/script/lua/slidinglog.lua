-- The sliding log, core/store/counting/slidinglog.go, and what concurrency limits share with it.
--
-- format  reads:  per, now
--         sets:   writes, farthest
-- bringback  makes one entry of those that lie more than a window ahead
--         reads:  entries; per, now
--         sets:   y, entries, expires
-- trim    drops the entries whose window has passed
--         reads:  x, entries, window, now
--         sets:   x, entries
-- used    reads:  value, used, stop, oldUnit, now
--         sets:   units, entries
-- open    reads:  units, entries, per; the record was a log before
--         sets:   x, y, ends
-- begin   reads:  units, rest, full, per, now; the record was no log before
--         sets:   x, y, entries, ends
-- charge  adds units to the newest entry or to a new one, or takes them from the entry of the
--         time charged
--         reads:  x, entries, newest; per, capacity, full, utmost, cost, charged, operation, times, most, now
--         sets:   fits, x, y, entries, newest, ends, added
-- decide  reads:  x, entries; per, capacity, full, utmost, cost, charged, operation, times, most, now
--         sets:   fits, x, y, entries, ends, answer

--# format
writes = '<c0c0I7I2I2c0'
farthest = now + 2 * per          -- entries keep their times if these are at most a window ahead

--# bringback
local kept, units = #entries, 0
while kept > 0 and unpack('<I7', entries, kept - ENTRY + 1) > now + per do
  units, kept = units + unpack('<I2', entries, kept - 1), kept - ENTRY
end
local newest = kept > 0 and unpack('<I7', entries, kept - ENTRY + 1) or 0
if newest >= now then
  units = units + unpack('<I2', entries, kept - 1)
  kept = kept - ENTRY
else
  newest = now
end
entries = sub(entries, 1, kept) .. pack('<I7I2', newest, units)
y, expires = #entries / ENTRY, newest + per

--# trim
local gone = 0
while gone < #entries do
  local when, n = unpack('<I7I2', entries, gone + 1)
  if when + window > now then break end
  gone, x = gone + ENTRY, x - n
end
if gone > 0 then entries = sub(entries, gone + 1) end

--# used
x, entries = unpack('<I2', value, used), sub(value, used + 4, stop - 1)
local window = oldUnit
--> slidinglog.trim
units = x

--# open
-- The entries have their times: the new window just applies to them.
x, y = units, #entries / ENTRY
if x > 0 then ends = unpack('<I7', entries, #entries - ENTRY + 1) + per end

--# begin
x, y = min(units + (rest > 0 and 1 or 0), full), 1
if x > 0 then entries, ends = pack('<I7I2', now, x), now + per end

--# charge
local more = 0                    -- units to add
if operation <= PEEK and cost > 0 then
  if x + cost > capacity then
    fits = 0
  else
    if times > 1 then fits = math.min(times, math.floor((capacity - x) / cost)) end
    more = (fits < most and fits or most) * cost
  end
elseif operation == REFUND or operation == RENEW then
  -- The entry is at lower, or there is none of its time.
  local lower, upper = 0, #entries / ENTRY
  while lower < upper do
    local middle = math.floor((lower + upper) / 2)
    if unpack('<I7', entries, middle * ENTRY + 1) < charged then lower = middle + 1 else upper = middle end
  end
  local e = lower * ENTRY + 1
  if e < #entries and unpack('<I7', entries, e) == charged then
    local n = unpack('<I2', entries, e + 7)
    local back = math.min(n, cost)
    local left = back < n and pack('<I7I2', charged, n - back) or ''
    x, entries = x - back, sub(entries, 1, e - 1) .. left .. sub(entries, e + ENTRY)
    newest = x > 0 and unpack('<I7', entries, #entries - ENTRY + 1) or 0
    ends = x > 0 and newest + per or 0
  end
end
if operation == CHARGE then
  more = math.max(math.min(cost, utmost - x), 0)
  added = more
elseif operation == RENEW then
  more = math.max(math.min(cost, 2 * full - x), 0)
end
if more > 0 then
  x = x + more
  if newest >= now then           -- the clock was set back, or stands still
    local n = unpack('<I2', entries, #entries - 1)
    entries = sub(entries, 1, -ENTRY - 1) .. pack('<I7I2', newest, n + more)
  else
    newest = now
    entries = entries .. pack('<I7I2', now, more)
  end
  ends = newest + per
end
y = #entries / ENTRY

--# decide
local window = per
--> slidinglog.trim
local newest = entries ~= '' and unpack('<I7', entries, #entries - ENTRY + 1) or 0

-- wait returns the microseconds until enough of the oldest entries have left for units to fit.
local function wait(units)
  local missing = x + units - capacity
  if missing <= 0 or units > capacity then return 0 end
  for e = 1, #entries, ENTRY do
    local when, n = unpack('<I7I2', entries, e)
    missing = missing - n
    if missing <= 0 then return when + per - now end
  end
  return 0
end
local function reading(units)
  return pack('<I7I7I7I7', x, wait(units), wait(1), x > 0 and newest + per - now or 0)
end

-- A take answers with the readings before and after: which one applies depends on whether
-- the group is granted.
local before, after = '', ''
if operation <= PEEK then before = reading(cost) end
--> slidinglog.charge
if operation ~= PEEK then after = reading(operation == TAKE and cost or 0) end
answer = pack(answer and '<c0Bc0c0' or '<I7Bc0c0', answer or now, fits, before, after)
