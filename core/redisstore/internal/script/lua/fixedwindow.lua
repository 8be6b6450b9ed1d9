-- The fixed window, and what calendar windows share with it: core/store/fixedwindow.go.
--
-- format  reads:  full
--         sets:   reads, writes
-- used    reads:  value, used, width
--         sets:   units
-- open    reads:  algorithm, full, per, tick, ticks, offset, units, rest, now; for the sliding
--                 window, too
--         sets:   x, y, ends
-- decide  reads:  expires, x; algorithm, tick, per, capacity, full, cost, offset, charged,
--                 operation, times, most
--         sets:   fits, x, ends, answer

--# format
if full < 2147483648 then
  reads, writes = '<I7I4', '<c0c0I7I4'
else
  reads, writes = '<I7I7', '<c0c0I7I7'
end

--# used
units = unpack('<I' .. width, value, used)

--# open
x, y = min(units + (rest > 0 and 1 or 0), full), 0
if x > 0 then
  ends = algorithm == FIXEDWINDOW and now - (now - offset) % per + per
    or (ticks - (ticks - offset / tick) % per + 2 * per) * tick
end

--# decide
local over = expires
if over == 0 then
  if algorithm == FIXEDWINDOW then
    over = now - (now - offset) % per + per
  else
    --> calendar.next
  end
end
a = x
if operation <= PEEK then
  if cost > 0 then
    if x + cost > capacity then
      fits = 0
    else
      if times > 1 then fits = math.min(times, math.floor((capacity - x) / cost)) end
      x, ends = x + (fits < most and fits or most) * cost, over
    end
  end
elseif operation == CHARGE then
  if cost > 0 and x < 2 * full then
    x, ends = math.min(2 * full, x + cost), over
    a = x
  end
elseif operation == REFUND and expires > 0 and (algorithm == CALENDAR and charged == over or algorithm == FIXEDWINDOW and charged >= over - per) then
  x = x - math.min(x, cost)
  a, ends = x, x > 0 and over or 0
end
answer = pack(answer and '<c0BI7I7' or '<I7BI7I7', answer or now, fits, a, over - now)
