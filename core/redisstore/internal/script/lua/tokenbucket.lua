-- The token bucket: core/store/counting/tokenbucket.go.
--
-- format  reads:  per, offset, now
--         sets:   reads, writes, farthest
-- used    reads:  value, used, width, expiry, oldTick, oldUnit, oldRate, now
--         sets:   units, rest, parts
-- open    reads:  head, full, per, tick, ticks, units, rest, parts
--         sets:   x, ends
-- decide  reads:  expires, x; tick, per, capacity, full, utmost, cost, charged, operation, times, most
--         sets:   fits, x, ends, added, answer

--# format
if per == 1 then
  writes = '<c0c0I7'
elseif per < 256 then
  reads, writes = '<I7B', '<c0c0I7B'
elseif per < 65536 then
  reads, writes = '<I7I2', '<c0c0I7I2'
elseif per < 4294967296 then
  reads, writes = '<I7I4', '<c0c0I7I4'
else
  reads, writes = '<I7I7', '<c0c0I7I7'
end
farthest = now + offset

--# used
local fraction = width > 0 and unpack('<I' .. width, value, used) or 0
local whole = expiry / oldTick - floor(now / oldTick)
if fraction > 0 then whole = whole - 1 end
local debt = min(whole, floor(BIG / oldRate)) * oldRate + fraction
units, rest, parts = floor(debt / oldUnit), debt % oldUnit, oldUnit

--# open
local unit = unpack('<I' .. floor(byte(head, 9) / 16), head, 10)
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
-- The product is exact where it is below full.
local debt = min(full, units * unit + quotient)
x = debt % per
if debt > 0 then ends = (ticks + floor(debt / per) + (x > 0 and 1 or 0)) * tick end

--# decide
local ticks = tick == 1 and now or (now - now % tick) / tick
local whole = 0                   -- ticks until the debt has drained; x / rate is the rest of one
if expires > 0 then
  whole = expires / tick - ticks
  if x > 0 then whole = whole - 1 end
end
a, b = whole, x
-- If the clock was set back, this may be too large to be exact, but it is never too small.
local debt = whole * per + x
local room = capacity
client = shares and shares[sub(head, 1, 7) .. string.char(key)]
if client and operation > PEEK then
  --> share.change
elseif client and client.room then
  room = client.room              -- pass 1 has judged it
elseif client and cost > 0 and cost <= capacity then
  --> share.judge
end
if operation <= PEEK and cost > 0 then
  if debt + cost > room then
    fits = 0
  else
    if times > 1 then fits = math.min(times, math.floor((capacity - debt) / cost)) end
    debt = debt + (fits < most and fits or most) * cost
    x = debt % per
    ends = (ticks + (debt - x) / per + (x > 0 and 1 or 0)) * tick
  end
elseif operation == CHARGE and cost > 0 and debt < utmost then
  added = math.min(utmost - debt, cost)
  debt = debt + added
  x = debt % per
  whole = (debt - x) / per
  ends = (ticks + whole + (x > 0 and 1 or 0)) * tick
  a, b = whole, x
elseif operation == REFUND and expires > 0 then
  local floor = math.floor
  local back = math.min(cost, full)
  local passed = math.max(ticks - floor(charged / tick), 0)
  if passed <= floor(back / per) then
    back = back - passed * per
    whole, x = whole - floor(back / per), x - back % per
    if x < 0 then whole, x = whole - 1, x + per end
    if whole < 0 then whole, x = 0, 0 end
    ends = 0
    if whole > 0 or x > 0 then ends = (ticks + whole + (x > 0 and 1 or 0)) * tick end
  end
  a, b = whole, x
end
answer = pack(answer and '<c0BI7I7' or '<I7BI7I7', answer or now, fits, a, b)
