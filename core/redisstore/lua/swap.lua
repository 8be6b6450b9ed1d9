-- Stores values, and returns those that were there before.
--
-- KEYS    where
-- ARGV    1: how long they are kept, in ms, 2: how many bytes of each are returned; then a value for each key
-- RETURN  what was there before, '' where there was nothing
--
-- Anybody who can write to Redis may have written them: no more is sent than is asked for.
local before = {}
for i, key in ipairs(KEYS) do
  local value = redis.pcall('GET', key)
  before[i] = type(value) == 'string' and string.sub(value, 1, tonumber(ARGV[2])) or ''
  redis.call('PSETEX', key, ARGV[1], ARGV[i + 2])
end
return before
