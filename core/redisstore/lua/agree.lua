-- Returns the value that the first caller has proposed, and keeps it for a while longer. A value that is no
-- proposal, which somebody else has written, is replaced.
--
-- KEYS    1: the value
-- ARGV    1: the caller's proposal, 2: how long it is kept, in ms
-- RETURN  the value
local value = redis.pcall('GET', KEYS[1])
if type(value) ~= 'string' or #value ~= #ARGV[1] then
  value = ARGV[1]
end
redis.call('PSETEX', KEYS[1], ARGV[2], value)
return value
