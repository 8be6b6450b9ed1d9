-- Decides a plain take at once: one of several token buckets of one key, if the key holds their
-- records and nothing else, and all requests are granted, or the only one is denied. So are most
-- takes of several limits. The value is read and written as a whole, without a string for each
-- record, and the answer is the value as it was. What this piece leaves, the other pieces
-- decide. They would do the same to a take that it decides.
--
-- Reads:  ask, total, times, high, low, start, only, values, answers, now
-- Sets:   done: whether it has decided the group, and then answer, orderAt, and what grant.group
--         reads of the key. Kept for groups that ask the same: planned (what they ask), plan (the
--         numbers of their checks, 7 of each), layout and length (of the value)

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
    local more, ends = times * plan[p + 5], records[r + 1]
    local since = microseconds > 1 and now - now % microseconds or now
    done = records[r] == plan[p + 7] and ends <= now + plan[p + 6]
    if rate == 1 then
      if ends < since then ends = since end
      ends = ends + more * microseconds
      fit = fit and ends <= since + room * microseconds
      records[r + 1] = ends
      r = r + 2
    else
      local debt, part = more, records[r + 2]
      if ends > now then
        debt = debt + ((ends - since) / microseconds - (part > 0 and 1 or 0)) * rate + part
      end
      fit = fit and debt <= room
      part = debt % rate
      ends = since + ((debt - part) / rate + (part > 0 and 1 or 0)) * microseconds
      records[r + 1], records[r + 2] = ends, part
      r = r + 3
    end
    if ends > last then last = ends end
    p = p + 7
  end
  done = done and (fit or times == 1)
  if done then
    orderAt, missed, dirty = start + 2, not fit, fit
    if fit then built = pack(layout, spread(records)) end
    if answers then
      answers[#answers + 1] = fit and '\254\1' or '\254\0'
      answer = value
    else
      answer = pack('<I7BBc0', now, 254, fit and 1 or 0, value)
    end
  end
end
