-- Returns the value that the first caller has proposed, and keeps it for a while longer.
--
-- KEYS    1: the value
-- ARGV    1: the caller's proposal, 2: how long it is kept, in ms
-- RETURN  the value
local value = redis.call('GET', KEYS[1]) or ARGV[1]
redis.call('PSETEX', KEYS[1], ARGV[2], value)
return value
