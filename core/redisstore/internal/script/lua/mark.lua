-- Marks of operations that are charged once: core/store/counting/mark.go.
--
-- format  sets:   reads, writes, farthest
-- decide  reads:  expires, x, y; now, per, capacity, charged, operation, key
--         sets:   repeated, expires, x, y, ends

--# format
reads, writes = '<I7I7I2', '<c0c0I7I7I2'
farthest = 9007199254740992       -- 2^53: see decide

--# decide
-- A take leaves the mark, or counts a repeat. grant.check undoes that if the check is denied or
-- costs nothing.
if x > now then expires = math.min(expires, now + per) end -- the clock was set back since
repeated = repeated or {}
repeated[key] = operation <= PEEK and expires > 0 and y < capacity and expires
if operation == TAKE then
  if repeated[key] then
    y, ends = y + 1, expires
  else
    x, y, ends = now, 0, now + per
  end
elseif operation == REFUND and expires > 0 and x == charged then
  ends = 0
end
