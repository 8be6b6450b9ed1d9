-- Writes a record that was made under other numbers of its limit anew, under those of now.
--
-- Reads:  value, at, stop, form, kind, sizes, width, used, expires (of the record as it is);
--         algorithm, tick, per, full, offset, head, writes (as it shall be); now
-- Sets:   value, state; converted, if what was used had to be recomputed; at, if the record
--         has expired
--
-- The old algorithm's "used" section says how many units are used. The new one's "open"
-- section opens a bucket in which that many are used.

--# convert
local record = ''
if expires > now then
  local floor, min, max = math.floor, math.min, math.max
  local BIG = 2251799813685248 -- no scaled number is above 2^51
  local oldTick = ({[0] = 1, 1000, 1000000})[unpack('B', value, at + 4) % 16]
  local oldUnit, f = unpack('<I' .. floor(sizes / 16), value, form)
  local oldRate = 1
  if kind == TOKENBUCKET and width > 0 then oldRate = unpack('<I' .. width, value, f) end
  local ticks = tick == 1 and now or floor(now / tick)
  local units, rest, parts = 0, 0, 1 -- whole units used, and rest of parts of one
  local x, y, entries = 0, 0, ''
  converted = true
  if kind == TOKENBUCKET then
    --> tokenbucket.used
  elseif kind == FIXEDWINDOW or kind == CALENDAR then
    --> fixedwindow.used
  elseif kind == SLIDINGWINDOW then
    --> slidingwindow.used
  else
    --> slidinglog.used
  end
  local ends = 0
  local same = oldTick == tick and oldUnit == per
  if kind == CALENDAR then same = sub(value, form, f - 1) == sub(head, 7) end
  if kind == algorithm and kind ~= TOKENBUCKET and same then
    -- Only the width of the counts has changed. What is too much for
    -- the new one is too much for the quota, too.
    converted, ends = false, expires
    if kind == FIXEDWINDOW or kind == CALENDAR then x = units end
    if full < 2147483648 then x, y = min(x, 4294967295), min(y, 4294967295) end
  elseif algorithm == TOKENBUCKET then
    --> tokenbucket.open
  elseif algorithm == CALENDAR then
    --> calendar.open
  elseif algorithm == FIXEDWINDOW or algorithm == SLIDINGWINDOW then
    --> fixedwindow.open
  elseif kind == SLIDINGLOG or kind == CONCURRENCY then
    --> slidinglog.open
  else
    --> slidinglog.begin
  end
  if ends > 0 then
    record = pack(writes, '', head, ends, x, y, entries)
    state = at + #head
  end
  value = sub(value, 1, at - 1) .. record .. sub(value, stop)
else
  at = stop
end
