-- Replaces a record that was written under other numbers of its limit by one under the
-- current numbers, in which as many units are used.
--
-- Reads:  value, at, and what find.pass says of the record; algorithm, tick, per, capacity, full, utmost, cost, offset,
--         head, writes, operation, now
-- Sets:   value; state, if anything is used; converted, if what was used had to be recomputed;
--         foreign and foreignEnds instead, in a refund; spared, sparedTo, sparedFor and sparedOne instead, if the record stays
--
-- The old algorithm's section "used" says how many units are used: units whole ones, and rest
-- parts of one. The new algorithm's section "open" makes the state x, y, entries and ends, which
-- is when it expires, or 0 if nothing is used.
--
-- exceeds    whether the record counts more than the current numbers hold, so that a conversion would forget
--            units. Then it stays as it is, unless that is for longer than two windows: core/store/counting/foreign.go
--            reads:  units, rest, farthest, utmost
--            sets:   spared (when the record expires), sparedTo (where the next one begins), sparedFor and sparedOne
--                    (the microseconds until the cost, or one unit, fits beside what it counts); or full, if a
--                    charge adopts more
-- spared     answers a check whose record stays, after the algorithm's piece has decided it without one
--            reads:  spared, sparedFor, sparedOne; operation, cost, capacity, full, tick, per; answered, answer
--            sets:   fits, ends, expires, answer

--# convert
local floor, min, max = math.floor, math.min, math.max
local BIG = 2251799813685248      -- 2^51: no scaled number is larger
local oldTick = ({[0] = 1, 1000, 1000000})[byte(value, at + 7) % 16]
local oldUnit, f = unpack('<I' .. floor(sizes / 16), value, form)
local oldRate = 1
if kind == TOKENBUCKET and width > 0 then oldRate = unpack('<I' .. width, value, f) end
local ticks = tick == 1 and now or floor(now / tick)
local units
local rest, parts = 0, 1
local x, y, entries = 0, 0, ''
local same = oldTick == tick and oldUnit == per
if kind == CALENDAR or kind == LEDGER then same = sub(value, form, f - 1) == sub(head, 10) end
same = same and kind == algorithm and kind ~= TOKENBUCKET
local logs = (kind == SLIDINGLOG or kind == CONCURRENCY) and (algorithm == SLIDINGLOG or algorithm == CONCURRENCY)
if operation == REFUND and algorithm ~= LEDGER and not same and not logs then
  --> convert.foreign
end
if foreign == '' then
  units = 0
elseif kind == TOKENBUCKET then
  --> tokenbucket.used
elseif kind == FIXEDWINDOW or kind == CALENDAR then
  --> fixedwindow.used
elseif kind == SLIDINGWINDOW then
  --> slidingwindow.used
elseif kind == LEDGER then
  --> ledger.used
else                              -- SLIDINGLOG, CONCURRENCY
  --> slidinglog.used
end
local burst = full
if not (same or logs or foreign or kind == LEDGER or algorithm == LEDGER) and operation ~= RESET then
  --> convert.exceeds
end
local ends = 0
if spared then
  -- It stays.
elseif same then
  -- Only the width of the counts has changed. A count that is too large for the new width is
  -- above twice the quota, too. It becomes 2^32-1, and counts as that if the quota is raised again.
  ends = expiry
  if kind == FIXEDWINDOW or kind == CALENDAR then x = units end
  if kind == LEDGER then
    --> ledger.keep
  elseif byte(head, 9) % 16 == 4 then
    x, y = min(x, 4294967295), min(y, 4294967295)
  end
elseif algorithm == TOKENBUCKET then
  --> tokenbucket.open
elseif algorithm == FIXEDWINDOW then
  --> fixedwindow.open
elseif algorithm == SLIDINGWINDOW then
  --> slidingwindow.open
elseif algorithm == CALENDAR then
  --> calendar.open
elseif algorithm == LEDGER then
  --> ledger.open
elseif kind == SLIDINGLOG or kind == CONCURRENCY then
  --> slidinglog.open
else                              -- SLIDINGLOG, CONCURRENCY; the record was no log before
  --> slidinglog.begin
