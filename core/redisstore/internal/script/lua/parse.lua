-- Parses one check of what a group asks.
--
-- Reads:  ask, askAt, operation
-- Sets:   askAt; algorithm, tick, per, capacity, cost, offset, head,
--         shadow, full, utmost, mark, choice, place, guess, charged, generation, expect, restored, farthest; by algorithm reads and writes, or
--         guarded

--# parse
algorithm, tick, per, capacity, cost, offset, head, askAt = unpack('<BdddddBc0', ask, askAt)
shadow = algorithm > 127
if shadow then algorithm = algorithm - 128 end
if operation > CHARGE and operation ~= RESET then -- REFUND, RENEW, RESTORE
  charged, askAt = unpack('<d', ask, askAt)
  if operation == RESTORE then generation, expect, restored, askAt = unpack('<ddd', ask, askAt) end
end
mark, full = nil, capacity
if algorithm > 63 then
  algorithm = algorithm - 64
  mark, askAt = byte(ask, askAt), askAt + 1
end
if algorithm > 31 then
  algorithm = algorithm - 32
  full, askAt = unpack('<d', ask, askAt)
end
choice = nil
if algorithm > 15 then
  --> choice.parse
end
if operation == CHARGE and algorithm ~= PENALTY and algorithm ~= MANUAL then utmost, askAt = unpack('<d', ask, askAt) end
if algorithm == TOKENBUCKET then
  --> tokenbucket.format
elseif algorithm == FIXEDWINDOW then
  --> fixedwindow.format
elseif algorithm == CALENDAR then
  --> fixedwindow.format
  --> calendar.farthest
elseif algorithm == SLIDINGWINDOW then
  --> slidingwindow.format
elseif algorithm == PENALTY then
  --> penalty.format
elseif algorithm == MARK then
  --> mark.format
elseif algorithm == LEDGER then
  --> ledger.format
elseif algorithm == MANUAL then
  --> manual.format
else                              -- SLIDINGLOG, CONCURRENCY
  --> slidinglog.format
end
