-- Stores values, and returns those that were there before.
--
-- KEYS    where
-- ARGV    1: how long they are kept, in ms; then a value for each key
-- RETURN  what was there before, '' where there was nothing
local before = {}
for i, key in ipairs(KEYS) do
  before[i] = redis.call('GET', key) or ''
  redis.call('PSETEX', key, ARGV[1], ARGV[i + 1])
end
return before
