-- The sliding window: core/store/counting/slidingwindow.go.
--
-- format  reads:  head, tick, per, now
--         sets:   reads, writes, farthest
-- used    reads:  value, used, width, expiry, oldTick, oldUnit, now
--         sets:   x, y, units, rest, parts
-- open    reads:  units, rest, full, per, tick, ticks, offset
--         sets:   x, y, ends
-- decide  reads:  expires, x, y; tick, per, capacity, utmost, cost, offset, charged, operation,
--                 times, most
--         sets:   fits, x, y, ends, added, answer

--# format
if byte(head, 9) % 16 == 4 then
  reads, writes = '<I7I4I4', '<c0c0I7I4I4'
else
  reads, writes = '<I7I7I7', '<c0c0I7I7I7'
end
farthest = now + 2 * per * tick

--# used
local current, previous = unpack('<I' .. width .. 'I' .. width, value, used)
x, y = current, previous
local begins, past = expiry / oldTick - 2 * oldUnit, floor(now / oldTick)
if past >= begins + oldUnit then
  begins, current, previous = begins + oldUnit, 0, current
end
local weighted = previous * (oldUnit - max(past - begins, 0))
units, rest, parts = current + floor(weighted / oldUnit), weighted % oldUnit, oldUnit

--# open
x, y = min(units + (rest > 0 and 1 or 0), full), 0
if x > 0 then ends = (ticks - (ticks - offset / tick) % per + 2 * per) * tick end

--# decide
local ticks = tick == 1 and now or (now - now % tick) / tick
local over = expires
if over > 0 and ticks >= over / tick - per then
  x, y = 0, x
  over = y > 0 and over + per * tick or 0
end
if over == 0 then
  over = (ticks - (ticks - offset / tick) % per + 2 * per) * tick
end
local begins = over / tick - 2 * per
local elapsed = ticks > begins and ticks - begins or 0
a, b = x, y
if operation <= PEEK and cost > 0 then
  -- The weighted count of the last window, rounded up, is taken from the quota.
  local weighted = y * (per - elapsed)
  local room = capacity - x - math.ceil(weighted / per)
  fits = math.max(math.min(times, math.floor(room / cost)), 0)
  if fits > 0 then x, ends = x + (fits < most and fits or most) * cost, over end
elseif operation == CHARGE and cost > 0 and x < utmost then
  added = math.min(utmost - x, cost)
  x, ends = x + added, over
elseif operation == REFUND and expires > 0 then
  local when = math.floor(charged / tick)
  if head == HOLD and (x == 0 or y == 0) then -- the window in which it is now, even if the clock was set back
    when = x > 0 and begins or begins - 1
  end
  if when >= begins then
    x = x - math.min(x, cost)
  elseif when >= begins - per then
    y = y - math.min(y, cost)
  end
  ends = (x > 0 or y > 0) and over or 0
end
if operation > PEEK then a, b = x, y end
answer = pack(answer and '<c0BI7I7I7' or '<I7BI7I7I7', answer or now, fits, a, b, elapsed)
