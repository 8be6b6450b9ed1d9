-- Brings back a record that expires later than it can: the clock was set back since it was written.
-- It then counts no longer than one that is written now, as bringBack of the algorithm in
-- core/store has it. Penalties and marks do so by themselves.
--
-- Reads:  value, at, from, expires, x, y, entries; algorithm, tick, per, full, offset, head, writes, now
-- Sets:   value, at, expires, x, y, entries; converted, so that it is written even if nothing is charged

--# bringback
if algorithm == TOKENBUCKET then
  x = full % per
  expires = (math.floor(now / tick) + (full - x) / per + (x > 0 and 1 or 0)) * tick
elseif algorithm == SLIDINGWINDOW then
  expires = (math.floor(now / tick) + 2 * per) * tick
elseif algorithm == CALENDAR then
  local over
  --> calendar.next
  expires = over
elseif algorithm == LEDGER then
  expires, x, y = 0, 0, 0
elseif algorithm == SLIDINGLOG or algorithm == CONCURRENCY then
  --> slidinglog.bringback
else                              -- FIXEDWINDOW
  expires = now + per
end
local record = expires > 0 and pack(writes, '', head, expires, x, y, entries) or ''
value = sub(value, 1, from - 1) .. record .. sub(value, at)
at, converted = from + #record, true
