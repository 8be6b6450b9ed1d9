-- Penalties: core/store/penalty.go.
--
-- format  reads:  ask, askAt
--         sets:   guarded, askAt, writes
-- decide  reads:  x, y, strikes, level; tick, per, capacity, cost, offset, operation, pass, key,
--                 guarded, blocks, exceeded
--         sets:   fits, entries, ends, answer; blocks, if the guarded limit is blocked

--# format
writes = '<c0c0I7I7I7c0'
guarded, askAt = unpack('<I4', ask, askAt)

--# decide
local after, within, lasts, factor, longest = tick, per, capacity, cost, offset
local limit = key * 4294967296 + guarded
if x <= now then x, strikes = 0, 0 end
if y + longest <= now then level = 0 end
if level == 0 and y <= now then y = 0 end
if operation == CHARGE then
  x, y, strikes, ends = 0, now + lasts, 0, 0 -- ends is computed below
elseif operation <= PEEK and y > now then
  fits, blocks[limit] = 0, true
elseif operation == TAKE and pass == 2 and exceeded[limit] and not exceeded.unknown then
  if strikes == 0 then x = now + within end
  strikes, ends = strikes + 1, 0
  if strikes >= after then
    for _ = 1, factor > 1 and level or 0 do
      if lasts >= longest then break end
      lasts = math.min(lasts * factor, longest)
    end
    x, y, strikes, level, fits = 0, now + lasts, 0, math.min(level + 1, 65535), 0
  end
end
if ends then
  ends = math.max(x, level > 0 and y + longest or y)
  entries = pack('<I4I2', strikes, level)
end
answer = pack(answer and '<c0BI7' or '<I7BI7', answer or now, fits, y > now and y - now or 0)
