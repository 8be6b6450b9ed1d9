-- Decides a plain take at once: one of token buckets of one key, if the key holds their records and
-- nothing else. So are most takes. What this piece leaves, the other pieces decide. They would do the
-- same to a take that it decides.
--
-- plain   decides a take of several buckets, if all requests are granted, or the only one is denied. The
--         value is read and written as a whole, without a string for each record, and the answer is the
--         value as it was
-- one     decides a take of one bucket, also if the key does not exist. The answer is the state as it was
-- bucket  charges a bucket
--         reads:  microseconds, rate, room, more; ends and part of the record, now
--         sets:   ends, part; fit, if the charge does not fit
-- answer  reads:  fit, and before: the value or the state as it was
--         sets:   answer
--
-- Reads:  ask, known, total, times, high, low, start, only, values, answers, now
-- Sets:   done: whether it has decided the group, and then answer, orderAt, and what grant.group
--         reads of the key. Kept for groups that ask the same: of several buckets planned (what they ask), plan
--         (the numbers of their checks, 7 of each), layout and length (of the value), of one asked, what parse
--         sets, opening (with what its value begins) and lengthOfOne (of the value)

--# plain
if ask ~= planned then
  planned, plan = ask, {unpack('<' .. string.rep('BdddddBc0', total), ask, 5)}
  layout = unpack('<Bc0', ask, plan[#plan])
  length = struct.size(layout)
end
k = high * 256 + low
value = only or values[k]
if value and #value == length then
  local records, r, p = {unpack(layout, value)}, 2, 0 -- the first one is the version
  local fit = true
  done, last = records[1] == VERSION, 0
  while done and p < 7 * total do
    local microseconds, rate, room = plan[p + 2], plan[p + 3], plan[p + 4]
    local more, ends, part = times * plan[p + 5], records[r + 1], 0
    done = records[r] == plan[p + 7] and ends <= now + plan[p + 6] and ends % microseconds == 0
    if rate > 1 then part = records[r + 2] end
    --> plain.bucket
    records[r + 1] = ends
    if rate > 1 then
      records[r + 2] = part
      r = r + 3
    else
      r = r + 2
    end
    if ends > last then last = ends end
    p = p + 7
  end
  done = done and (fit or times == 1)
  if done then
    orderAt, missed, dirty = start + 2, not fit, fit
    if fit then built = pack(layout, spread(records)) end
    local before = value
    --> plain.answer
  end
end

--# one
if not known then
  algorithm, tick, per, capacity, cost, offset, head = unpack('<BdddddBc0', ask, 5)
  shadow, full, mark, choice, asked = false, capacity, nil, nil, ask -- as parse would have it
  --> tokenbucket.format
  opening = VERSION .. head
  lengthOfOne = #opening + 7 + (per > 1 and byte(head, 9) % 16 or 0)
end
k = high * 256 + low
value = only or values[k]
if not value then
  value = redis.pcall('GET', KEYS[k]) or '' -- MGET does not tell whether it is of another type
  if type(value) == 'string' then values[k] = value end
end
if value == '' or #value == lengthOfOne and sub(value, 1, #opening) == opening then
  local fit, before = true, '\0\0\0\0\0\0\0'
  local microseconds, rate, room, more = tick, per, capacity, times * cost
  local ends, part = 0, 0
  if value ~= '' then
    before = sub(value, #opening + 1)
    if per > 1 then ends, part = unpack(reads, before) else ends = unpack('<I7', before) end
  elseif per > 1 then
    before = string.rep('\0', lengthOfOne - #opening)
  end
  if ends <= farthest and ends % tick == 0 then
    --> plain.bucket
    done = fit or times == 1
    if done then
      orderAt, missed, dirty, last = start + 2, not fit, fit, ends
      if fit then built = pack(writes, VERSION, head, ends, part) end
      --> plain.answer
    end
  end
end

--# bucket
local since = microseconds > 1 and now - now % microseconds or now
if rate == 1 then
  if ends < since then ends = since end
  ends = ends + more * microseconds
  fit = fit and ends <= since + room * microseconds
else
  local debt = more
  if ends > now then
    debt = debt + ((ends - since) / microseconds - (part > 0 and 1 or 0)) * rate + part
  end
  fit = fit and debt <= room
  part = debt % rate
  ends = since + ((debt - part) / rate + (part > 0 and 1 or 0)) * microseconds
end

--# answer
if answers then
  answers[#answers + 1] = fit and '\254\1' or '\254\0'
  answer = before
else
  answer = pack('<I7BBc0', now, 254, fit and 1 or 0, before)
end
