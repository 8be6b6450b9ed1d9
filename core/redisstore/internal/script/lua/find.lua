-- Finds the record of the check's limit in the key's value.
--
-- Reads:  value, at (where the record is expected), head, i, checks, now
-- Sets:   at (where the record begins), state (where its state begins, nil without a record);
--         built, held and last for records that were passed over, which are kept;
--         value, where a record had to be converted

--# find
-- Find the limit's record: state is where its state begins, if there is one.
local state = at + #head
if i > checks or sub(value, at, state - 1) ~= head then
  state = nil
  -- Pass over the records of other limits that come before, or are left.
  local limit = i <= checks and unpack('<I4', head) or 4294967296
  while at <= #value do
    local other, kind, sizes = unpack('<I4BB', value, at)
    if other > limit then break end
    local width = sizes % 16
    local form = at + 6
    local stop = form + (sizes - width) / 16
    kind = (kind - kind % 16) / 16
    if kind == TOKENBUCKET then stop = stop + width end
    local expires
    expires, stop = unpack('<I7', value, stop)
    local used = stop
    if kind == SLIDINGLOG or kind == CONCURRENCY then
      stop = stop + 4 + ENTRY * unpack('<I2', value, stop + 2)
    elseif kind == PENALTY then
      stop = stop + 20
    else
      stop = stop + (kind == SLIDINGWINDOW and 2 or 1) * width
    end
    if stop > #value + 1 then error('a record is too short') end
    if other == limit and sub(value, at, at + #head - 1) == head then
      state = at + #head
      break
    elseif other < limit then
      if expires > now then
        built = built .. sub(value, at, stop - 1)
        if expires > held then held = expires end
        if expires > last then last = expires end
      end
      at = stop
    else
      -- The limit's numbers have changed since: keep what was used under the old ones.
      --> convert
      break
    end
  end
  if i > checks then break end
end
