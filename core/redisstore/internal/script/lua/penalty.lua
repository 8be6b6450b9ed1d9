-- Penalties: core/store/counting/penalty.go.
--
-- format  reads:  ask, askAt
--         sets:   guarded, askAt, writes, farthest
-- decide  reads:  x, y, strikes, level, expires; tick, per, capacity, cost, offset, operation, pass,
--                 key, guarded, blocks, exceeded, grant
--         sets:   fits, x, y, entries, ends, answer; blocks and missed, if the guarded limit is blocked;
--                 converted, if a block ends earlier than it did: see notice
--
-- A process that takes units ahead asks with a penalty that no denial begins, 0, and says for how long
-- it may hold them. The record of a key without denials and blocks then says until when processes do,
-- in the place of x, and when the last one took some, in that of y. Until then a denial may be due to
-- what they hold, so it does not count, and from the first such denial on nothing is taken ahead while
-- denials count: the record stays for that long.

--# format
writes = '<c0c0I7I7I7c0'
guarded, askAt = sub(ask, askAt, askAt + 6), askAt + 7
farthest = 9007199254740992       -- 2^53: see decide

--# decide
local after, within, lasts, factor, longest = tick, per, capacity, cost, offset
local limit = guarded .. key
local leased, kept = 0, 0         -- until when units are held; until when none are taken ahead
if strikes == 0 and level == 0 and x > y then
  if y > now then
    ends = 0                      -- the clock was set back
  else
    leased, kept = x, expires
  end
end
local taken = y
if leased > 0 or ends then x, y = 0, 0 end
-- What was written before the clock was set back counts no longer than if it was written now.
if x > now and strikes == 0 then  -- the block begins later than now
  x, y, ends = now, now + (y - x), 0
elseif strikes > 0 then
  if y > now then y, ends = now, 0 end -- a blocked key counts no denials, so the block was over
  if x > now + within then x, ends = now + within, 0 end
  if x <= now then x, strikes = 0, 0 end
end
if y + longest <= now then level = 0 end
if level == 0 and y <= now then y = 0 end
if operation == CHARGE then
  converted = converted or y > now + lasts -- a shorter block: see notice
  local prefix = byte(ask, -1)
  if leased > now and prefix > 0 then
    -- A user without the permission publishes nothing, and what is held ends with its age.
    redis.pcall('PUBLISH', sub(KEYS[k], 1, prefix) .. 'given-back', 'blocked' .. sub(KEYS[k], prefix + 1))
  end
  x, y, strikes, ends = now, now + lasts, 0, 0 -- ends is computed below
elseif operation <= PEEK and y > now then
  fits, blocks[limit] = 0, y
  missed = missed or not shadow
elseif operation == TAKE and after == 0 then
  if strikes > 0 or level > 0 or kept > leased then
    fits, blocks[limit] = 0, now
  elseif pass == 2 and grant > 0 and not exceeded[limit] then
    x, y, ends = math.max(leased, now + lasts), now, 0
  end
elseif operation == TAKE and pass == 2 and exceeded[limit] and leased > now and not exceeded.unknown then
  if kept == leased then
    x, y, ends, kept = leased, taken, 0, now + within
  end
elseif operation == TAKE and pass == 2 and exceeded[limit] and not exceeded.unknown then
  if strikes == 0 then x = now + within end
  strikes, ends = strikes + 1, 0
  if strikes >= after then
    for _ = 1, factor > 1 and level or 0 do
      if lasts >= longest then break end
      lasts = math.min(lasts * factor, longest)
    end
    x, y, strikes, level, fits = now, now + lasts, 0, math.min(level + 1, 65535), 0
    missed = missed or not shadow
  end
end
if ends then
  ends = math.max(x, kept, level > 0 and y + longest or y)
  entries = pack('<I4I2', strikes, level)
end
answer = pack(answer and '<c0BI7' or '<I7BI7', answer or now, fits, y > now and y - now or 0)
