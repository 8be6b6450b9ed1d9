-- Reads one check from what is asked.
--
-- Reads:  ask, q (where the check begins), operation
-- Sets:   q (where the next one begins); algorithm, tick, per, capacity, cost, offset, head,
--         shadow, full, mark, charged; by algorithm reads and writes, or guarded

--# parse
algorithm, tick, per, capacity, cost, offset, head, q = unpack('<BdddddBc0', ask, q)
shadow = algorithm > 127
if shadow then algorithm = algorithm - 128 end
if operation == REFUND or operation == RENEW then charged, q = unpack('<d', ask, q) end
mark, full = nil, capacity
if algorithm > 63 then
  algorithm = algorithm - 64
  mark, q = byte(ask, q), q + 1
end
if algorithm > 31 then
  algorithm = algorithm - 32
  full, q = unpack('<d', ask, q)
end
if algorithm == TOKENBUCKET then
  --> tokenbucket.format
elseif algorithm == FIXEDWINDOW or algorithm == CALENDAR then
  --> fixedwindow.format
elseif algorithm == SLIDINGWINDOW then
  --> slidingwindow.format
elseif algorithm == PENALTY then
  --> penalty.format
elseif algorithm == MARK then
  --> mark.format
else
  --> slidinglog.format
end
