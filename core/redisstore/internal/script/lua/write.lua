-- Writes the values that have changed.
--
-- write   reads:  value and last, or values and expiries; now, own
-- ttl     reads:  last, now, own
--         sets:   ttl: after how many milliseconds a key expires

--# write
-- From here on nothing fails, unless Redis refuses a write.
for k = 1, #KEYS do
  if values then value, last = values[k], expiries[k] end
  if last == 0 then
    redis.call('DEL', KEYS[k])
  elseif last then
    --> write.ttl
    redis.call('PSETEX', KEYS[k], string.format('%d', ttl), value)
  end
end

--# ttl
-- Milliseconds, rounded up, with some more because the clock was read a moment earlier.
local ttl = (last - now) / 1000 + 3
if not own then ttl = ttl + 3600000 end -- a test's clock may stand still for an hour
