-- Publishes a snapshot of one instance, and keeps the list of instances.
--
-- KEYS    1: the list, 2: the snapshot
-- ARGV    1: the instance's name, 2: the snapshot, 3: its lifetime in ms, 4: how many instances there may be,
--         5: how many bytes the list may have, 6: the longest lifetime in ms
-- RETURN  1, or 0 if there are too many instances
--
-- list    a line for each instance: its name, and when its snapshot expires, in ms
--
-- Anybody who can write to Redis may have written the list: lines that no instance writes are dropped, and so
-- is a list that is too long, before time is spent on it. Instances that are in order come back by themselves.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local last = now + ARGV[3]
local lines = {ARGV[1] .. ' ' .. string.format('%.0f', last) .. '\n'}
local list = redis.pcall('GET', KEYS[1])
if type(list) ~= 'string' or #list > tonumber(ARGV[5]) then
  list = ''
end
local from = 1
while true do
  local stop = string.find(list, '\n', from, true)
  if not stop then
    break
  end
  if stop - from <= 80 then
    local name, expires = string.match(string.sub(list, from, stop - 1), '^(%S+) (%d+)$')
    expires = tonumber(expires)
    if name and #name <= 64 and name ~= ARGV[1] and expires > now and expires <= now + ARGV[6] then
      lines[#lines + 1] = name .. ' ' .. string.format('%.0f', expires) .. '\n'
      last = math.max(last, expires)
    end
  end
  from = stop + 1
end
if #lines > tonumber(ARGV[4]) then
  return 0
end
redis.call('PSETEX', KEYS[2], ARGV[3], ARGV[2])
redis.call('PSETEX', KEYS[1], string.format('%.0f', last - now), table.concat(lines))
return 1
