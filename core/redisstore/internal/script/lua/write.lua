-- Writes the values that have changed. From here on only Redis can fail.
--
-- Reads:  value and last, or values and expiries; now, own

--# write
-- Write what has changed. From here on only Redis can fail, by refusing a write.
for k = 1, #KEYS do
  if values then value, last = values[k], expiries[k] end
  if last == 0 then
    redis.call('DEL', KEYS[k])
  elseif last then
    -- In milliseconds, rounded up, of a clock that may have been read a moment earlier.
    local ttl = (last - now) / 1000 + 3
    if not own then ttl = ttl + 3600000 end -- a test's clock may stand still for an hour
    redis.call('PSETEX', KEYS[k], string.format('%d', ttl), value)
  end
end
