-- Calendar windows: core/store/calendar.go. They count as fixed windows do and only end otherwise.
--
-- open    reads:  units, rest, full, tick, per, offset, now
--         sets:   x, ends
-- next    reads:  tick, per, offset, now
--         sets:   over

--# open
x = min(units + (rest > 0 and 1 or 0), full)
if x > 0 then
  ends = now < tick and tick or now < per and per or now < offset and offset or now + offset - per
end

--# next
-- The client says where the windows' edges are, this clock which is next. Of a
-- client that is late by more than a window only a length is to be had.
over = now < tick and tick or now < per and per or now < offset and offset or now + offset - per
