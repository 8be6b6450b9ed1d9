-- The fixed window, core/store/counting/fixedwindow.go, and what calendar windows share with it.
--
-- format  reads:  head, per, now
--         sets:   reads, writes, farthest
-- used    reads:  value, used, width
--         sets:   units
-- next    reads:  per, offset, now
--         sets:   over, when the window ends that now is in or begins
-- open    reads:  units, rest, full, per, offset, now
--         sets:   x, ends
-- decide  reads:  expires, x; per, capacity, utmost, cost, offset, charged, operation, times, most, now
--         sets:   fits, x, ends, answer
-- count   charges or refunds units of a window
--         reads:  over (when the window ends), current (whether a refund is of this window),
--                 expires, x; capacity, utmost, cost, operation, times, most, now
--         sets:   fits, x, ends, added, answer

--# format
if byte(head, 9) % 16 == 4 then
  reads, writes = '<I7I4', '<c0c0I7I4'
else
  reads, writes = '<I7I7', '<c0c0I7I7'
end
farthest = now + per

--# used
units = unpack('<I' .. width, value, used)

--# next
over = now + per                  -- of one that begins with first use, which has a negative offset
if offset >= 0 then over = over - (now - offset) % per end

--# open
x = min(units + (rest > 0 and 1 or 0), full)
local over
--> fixedwindow.next
if x > 0 then ends = over end

--# decide
local over = expires
if over == 0 then
  --> fixedwindow.next
end
local current = operation == REFUND and charged >= over - per
--> fixedwindow.count

--# count
a = x
if operation <= PEEK and cost > 0 then
  if x + cost > capacity then
    fits = 0
  else
    if times > 1 then fits = math.min(times, math.floor((capacity - x) / cost)) end
    x, ends = x + (fits < most and fits or most) * cost, over
  end
elseif operation == CHARGE and cost > 0 and x < utmost then
  added = math.min(utmost - x, cost)
  x, ends = x + added, over
  a = x
elseif current and expires > 0 then
  x = x - math.min(x, cost)
  a, ends = x, x > 0 and over or 0
end
answer = pack(answer and '<c0BI7I7' or '<I7BI7I7', answer or now, fits, a, over - now)
