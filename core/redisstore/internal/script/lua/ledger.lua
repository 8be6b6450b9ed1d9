-- Ledgers: core/store/ledger.go. They count like calendar windows, and count their changes, too. The
-- position y is the generation × 2^36 plus the number of changes, or 0 if the account is unknown.
--
-- format  reads:  tick, per, offset, now
--         sets:   reads, writes, farthest
-- used    reads:  value, used
--         sets:   units
-- next    reads:  expires, x, y, tick, per, offset, algorithm, now; expires is over
--         sets:   begun: whether the account of the period that has begun since is known; then expires,
--                 spare, x, y and held
-- open    reads:  units, rest, full, tick, per, offset, now
--         sets:   x, y, ends
-- decide  reads:  expires, x, y; tick, per, capacity, full, cost, offset, charged, generation, expect,
--                 operation, times, most, free, mark, pending, exceeded, now
--         sets:   fits, x, y, ends, answer; if the account is unknown: grant, exceeded, pending

--# format
reads, writes = '<I7I7I7', '<c0c0I7I7I7'
--> calendar.farthest

--# used
units = unpack('<I7', value, used)

--# next
local begun = algorithm == LEDGER and y >= 68719476736 and now >= tick and now < offset
  and now < expires + AFTERLIFE and expires == (now < per and tick or per)
if begun then                     -- nobody has charged it: it begins in generation 1
  local kept = expires + AFTERLIFE
  expires, x, y = now < per and per or offset, 0, 68719476736
  spare = kept - expires
  if kept > held then held = kept end
end

--# open
--> calendar.open
y = 0                             -- the account is unknown

--# decide
local over = expires
if over == 0 then
  --> calendar.next
end
if y % 68719476736 > 68719475711 then y = 0 end -- 2^36 changes are nearly used up
local p = y
a = x
b = fits
if operation == RESTORE then
  b = 0
  if over == charged and (expect < 68719476736 and math.floor(y / 68719476736) or y) == expect then
    x, y, ends = math.max(x, cost), generation * 68719476736 + 1, over
    b = 1
  end
elseif y == 0 then
  if operation <= PEEK and not free then
    -- Nothing of the group is charged, whether the check is enforced or not, and no denial counts.
    fits, grant = 0, 0
    if exceeded then exceeded.unknown = true end
  elseif operation == REFUND and mark and charged == over then
    pending[mark][6] = false      -- the mark stays as it is
  end
elseif operation <= PEEK and cost > 0 then
  if x + cost > capacity then
    fits = 0
  else
    if times > 1 then fits = math.min(times, math.floor((capacity - x) / cost)) end
    local n = fits < most and fits or most
    x, y, ends = x + n * cost, y + n, over
  end
elseif operation == CHARGE and cost > 0 and x < 2 * full then
  x, y, ends = math.min(2 * full, x + cost), y + 1, over
elseif operation == REFUND and charged == over and x > 0 and cost > 0 then
  x, y, ends = x - math.min(x, cost), y + 1, over
end
if operation > PEEK then a, p = x, y else b = fits end
answer = pack(answer and '<c0BI7I7I7' or '<I7BI7I7I7', answer or now, b, a, over - now, p)
