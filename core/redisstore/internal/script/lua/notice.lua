-- Notices: missed says that an enforced check of the key denies; in a group with penalties, that the
-- key is blocked, since other denials are counted and not repeated. A process that repeats a denial without asking wants to be told when it may be over. Its
-- denied take leaves a notice in the value. What gives units back, shortens a block or converts a record
-- publishes the key if there is a notice, and removes it.
--
-- Reads:  ask, operation, missed, converted; value, and last as the decision has it: nil if nothing
--         is to be written, 0 if the key is to be deleted
-- Sets:   value and last; built and held serve find.pass

--# notice
local gives = last and (converted or operation == REFUND or operation == RESET)
local leaves = missed and operation == TAKE and byte(ask, -2) > 0
-- It lasts for two ages, so that denials to other processes need not write. These can have longer
-- ages; a notice of hours was written before the clock was set back. A key lives as long as its
-- other records, notice or not: no denial lasts longer.
local soonest, latest
if leaves then
  soonest = now + 2 ^ byte(ask, -2) * 1000
  latest = math.max(2 * soonest - now, now + 3600000000)
  if not last and sub(value, -16, -8) == '\254\255\255\255\255\255\31\112\0' then -- without looking at all records
    local expiry = unpack('<I7', value, #value - 6)
    leaves = expiry < soonest or expiry > latest
  end
end
if (gives or leaves) and #value > 1 then
  local write, fresh, limit, at = last, false, NOTICE, 2
  built, held, last = VERSION, 0, 0
  --> find.pass
  local found = other == limit and at <= #value
  local prefix = byte(ask, -1)
  local hold = sub(value, found and stop or at)
  found = found and expiry > now
  if gives and found and prefix > 0 then
    -- A user without the permission publishes nothing, and denials end with their age.
    redis.pcall('PUBLISH', sub(KEYS[k], 1, prefix) .. 'given-back', sub(KEYS[k], prefix + 1))
    found = false
  end
  local holds = hold ~= '' and unpack('<I7', hold, 13) or 0
  if holds > now then last = math.max(last, holds) else hold = '' end
  if leaves and last > now then
    fresh = not found or expiry < soonest or expiry > latest
    if fresh then found, expiry = true, 2 * soonest - now end
  end
  if write or fresh then
    if found then built = pack('<c0c0I7', built, '\254\255\255\255\255\255\31\112\0', expiry) end
    value = built .. hold
  else
    last = nil
  end
  if fresh and not write and not (values and expiries[k]) then
    -- At once: if Redis refuses to write, the denial is to hold all the same.
    --> write.ttl
    redis.pcall('PSETEX', KEYS[k], string.format('%d', ttl), value)
    if values then values[k] = value end
    last = nil
  end
end
