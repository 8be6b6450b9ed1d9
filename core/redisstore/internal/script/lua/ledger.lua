-- Ledgers: core/store/counting/ledger.go. They count like calendar windows, and count their changes, too. The
-- position y is the generation × 2^36 plus the number of changes, or 0 if the account is unknown. entries is
-- the history of the server that began the generation. Under another one the account is stale: unknown,
-- since changes of it may be missing, and its next positions may have been given before.
--
-- A history is the first 12 digits of the replication id, which a server changes when it takes over from another one
-- and when it starts. The call asks once. It is 0 where the user may not, and then no account is stale.
--
-- format  reads:  tick, per, offset, now
--         sets:   reads, writes, farthest
-- used    reads:  value, used
--         sets:   units
-- next    reads:  expires, x, y, tick, per, offset, algorithm, now; expires is over
--         sets:   begun: whether the account of the period that has begun since is known; then expires,
--                 spare, x, y and held
-- open    reads:  units, rest, full, tick, per, offset, now
--         sets:   x, y, entries, ends
-- keep    reads:  value, used, units, width
--         sets:   x, y, entries
-- decide  reads:  expires, x, y, entries, begun; history; tick, per, capacity, utmost, cost, offset, charged, generation, expect,
--                 operation, times, most, free, mark, pending, exceeded, now
--         sets:   fits, x, y, entries, ends, added, answer; history; if the account is unknown: grant, exceeded, pending

--# format
reads, writes = '<I7I7I7I7', '<c0c0I7I7I7I7'
--> calendar.farthest

--# used
units = unpack('<I7', value, used)

--# next
begun = algorithm == LEDGER and y >= 68719476736 and now >= tick and now < offset
  and now < expires + AFTERLIFE and expires == (now < per and tick or per)
if begun then                     -- nobody has charged it: it begins in generation 1
  local kept = expires + AFTERLIFE
  expires, x, y = now < per and per or offset, 0, 68719476736
  spare = kept - expires
  if kept > held then held = kept end
end

--# open
--> calendar.open
y, entries = 0, 0                 -- the account is unknown

--# keep
x, y, entries = units, unpack('<I7', value, used + 7), 0 -- a record without a history

--# decide
if not history then
  local info = redis.pcall('INFO', 'replication')
  local id = type(info) == 'string' and string.find(info, 'master_replid:', 1, true)
  history = id and tonumber(sub(info, id + 14, id + 25), 16) or 0
end
local over = expires
if over == 0 then
  --> calendar.next
end
if y % 68719476736 > 68719475711 then y = 0 end -- 2^36 changes are nearly used up
local stale = y > 0 and entries ~= history and y
if stale then y = 0 end
local before = entries
entries = history
local p = y
a = x
b = fits
if operation == RESTORE then
  b = 0
  if over == charged and restored == history
    and (not stale and expect < 68719476736 and math.floor(y / 68719476736) or stale or y) == expect then
    if expect < 68719476736 and x > cost then cost = x end
    x, y, ends = cost, generation * 68719476736 + 1, over
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
elseif operation == CHARGE and cost > 0 and x < utmost then
  added = math.min(utmost - x, cost)
  x, y, ends = x + added, y + 1, over
elseif operation == REFUND and charged == over and x > 0 and cost > 0 then
  x, y, ends = x - math.min(x, cost), y + 1, over
end
if operation > PEEK then a, p = x, y else b = fits end
local told = history * 2
if stale and y == 0 then p, told = stale, told + 1 end
if begun and not ends and (operation == CHARGE or operation == REFUND or operation == RESTORE) then
  ends = over                     -- these write the account that has begun, even if they change nothing
  if stale then y, entries = stale, before end
end
answer = pack(answer and '<c0BI7I7I7I7' or '<I7BI7I7I7I7', answer or now, b, a, over - now, p, told)
