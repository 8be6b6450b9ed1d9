-- Concurrency limits: core/store/counting/concurrency.go. They keep a log of the slots in use. An entry
-- leaves when its slots are given back, or when their lease is over; its other sections are
-- those of the sliding log.
--
-- decide  reads:  x, entries; per, capacity, full, cost, charged, operation, times, most, now
--         sets:   fits, x, y, entries, ends, answer

--# decide
local window = per
--> slidinglog.trim
local newest = entries ~= '' and unpack('<I7', entries, #entries - ENTRY + 1) or 0
a, b = x, x > 0 and newest + per - now or 0
--> slidinglog.charge
if operation > PEEK then a, b = x, x > 0 and newest + per - now or 0 end
answer = pack(answer and '<c0BI7I7' or '<I7BI7I7', answer or now, fits, a, b)
