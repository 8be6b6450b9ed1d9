-- The sliding log, and how a log of slots is stored: core/store/slidinglog.go.
--
-- format  sets:   writes
-- used    reads:  value, used, stop, oldUnit, now
--         sets:   units, entries
-- open    reads:  units, entries, per; the record was a log before
--         sets:   x, y, ends
-- begin   reads:  units, rest, full, per, now; the record was none
--         sets:   x, y, entries, ends
-- decide  reads:  expires, x, entries; per, capacity, full, cost, charged, operation
--         sets:   fits, x, y, entries, ends, answer

--# format
writes = '<c0c0I7I2I2c0'

--# used
units = unpack('<I2', value, used)
entries = sub(value, used + 4, stop - 1)
while entries ~= '' do
  local when, n = unpack('<I7I2', entries)
  if when + oldUnit > now then break end
  entries, units = sub(entries, ENTRY + 1), units - n
end

--# open
-- A log's entries know their times: the new window just applies to them.
x, y = units, #entries / ENTRY
if x > 0 then ends = unpack('<I7', entries, #entries - ENTRY + 1) + per end

--# begin
x, y = min(units + (rest > 0 and 1 or 0), full), 1
if x > 0 then entries, ends = pack('<I7I2', now, x), now + per end

--# decide
local gone = 0
while gone < #entries do
  local when, n = unpack('<I7I2', entries, gone + 1)
  if when + per > now then break end
  gone, x = gone + ENTRY, x - n
end
if gone > 0 then entries = sub(entries, gone + 1) end

-- the microseconds until enough of the oldest entries have left for units to fit
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
-- of the newest entry
local function newest()
  return entries ~= '' and unpack('<I7', entries, #entries - ENTRY + 1) or 0
end
local function reading(units)
  return pack('<I7I7I7I7', x, wait(units), wait(1), x > 0 and newest() + per - now or 0)
end

local before, wanted, more = reading(cost), cost, 0
if operation <= PEEK then
  if x + cost <= capacity then
    more = cost
  elseif cost > 0 then
    fits = 0
  end
elseif operation == CHARGE then
  wanted, more = 0, math.max(math.min(cost, 2 * full - x), 0)
elseif operation == REFUND then
  wanted = 0
  for e = 1, #entries, ENTRY do
    local when, n = unpack('<I7I2', entries, e)
    if when == charged then
      local less = math.min(n, cost)
      local left = less < n and pack('<I7I2', when, n - less) or ''
      x, entries = x - less, sub(entries, 1, e - 1) .. left .. sub(entries, e + ENTRY)
      ends = x > 0 and newest() + per or 0
      break
    end
  end
end
if more > 0 then
  x = x + more
  local latest = newest()
  if latest >= now then
    local n = unpack('<I2', entries, #entries - 1)
    entries = sub(entries, 1, -ENTRY - 1) .. pack('<I7I2', latest, n + more)
  else
    entries = entries .. pack('<I7I2', now, more)
  end
  ends = newest() + per
end
y = #entries / ENTRY
if operation == TAKE then
  -- The answer depends on whether the group is granted: both.
  answer = pack(answer and '<c0Bc0c0' or '<I7Bc0c0', answer or now, fits, before, reading(wanted))
else
  answer = pack(answer and '<c0Bc0' or '<I7Bc0', answer or now, fits, operation == PEEK and before or reading(wanted))
end
