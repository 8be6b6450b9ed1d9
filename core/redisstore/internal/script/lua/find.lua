-- Finds the record of a check's limit in the key's value.
--
-- find    reads:  value, at (where the record should begin), head, algorithm, now
--         sets:   at, state (where its state begins; nil if there is no record), barred, and what pass sets;
--                 value, if the record had to be converted
-- pass    passes over the records of limits before this one, and keeps them unless they have expired
--         reads:  value, at, limit, algorithm, now; and what manual.pass reads
--         sets:   at; built, held, last; what manual.pass sets; of the record at at, unless its limit is a later one:
--                 other (its limit), kind (its algorithm), sizes, width, form (where its unit
--                 begins), expiry, used (where its state begins), stop (where the next record begins)

--# find
local state = at + #head
barred = nil
if sub(value, at, state - 1) ~= head then
  local limit = unpack('<I7', head)
  --> find.pass
  state = nil
  if other == limit and sub(value, at, at + #head - 1) == head then
    state = at + #head
  elseif algorithm == MANUAL then
    -- There is none. What stands here, if anything does, is the limit's own record.
  elseif other == limit and expiry > now then
    -- The limit's numbers have changed: keep what was used under the old ones.
    --> convert
  elseif other == limit then
    at = stop
  end
end

--# pass
local other, kind, sizes, width, form, expiry, used, stop
while at <= #value do
  other, kind, sizes = unpack('<I7BB', value, at)
  if other > limit then break end
  kind, width, form = (kind - kind % 16) / 16, sizes % 16, at + 9
  stop = form + (sizes - width) / 16
  if kind == TOKENBUCKET then stop = stop + width end
  expiry, used = unpack('<I7', value, stop)
  if kind == SLIDINGLOG or kind == CONCURRENCY then
    stop = used + 4 + ENTRY * unpack('<I2', value, used + 2)
  elseif kind == SLIDINGWINDOW then
    stop = used + 2 * width
  elseif kind == LEDGER and width == 7 then
    stop = used + 3 * width
  elseif kind == PENALTY then
    stop = used + 20
  else                            -- TOKENBUCKET, FIXEDWINDOW, CALENDAR, MARK, LEDGER, MANUAL
    stop = used + width
  end
  if stop > #value + 1 then error('a record is too short') end
  local manual = other == limit and kind == MANUAL and algorithm ~= MANUAL
  if other == limit and not manual then break end
  --> manual.pass
  if kind == LEDGER then expiry = expiry + AFTERLIFE end
  if expiry > now then
    built = built .. sub(value, at, stop - 1)
    if other ~= NOTICE then
      if expiry > held then held = expiry end
      if expiry > last then last = expiry end
    end
  end
  at = stop
  if manual then other = nil end  -- it is not the limit's record, if no other one follows
end
