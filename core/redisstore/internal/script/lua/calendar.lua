-- Calendar windows: core/store/counting/calendar.go. They count like fixed windows and end with the
-- period; their other sections are those of the fixed window.
--
-- farthest  reads:  tick, per, offset, now
--         sets:   farthest
-- next    reads:  tick, per, offset, now
--         sets:   over, when the window ends that now is in
-- open    reads:  units, rest, full, tick, per, offset, now
--         sets:   x, ends
-- decide  reads:  expires, x; tick, per, capacity, utmost, cost, offset, charged, operation, times, most, now
--         sets:   fits, x, ends, added, answer

--# farthest
-- The window after the present one: the clock may have been set back over its beginning. A client
-- whose own present is another does not name it.
farthest = now < tick and math.min(per, now + 4 * (per - tick)) or now < per and offset or now + 2 * (offset - per)

--# next
-- The client says when windows begin and end; which one is current is decided by the clock
-- here. A client that is late by more than a window, or early by more than two, only tells how
-- long one is.
over = now < tick and math.min(tick, now + 2 * (per - tick)) or now < per and per
  or now < offset and offset or now + (offset - per)

--# open
x = min(units + (rest > 0 and 1 or 0), full)
local over
--> calendar.next
if x > 0 then ends = over end

--# decide
local over = expires
if over == 0 then
  --> calendar.next
end
local current = operation == REFUND and charged == over
--> fixedwindow.count
