-- Counts a check in a fixed window: about the least that a limiter asks of Redis.
-- KEYS[1] the counter
-- ARGV[1] the window, in ms
-- RETURN  the checks in the window so far, this one included
local count = redis.call('INCR', KEYS[1])
if count == 1 then
	redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return count
