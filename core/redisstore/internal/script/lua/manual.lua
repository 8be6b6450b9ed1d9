-- Blocks by hand under limits that have no penalty: store.ManualBlock. Such a block is a record of the limit that it
-- bars, before the limit's own record. So a key without one is found as before, by its first bytes, and
-- nobody pays for what hardly ever is there. An operator sets and lifts it by a check of its own, in a
-- charge and in a reset.
--
-- format  sets:   reads, writes, farthest
-- decide  reads:  expires; now, per, operation, fits; ask, k
--         sets:   x, ends, answer; converted, if the block ends earlier than it did: see notice
-- pass    passes over the block while another check of the limit is looked for
--         reads:  manual, value, at, used, stop, expiry, now, operation, cost
--         sets:   barred; expiry and dirty in a reset, which forgets the block; value and converted, if the
--                 clock was set back
-- deny    denies a check of a key that is blocked, after it was decided as if it was not
--         reads:  bar, answer, answered, answers, cost, shadow, now
--         sets:   bars, answer, fits, ends, missed
-- answer  reads:  bars, answers
--         sets:   answer

--# format
reads, writes = '<I7I7', '<c0c0I7I7'
farthest = 9007199254740992       -- 2^53: see pass

--# decide
if operation == CHARGE and (per > 0 or expires > 0) then
  converted = converted or expires > now + per
  x, ends = now, per > 0 and now + per or 0
  local prefix = byte(ask, -1)
  if per > 0 and prefix > 0 then
    -- Processes may hold units that they took ahead. A user without the permission publishes nothing, and
    -- what is held ends with its age.
    redis.pcall('PUBLISH', sub(KEYS[k], 1, prefix) .. 'given-back', 'blocked' .. sub(KEYS[k], prefix + 1))
  end
end
answer = pack(answer and '<c0BI7' or '<I7BI7', answer or now, fits, 0)

--# pass
local since = manual and operation ~= RESET and expiry > now and unpack('<I7', value, used)
if manual and operation == RESET then dirty, expiry = true, 0 end
if since then barred = since > now and now + (expiry - since) or expiry end -- no longer than if it was set now
if since and since > now and operation == TAKE and cost > 0 then
  value = sub(value, 1, used - 8) .. pack('<I7I7', barred, now) .. sub(value, stop)
  expiry, converted = barred, true
end

--# deny
bars = (bars or '') .. pack('<I2I7', answered - (answers and 0 or 7), bar - now)
-- It has no room, but a repeat that would be free keeps its answer.
if cost > 0 then answer = sub(answer, 1, answered) .. '\0' .. sub(answer, answered + 2) end
fits, ends, missed = 0, nil, missed or not shadow

--# answer
local before = answers and 0 or 7
answer = sub(answer, 1, before) .. string.char(127, #bars / 9) .. bars .. sub(answer, before + 1)
