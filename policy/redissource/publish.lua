-- Publishes a policy file, if the release that is there is the one that the publisher has seen.
--
-- KEYS    1 the hash that holds the file
-- ARGV    1 the number of that release, -1 for any
--         2 the file's name, 3 its text, 4 the SHA-256 of the text
--         5 what else is told of the release, as JSON, with an id that no other has
--         6 how many releases are kept, 7 how many bytes of text
-- RETURN  {1, number, seconds, microseconds}, or {0, number of the release that is there}
--
-- A client that does not hear the answer asks again. What it asked for is published once.
--
-- Fields  name, text, sha256: the file that processes follow
--         number: of its release; first: of the oldest that is kept
--         about:N, text:N: "seconds microseconds JSON" and the text of release N
local key = KEYS[1]
local last = tonumber(redis.call('HGET', key, 'number') or '0')
local first = tonumber(redis.call('HGET', key, 'first') or '1')
for n = last, math.max(first, last - ARGV[6] + 1), -1 do
  local seconds, micros, told = string.match(redis.call('HGET', key, 'about:' .. n) or '', '^(%d+) (%d+) (.*)$')
  if told == ARGV[5] then
    return {1, n, seconds, micros}
  end
end
if tonumber(ARGV[1]) >= 0 and tonumber(ARGV[1]) ~= last then
  return {0, last}
end
local time = redis.call('TIME')
local number = last + 1
first = math.max(first, number - 1000)
redis.call('HSET', key, 'name', ARGV[2], 'text', ARGV[3], 'sha256', ARGV[4], 'number', number,
  'about:' .. number, time[1] .. ' ' .. time[2] .. ' ' .. ARGV[5], 'text:' .. number, ARGV[3])

-- Forget old releases, but for the last two.
local oldest, bytes = first, 0
for n = number, first, -1 do
  local kept = number - n + 1
  bytes = bytes + redis.call('HSTRLEN', key, 'text:' .. n)
  if kept > 2 and (kept > tonumber(ARGV[6]) or bytes > tonumber(ARGV[7])) then
    redis.call('HDEL', key, 'about:' .. n, 'text:' .. n)
    oldest = math.max(oldest, n + 1)
  end
end
redis.call('HSET', key, 'first', oldest)
return {1, number, time[1], time[2]}
