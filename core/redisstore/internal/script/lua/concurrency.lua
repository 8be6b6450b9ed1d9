-- Concurrency limits: core/store/concurrency.go. Their other sections are the sliding log's.
--
-- decide  reads:  expires, x, entries; per, capacity, full, cost, charged, operation, times, most
--         sets:   fits, x, y, entries, ends, answer

--# decide
local gone, more = 0, 0
while gone < #entries do
  local when, n = unpack('<I7I2', entries, gone + 1)
  if when + per > now then break end
  gone, x = gone + ENTRY, x - n
end
if gone > 0 then entries = sub(entries, gone + 1) end
local newest = entries ~= '' and unpack('<I7', entries, #entries - ENTRY + 1) or 0
a, b = x, x > 0 and newest + per - now or 0
if operation <= PEEK then
  if cost > 0 then
    if x + cost > capacity then
      fits = 0
    else
      if times > 1 then fits = math.min(times, math.floor((capacity - x) / cost)) end
      more = (fits < most and fits or most) * cost
    end
  end
else
  if operation == REFUND or operation == RENEW then
    local lower, upper = 0, #entries / ENTRY -- the first entry that is not older is between them
    while lower < upper do
      local middle = math.floor((lower + upper) / 2)
      if unpack('<I7', entries, middle * ENTRY + 1) < charged then lower = middle + 1 else upper = middle end
    end
    local e = lower * ENTRY + 1
    local when, n
    if e < #entries then when, n = unpack('<I7I2', entries, e) end
    if when == charged then
      local less = math.min(n, cost)
      local left = less < n and pack('<I7I2', when, n - less) or ''
      x, entries = x - less, sub(entries, 1, e - 1) .. left .. sub(entries, e + ENTRY)
      newest = x > 0 and unpack('<I7', entries, #entries - ENTRY + 1) or 0
      ends = x > 0 and newest + per or 0
    end
  end
  if operation == CHARGE or operation == RENEW then
    more = math.max(math.min(cost, 2 * full - x), 0)
  end
end
if more > 0 then
  x = x + more
  if newest >= now then
    local n = unpack('<I2', entries, #entries - 1)
    entries = sub(entries, 1, -ENTRY - 1) .. pack('<I7I2', newest, n + more)
  else
    newest = now
    entries = entries .. pack('<I7I2', now, more)
  end
  ends = newest + per
end
if operation > PEEK then a, b = x, x > 0 and newest + per - now or 0 end
y = #entries / ENTRY
answer = pack(answer and '<c0BI7I7' or '<I7BI7I7', answer or now, fits, a, b)
