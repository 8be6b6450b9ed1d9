-- Reads the record that was found.
--
-- Reads:  value, at, state, algorithm, per, reads, farthest, now; and what bringback reads
-- Sets:   from (where the record begins), at (where the next one begins), held; expires and the
--         state: x, y, entries. They are 0 or empty if there is no record, or if it has expired;
--         spare: for how much longer than that a record which stays as it is must be kept;
--         begun: whether it is that of a ledger's period before, and the state that of the present one
--
--                         x                        y                    entries, others
--         block by hand   since when               -                    -
--         token bucket    part of the last tick    -                    -
--         windows         units of this window     units of the last    -
--         logs            units                    entries              the entries
--         penalty         denials count until      block ends           strikes, level
--         mark            when it was charged      repeats              -
--         ledger          units of this window     position             history

--# read
local from, expires, x, y, entries = at, 0, 0, 0, ''
local spare, begun = 0
local strikes, level = 0, 0
if state then
  if algorithm == TOKENBUCKET and per == 1 then
    expires, at = unpack('<I7', value, state)
  elseif algorithm == SLIDINGWINDOW or algorithm == MARK then
    expires, x, y, at = unpack(reads, value, state)
  elseif algorithm == LEDGER then
    expires, x, y, entries, at = unpack(reads, value, state)
  elseif algorithm == SLIDINGLOG or algorithm == CONCURRENCY then
    expires, x, y, at = unpack('<I7I2I2', value, state)
    entries = sub(value, at, at + ENTRY * y - 1)
    at = at + ENTRY * y
  elseif algorithm == PENALTY then
    expires, x, y, strikes, level, at = unpack('<I7I7I7I4I2', value, state)
  else                            -- TOKENBUCKET, FIXEDWINDOW, CALENDAR, MANUAL
    expires, x, at = unpack(reads, value, state)
  end
  if expires > now then
    if expires > farthest then
      --> bringback
    end
    if algorithm == LEDGER and expires > 0 then spare = AFTERLIFE end
    if expires + spare > held then held = expires + spare end
  else
    --> ledger.next
    if not begun then expires, x, y, entries, strikes, level = 0, 0, 0, '', 0, 0 end
  end
end
