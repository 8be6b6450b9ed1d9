-- Marks of operations that are charged once: core/store/mark.go.
--
-- format  sets:   reads, writes
-- decide  reads:  expires, x, y; per, capacity, charged, operation, key
--         sets:   repeated, x, y, ends

--# format
reads, writes = '<I7I7I2', '<c0c0I7I7I2'

--# decide
-- A take leaves the mark, or counts a repeat. grant.check undoes that if the check is denied or
-- costs nothing.
repeated = repeated or {}
repeated[key] = operation <= PEEK and expires > 0 and y < capacity
if operation == TAKE then
  if repeated[key] then
    y, ends = y + 1, expires
  else
    x, y, ends = now, 0, now + per
  end
elseif operation == REFUND and expires > 0 and x == charged then
  ends = 0
end
