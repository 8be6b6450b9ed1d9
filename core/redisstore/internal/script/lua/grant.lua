-- Applies a decision.
--
-- check   after the algorithm's piece has decided a check
--         reads:  fits, ends, x, y, entries, expires, spare, from, at, state, writes; value, answered; free, bar, cost,
--                 foreign, foreignEnds, spared, sparedFor, added,
--                 mark, shadow, operation, penalties, pass; and what choice.check reads
--         sets:   grant, answer, exceeded; built, last, dirty, missed
-- group   after all checks of a group: decides what its keys hold
--         reads:  failure, grant; of each key value, held, built, last, dirty, converted, missed
--         sets:   answer, if the group failed; value and last, or values and expiries; last is nil
--                 if nothing is to be written, and 0 if the key is to be deleted

--# check
if spared then
  --> convert.spared
end
if client and algorithm == TOKENBUCKET then
  --> share.answer
end
if operation == CHARGE and algorithm ~= PENALTY and algorithm ~= MANUAL then
  answer = answer .. pack('<I7', not spared and added or 0)
end
-- Denied while a charge may still be given back: that may be over in a moment.
local tentative
if bar then
  --> manual.deny
elseif fits < times then
  missed = missed or not (shadow or penalties) and algorithm ~= CONCURRENCY and head ~= HOLD
  tentative = #value > 27 and byte(value, -27) == 255
    and operation <= PEEK and algorithm ~= PENALTY and (algorithm ~= LEDGER or y > 0)
    and sub(value, -27, -16) == HOLD
  if tentative then
    local expiry = unpack('<I7', value, #value - 14)
    tentative = expiry > now and expiry <= now + 2000000 -- not if the clock was set back since
  end
  if tentative then answer = sub(answer, 1, answered) .. string.char(fits + 128) .. sub(answer, answered + 2) end
end

if penalties and algorithm ~= PENALTY then
  local limit = sub(head, 1, 7) .. key
  if fits == 0 and not (tentative or bar) then exceeded[limit] = true end
  if pass == 2 and blocks[limit] then
    -- A blocked check has no room, but a repeated operation keeps its answer.
    if fits ~= 2 and not bar then answer = sub(answer, 1, answered) .. '\0' .. sub(answer, answered + 2) end
    fits = 0
  end
  -- A denied group charges nothing, but it may have a denial to count.
  if grant == 0 or fits == 0 then ends = nil end
end
if choice then
  --> choice.check
elseif fits < grant and not shadow then
  grant = fits
end
if mark and operation == TAKE and (fits == 0 or free) then
  pending[mark][6] = false        -- not dirty: the mark stays as it is
end
if operation == RESET and state then ends = 0 end
if operation == REFUND and state and expires == 0 and head == HOLD then ends = 0 end -- else it counts if the clock is set back
if foreign then ends, dirty = nil, true end

if client then client.charged = fits > 0 and fits ~= 2 and not bar end

-- The record as it will be if the group is granted.
if pass == 2 and (grant > 0 or penalties) then
  if foreign then
    built = built .. foreign
    if foreign ~= '' and foreignEnds > last then last = foreignEnds end
  elseif not ends then
    if expires > 0 then
      built = built .. sub(value, from, at - 1)
      if expires + spare > last then last = expires + spare end
    end
  else
    dirty = true
    if ends > 0 then
      built = pack(writes, built, head, ends, x, y, entries)
      if algorithm == LEDGER then ends = ends + AFTERLIFE end
      if ends > last then last = ends end
    end
  end
end

--# group
if failure then
  orderAt = start + 2 * keys
  answer = (answers and '' or pack('<I7', now)) .. pack('<BI2c0', 255, #failure, failure)
else
  for key = 1, keys do
    if keys > 1 then k, value, held, built, last, dirty, converted, missed = spread(pending[key], 1, 8) end
    if operation == TAKE and dirty and grant > 0 and not (missed or converted) then
      value = built               -- nearly always
    else
      if operation == PEEK then
        last = nil
      elseif dirty and (grant > 0 or penalties) then
        value = built
      elseif converted then
        -- The old numbers must go even if the request is denied: see Bucket.Open in core/store/counting/bucket.go.
        last = held
      else
        last = nil
      end
      --> notice
    end
    if last and values then values[k], expiries[k] = last > 0 and value or '', last end
  end
end
