-- Reads the state of the record that was found.
--
-- Reads:  value, at, state, algorithm, per, reads, now
-- Sets:   from and at (where the record begins and ends), expires, x, y, entries; of a penalty
--         strikes and level; held. All are 0 or empty without a record, or if it has expired

--# read
-- The bucket: see core/bucket.go. An expired one is as good as none.
local from, expires, x, y, entries = at, 0, 0, 0, ''
local strikes, level = 0, 0 -- of a penalty, whose strikes end at x and whose block ends at y
if state then
  if algorithm == TOKENBUCKET and per == 1 then
    expires, at = unpack('<I7', value, state)
  elseif algorithm == SLIDINGWINDOW or algorithm == MARK then
    expires, x, y, at = unpack(reads, value, state)
  elseif algorithm == SLIDINGLOG or algorithm == CONCURRENCY then
    expires, x, y, at = unpack('<I7I2I2', value, state)
    entries = sub(value, at, at + 9 * y - 1)
    at = at + 9 * y
  elseif algorithm == PENALTY then
    expires, x, y, strikes, level, at = unpack('<I7I7I7I4I2', value, state)
  else
    expires, x, at = unpack(reads, value, state)
  end
  if expires > now then
    if expires > held then held = expires end
  else
    expires, x, y, entries, strikes, level = 0, 0, 0, '', 0, 0
  end
end
