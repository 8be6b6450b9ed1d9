-- Publishes a snapshot of one instance, and keeps the list of instances.
--
-- KEYS    1: the list, 2: the snapshot
-- ARGV    1: the instance's name, 2: the snapshot, 3: its lifetime in ms, 4: how many instances there may be
-- RETURN  1, or 0 if there are too many instances
--
-- list    a line for each instance: its name, and when its snapshot expires, in ms
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local last = now + ARGV[3]
local lines = {ARGV[1] .. ' ' .. string.format('%.0f', last) .. '\n'}
for name, expires in string.gmatch(redis.call('GET', KEYS[1]) or '', '(%S+) (%d+)\n') do
  expires = tonumber(expires)
  if name ~= ARGV[1] and expires > now then
    lines[#lines + 1] = name .. ' ' .. string.format('%.0f', expires) .. '\n'
    last = math.max(last, expires)
  end
end
if #lines > tonumber(ARGV[4]) then
  return 0
end
redis.call('PSETEX', KEYS[2], ARGV[3], ARGV[2])
redis.call('PSETEX', KEYS[1], string.format('%.0f', last - now), table.concat(lines))
return 1
