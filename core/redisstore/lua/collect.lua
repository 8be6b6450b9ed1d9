-- Returns values that are no longer than they may be: others, which no instance has published, don't leave the
-- server.
--
-- KEYS    1 …: the keys
-- ARGV    1: how many bytes each may have
-- RETURN  the values in the order of the keys, nil for each that is missing, too long or no string
local values = {}
for i = 1, #KEYS do
  local value = redis.pcall('GET', KEYS[i])
  values[i] = type(value) == 'string' and #value <= tonumber(ARGV[1]) and value
end
return values