end
full = burst
if not spared then
  converted = converted or not (same or foreign)
  local record = ''
  if ends > 0 then
    record = pack(writes, '', head, ends, x, y, entries)
    state = at + #head
  end
  value = sub(value, 1, at - 1) .. record .. sub(value, stop)
end

--# foreign
-- A refund of what was charged under other numbers than those of the record. Units beyond the burst
-- were forgotten when the record was converted to these, so a token bucket gets back what drains in
-- the time in which the charge would have drained, and no more units than were charged: see
-- Bucket.Refund in core/store/counting/bucket.go. Of others nothing is given back. The record keeps its numbers.
foreignEnds = expiry
if kind == TOKENBUCKET and algorithm == TOKENBUCKET then
  local back = min(cost, full)
  local given = min(floor(back / unpack('<I' .. floor(byte(head, 9) / 16), head, 10)), floor(BIG / oldUnit))
  local century = 3153600000000000 -- 100 years
  back = min(floor(back / per) * tick, min(floor(given * oldUnit / oldRate), floor(century / oldTick)) * oldTick)
  back = back - max(now - charged, 0)
  if back > 0 then foreignEnds = expiry - floor(back / oldTick) * oldTick end
end
foreign = ''
if foreignEnds > now then
  expiry = foreignEnds
  foreign = sub(value, at, used - 8) .. pack('<I7', expiry) .. sub(value, used, stop - 1)
end

--# exceeds
local unit = algorithm == TOKENBUCKET and unpack('<I' .. floor(byte(head, 9) / 16), head, 10) or 1
local holds = floor(full / unit)
local latest = algorithm == FIXEDWINDOW and now + 2 * per or farthest
local over = expiry
if kind == SLIDINGWINDOW and x == 0 and now < expiry - oldUnit * oldTick then
  over = expiry - oldUnit * oldTick -- all of it was in the window before
end
local upTo = operation == CHARGE and utmost or full
local holdsMost = floor(upTo / unit)
if over > latest or units < holds or units == holds and rest == 0 then
  -- It is converted as it is, or as far as it fits.
elseif units < holdsMost or units == holdsMost and rest == 0 then
  full = upTo                     -- restored below
else
  spared, sparedTo, sparedFor, sparedOne = expiry, stop, over - now, over - now
end
if spared and kind == TOKENBUCKET then
  local fraction = width > 0 and unpack('<I' .. width, value, used) or 0
  local whole = expiry / oldTick - floor(now / oldTick) - (fraction > 0 and 1 or 0)
  local drained = floor((capacity - unit) / unit) * oldUnit - fraction
  sparedOne = (whole - floor(drained / oldRate)) * oldTick
  drained = floor((capacity - cost) / unit) * oldUnit - fraction
  sparedFor = (whole - floor(drained / oldRate)) * oldTick
end

--# spared
if operation > PEEK or cost == 0 or cost > capacity then sparedFor = sparedOne end
if operation <= PEEK and cost > 0 then fits = 0 end
ends, expires = nil, spared
local beyond = 4503599627370496   -- 2^52: see beyond in core/store/counting/foreign.go
local sparedTicks = math.ceil(sparedFor / tick)
if algorithm == TOKENBUCKET then
  answer = pack('<c0BI7I7', sub(answer, 1, answered), fits, sparedTicks, beyond)
elseif algorithm == SLIDINGWINDOW then
  answer = pack('<c0BI7I7I7', sub(answer, 1, answered), fits, beyond, 0, math.max(2 * per - sparedTicks, 0))
elseif algorithm == SLIDINGLOG then
  answer = pack('<c0B', sub(answer, 1, answered), fits)
    .. string.rep(pack('<I7I7I7I7', full, sparedFor, sparedFor, sparedFor), operation == TAKE and 2 or 1)
else                              -- FIXEDWINDOW, CALENDAR, CONCURRENCY
  if algorithm == CONCURRENCY then sparedFor = math.min(sparedFor, per) end
  answer = pack('<c0BI7I7', sub(answer, 1, answered), fits, full, sparedFor)
end
