-- Limits that clients divide: core/store/counting/share.go and sharing.go, in whose words the comments are. A check with a
-- share has two or four keys more, those of the division and the client, and of the client's users and the user. They
-- come behind the keys of the group, and hold no records, but a division or a part.
--
-- A division is, from 1: when it expires, round, level, active, before, capped, over, clients.
-- A part is, from 1: when it expires, at, debt, least, most, round, capped plus 2 if large.
--
-- plain   decides a plain take with a share: of one enforced check with a cost, without a minimum, a maximum and users, if
--         the records of limit and division are there, and nothing else in the limit's key. So are most. What it leaves the
--         other pieces decide. They would do the same to a take that it decides
--         reads:  ask, high, low, order, start, values, answers, now
--         sets:   settled: whether it has decided the group, and then answer, orderAt, values, expiries. Kept for groups that
--                 ask the same: quick (what they ask), quickTerms
-- plan    before a group is decided, if it has shares
--         reads:  ask, start, keys, order, values, now
--         sets:   shares, by limit and key; shareKeys, how many keys there are; failure
-- functions  are made once in a call
-- judge   in the token bucket, before it decides a check with a share
--         reads:  client (of shares), debt, cost, capacity, spared, now
--         sets:   room, in place of capacity; client
-- change  in the token bucket, for a charge, refund or reset
--         reads:  client, operation, now
--         sets:   client
-- answer  behind the answer to the check
--         reads:  client
--         sets:   answer
-- commit  after the group is decided
--         reads:  shares, grant, operation, now
--         sets:   values, expiries

--# plain
if ask ~= quick then
  quick, quickTerms = ask, {unpack('<dddddBc0xxxxxxxxxdddddddddddd', ask, 6)}
  quickTerms.begins = VERSION .. quickTerms[6]
  quickTerms.width = quickTerms[2] > 1 and byte(quickTerms[6], 9) % 16 or 0
end
local t, begins, width = quickTerms, quickTerms.begins, quickTerms.width
local h2, l2, h3, l3 = byte(order, start + 2, start + 5)
local whose, ofAll, ofOne = high * 256 + low, h2 * 256 + l2, h3 * 256 + l3
local bucket, division, part = values[whose], values[ofAll], values[ofOne]
if bucket and division and #bucket == #begins + 7 + width and sub(bucket, 1, #begins) == begins and #division == 66 and byte(division) == 2 then
  --> share.settle
end

--# settle
local ends, x = unpack('<I7', bucket, #begins + 1), 0
if width > 0 then x = unpack('<I' .. width, bucket, #begins + 8) end
local dEnds, dRound, level, active, before, capped, over, clients = unpack('<dddddddd', division, 3)
local pEnds, at, owes, least, most, pRound, flags = 0, 0, 0, 0, 0, 0, 0
settled = not part or #part == 51 and byte(part) == 2 -- else it was reset in this call, or is no part
if part and settled then
  pEnds, at, owes, least, most, pRound, flags = unpack('<ddddddB', part, 3)
  if pEnds <= now then pEnds, owes, pRound, flags = 0, 0, 0, 0 end
  settled = least == 0 and most == 0
end
if ends > now + t[5] or dEnds <= now or pEnds == 0 and clients >= 100000 then settled = false end
if settled then
  --> share.charge
end

--# charge
-- The numbers of core/redisstore/internal/script/check.go and share.go, in their order.
local microseconds, rate, costDebt, window, quotaParts, takes, weight = t[1], t[2], t[4], t[8], t[9], t[10], t[12]
local since = (now - now % t[7]) / t[7]
local round = (since - since % window) / window
local newD, newP = false, false
if dRound ~= round then
  if dRound + 1 ~= round then
    before, level = 0, quotaParts
  else
    before = active
    if capped > 0 then level = level + math.floor((over - (quotaParts - quotaParts % 256) / 256) / capped) end
  end
  dRound, active, capped, over, clients = round, 0, 0, 0, 0
end
if pEnds == 0 or pRound ~= round then
  pRound, flags, active, newD, newP = round, flags - flags % 2, active + weight, true, true
  if clients < 100000 then clients = clients + 1 end
end
local among = active > before and active or before
local base = quotaParts - (quotaParts - quotaParts % 256) / 256
base = base > among and (base - base % among) / among or 1
if level < base then level = base end
if level > quotaParts then level = quotaParts end
local mine, passed = level * weight, since - at
if mine > quotaParts then mine = quotaParts end
at = since
if passed > 0 and owes > 0 then
  local windows = (passed - passed % window) / window
  local drains = passed % window * mine
  owes = windows > 64 and 0 or owes - windows * mine - (drains - drains % window) / window
  if owes < 0 then owes = 0 end
end
if owes <= mine then
  flags = flags % 2
elseif flags < 2 then
  owes = mine
elseif owes > 64 * mine then
  owes = 64 * mine
end
-- The bucket: see tokenbucket.decide.
local ticks = microseconds > 1 and (now - now % microseconds) / microseconds or now
local whole = 0
if ends > now then
  whole = ends / microseconds - ticks
  if x > 0 then whole = whole - 1 end
else
  x = 0
end
local fraction, debt = x, whole * rate + x + costDebt
local holds = owes + takes <= mine or owes == 0 and takes <= 64 * mine
if holds and level > base and debt + t[17] > t[3] then
  level, over, mine, newD = base, 0, base * weight, true
  if mine > quotaParts then mine = quotaParts end
  holds = owes + takes <= mine or owes == 0 and takes <= 64 * mine
end
if not holds and flags % 2 == 0 then
  flags, capped, newD, newP = flags + 1, capped + weight, true, true
end
local fit = debt + (holds and t[15] or t[16]) <= t[3]
local told = (holds and 2 or 4) + (fit and 1 or 0)
if fit then
  if holds and mine > owes then told = told + 16 * math.floor((mine - owes) / t[18]) end
  x = debt % rate
  ends = (ticks + (debt - x) / rate + (x > 0 and 1 or 0)) * microseconds
  values[whose] = width > 0 and pack('<c0I7I' .. width, begins, ends, x) or pack('<c0I7', begins, ends)
  expiries[whose] = ends
  if holds then
    local most64 = 64 * mine
    owes, newP = owes + takes > most64 and (owes > most64 and owes or most64) or owes + takes, true
    flags = flags % 2 + (owes > mine and 2 or 0)
  else
    over, newD = math.min(over + takes, 2251799813685248), true
  end
elseif not holds and takes <= 64 * mine then
  local more = owes - math.max(mine - takes, 0)
  if more > 0 then
    told = told + 16 * math.min(math.floor(more / mine) * window + math.ceil(more % mine * window / mine), 65 * window)
  end
end
window = window * t[7]
if newD then
  dEnds = now + 2 * window
  values[ofAll], expiries[ofAll] = pack('<BBdddddddd', 2, 177, dEnds, dRound, level, active, before, capped, over, clients), dEnds
end
if newP then
  pEnds = now + 2 * window
  if owes > 2 * mine then
    pEnds = now + math.max(math.min(math.ceil(owes / mine), 64, math.floor(3153600000000000 / window)), 2) * window
  end
  values[ofOne], expiries[ofOne] = pack('<BBddddddB', 2, 176, pEnds, at, owes, 0, 0, pRound, flags), pEnds
end
orderAt = start + 6
if answers then
  answer = pack('<BI7I7I7I7', fit and 1 or 0, whole, fraction, mine, told)
else
  answer = pack('<I7BI7I7I7I7', now, fit and 1 or 0, whole, fraction, mine, told)
end

--# plan
if not rollShare then
  --> share.functions
end
if ask ~= shared then
  shared, shareTerms = ask, {}
  local at = #ask - 3 - unpack('<I2', ask, #ask - 3)
  while at <= #ask - 4 do
    local terms = {unpack('<c8Bdddddddddddddd', ask, at)}
    shareTerms[#shareTerms + 1], at = terms, terms[17]
  end
end
shares, shareKeys = {}, 0
local keyAt = start + 2 * keys
for i = 1, #shareTerms do
  local terms = shareTerms[i]
  local client = {terms = terms, keys = {}, changed = {}, mine = 0, part = 0, standing = 0, tells = 0, told = 0}
  for n = 1, terms[2] do
    local h, l = byte(order, keyAt, keyAt + 1)
    local number = h * 256 + l
    local record = values[number] or ''
    client.keys[n], keyAt = number, keyAt + 2
    local kind, size = 177, 66
    if n % 2 == 0 then kind, size = 176, 51 end
    if record ~= '' and (#record ~= size or byte(record) ~= 2 or byte(record, 2) ~= kind) then failure = 'WEBLIMIT value of an unknown version' end
    if failure or record == '' or unpack('<d', record, 3) <= now then
      client[n] = {0, 0, 0, 0, 0, 0, 0, 0}
    elseif n % 2 == 1 then
      client[n] = {unpack('<dddddddd', record, 3)}
    else
      client[n] = {unpack('<ddddddB', record, 3)}
    end
  end
  shareKeys = shareKeys + terms[2]
  shares[terms[1]] = client
end

--# functions
local floor, min, max = math.floor, math.min, math.max
rollShare = function(d, round, whole)
  if d[2] == round then return end
  if d[2] + 1 == round then
    d[5] = d[4]
    if d[6] > 0 then d[3] = d[3] + floor((d[7] - floor(whole / 256)) / d[6]) end
  else                            -- nobody asked for a whole round, or the clock was set back
    d[5], d[3] = 0, whole
  end
  d[2], d[4], d[6], d[7], d[8] = round, 0, 0, 0, 0
end
meetShare = function(d, p, weight, bound)
  if p[1] ~= 0 and p[6] == d[2] then return true, false end
  if p[1] == 0 and d[8] >= bound then return false, false end
  p[6], p[7], d[4], d[8] = d[2], p[7] - p[7] % 2, d[4] + weight, min(d[8] + 1, bound)
  return true, true
end
-- It keeps the level between the base, which it returns, and the whole.
boundShare = function(d, whole)
  local base = max(floor((whole - floor(whole / 256)) / max(d[4], d[5], 1)), 1)
  d[3] = max(min(max(d[3], base), whole), 1)
  return base
end
drainShare = function(p, parts, terms, sinceEpoch)
  local passed, window = sinceEpoch - p[2], terms[4]
  p[2] = sinceEpoch
  if passed > 0 then              -- else the clock was set back, or stands still
    if p[3] > 0 then
      local windows = floor(passed / window)
      p[3] = windows > 64 and 0 or max(p[3] - windows * parts - floor(passed % window * parts / window), 0)
    end
    passed = min(passed, 2 * window)
    p[4], p[5] = max(p[4] - terms[9] * passed, 0), max(p[5] - terms[10] * passed, 0)
  end
  if p[3] <= parts then p[7] = p[7] % 2 end
  p[3] = min(p[3], p[7] > 1 and 64 * parts or parts)
  p[4], p[5] = min(p[4], terms[9] * (window + 2)), min(p[5], 2 * terms[10] * window)
end
holdsShare = function(p, parts, asks) return p[3] + asks <= parts or p[3] == 0 and asks <= 64 * parts end
untilShare = function(p, parts, asks, window)
  local more = p[3] - max(parts - asks, 0)
  if asks > 64 * parts then return 0 end
  return more > 0 and min(floor(more / parts) * window + math.ceil(more % parts * window / parts), 65 * window) or 0
end
chargeShare = function(p, parts, asks)
  p[3] = max(p[3], min(p[3] + asks, 64 * parts))
  p[7] = p[7] % 2 + (p[3] > parts and 2 or 0)
end
-- It changes what was granted over shares.
overShare = function(d, parts) d[7] = min(max(d[7] + parts, 0), 2251799813685248) end
refundShare = function(p, parts, asks, passed, window)
  if passed < 64 * window then
    local back = asks - floor(passed / window) * parts - floor(passed % window * parts / window)
    p[3] = p[3] - min(max(back, 0), p[3])
  end
end
takeBackShare = function(client, n, parts, round)
  if client[n][2] ~= round then return end
  overShare(client[n], -parts)
  client.changed[n] = true
end
capShare = function(d, p, weight)
  if p[7] % 2 == 1 then return false end
  p[7], d[6] = p[7] + 1, d[6] + weight
  return true
end
-- It returns the user's part of the client's parts, and whether the user is over it.
judgeUserShare = function(client, parts, asks, round, sinceEpoch)
  local d, p, changed = client[3], client[4], client.changed
  rollShare(d, round, parts)
  local met, news = meetShare(d, p, 1, 10000)
  local base = boundShare(d, parts)
  if news then changed[3], changed[4] = true, true end
  if not met then return 0, true end
  local part = min(d[3], parts)
  drainShare(p, part, client.terms, sinceEpoch)
  local holds = holdsShare(p, part, asks)
  if holds and d[3] > base and parts - client[2][3] - asks < floor(parts / 4) then
    d[3], d[7], changed[3] = base, 0, true
    part = min(base, parts)
    holds = holdsShare(p, part, asks)
  end
  if not holds and capShare(d, p, 1) then changed[3], changed[4] = true, true end
  return part, not holds
end

--# judge
local terms, d, p = client.terms, client[1], client[2]
local window, quotaParts, takes, units, weight = terms[4], terms[5], terms[6], terms[7], terms[8]
local sinceEpoch = math.floor(now / terms[3])
local round = math.floor(sinceEpoch / window)
rollShare(d, round, quotaParts)
local met, news = meetShare(d, p, weight, 100000)
if news then client.changed[1], client.changed[2] = true, true end
local base = boundShare(d, quotaParts)
local mine, part, holds, userOver = 0, 0, false, false
if met then
  mine = math.min(d[3] * weight, quotaParts)
  drainShare(p, mine, terms, sinceEpoch)
  holds = holdsShare(p, mine, takes)
  if holds and d[3] > base and (spared or debt + cost + terms[13] > capacity) then
    d[3], d[7], client.changed[1] = base, 0, true
    mine = math.min(base * weight, quotaParts)
    holds = holdsShare(p, mine, takes)
  end
  if not holds and capShare(d, p, weight) then
    client.changed[1], client.changed[2] = true, true
  end
  if terms[2] == 4 then part, userOver = judgeUserShare(client, mine, takes, round, sinceEpoch) end
end
local standing = 2                -- over its share
if met and terms[10] > 0 and (units > terms[10] or p[5] + units * window > terms[10] * window) then
  standing = 5                    -- over its maximum
elseif met and units <= terms[9] and p[4] + units * window <= terms[9] * window then
  standing = 3                    -- of its minimum
elseif holds and not userOver then
  standing = 1                    -- within its share
elseif holds and mine - p[3] - takes >= math.floor(mine / 2) then
  standing = 4                    -- its user is over the equal part
end
room = capacity - (standing == 2 and terms[12] or standing == 3 and 0 or terms[11])
local holdsCost = not spared and standing ~= 5 and debt + cost <= room
if not holdsCost then room = -1 end
local count = 0
if holdsCost then
  if standing ~= 2 then
    local left = mine - p[3]
    if part > 0 then left = math.min(left, part - client[4][3]) end
    count = math.floor(math.max(left, 0) / terms[14])
  end
  if standing == 3 then count = math.max(count, terms[9] - math.ceil((p[4] == 0 and 2 * terms[9] or p[4]) / window)) end
elseif standing == 5 then
  if units <= terms[10] then count = math.ceil((p[5] + (units - terms[10]) * window) / terms[10]) end
elseif standing == 2 and mine > 0 then
  count = untilShare(p, mine, takes, window)
  if part > 0 then count = math.max(count, untilShare(client[4], part, takes, window)) end
end
client.room, client.mine, client.part, client.standing = room, mine, part, standing
client.tells = part > 0 and not holdsShare(client[4], part, takes) and part or mine
client.told = count * 16 + standing * 2 + (holdsCost and 1 or 0)

--# change
local terms, d, p = client.terms, client[1], client[2]
local window, takes, units = terms[4], terms[6], terms[7]
local user = terms[2] == 4 and client[4]
if operation == RESET then
  client[2], client.changed[2] = {}, true
  if user then client[4], client.changed[4] = {}, true end
elseif d[1] > 0 and p[1] > 0 then
  local floor, min, max = math.floor, math.min, math.max
  local sinceEpoch = floor(now / terms[3])
  local mine, part = min(d[3] * terms[8], terms[5]), 0
  drainShare(p, mine, terms, sinceEpoch)
  if user then part = client[3][1] > 0 and min(client[3][3], mine) or 0 end
  if user and (user[1] == 0 or client[3][1] == 0) then user = false end
  if user then drainShare(user, part, terms, sinceEpoch) end
  client.mine, client.part, client.tells = mine, part, mine
  if operation == CHARGE then
    chargeShare(p, mine, takes)
    p[4] = max(p[4], min(p[4] + min(units, terms[9]) * window, terms[9] * window))
    p[5] = max(p[5], min(p[5] + min(units, terms[10]) * window, 2 * terms[10] * window))
    if user then chargeShare(user, part, takes) end
    client.changed[2], client.changed[4] = true, user and true or nil
  elseif terms[16] > 0 then       -- REFUND
    local passed = max(sinceEpoch - floor(terms[15] / terms[3]), 0)
    local since = min(passed, window)
    client.changed[2] = true
    p[5] = p[5] - min(max(units * window - terms[10] * since, 0), p[5])
    if terms[16] == 3 then p[4] = p[4] - min(max(units * window - terms[9] * since, 0), p[4]) end
    local ofRound = floor(floor(terms[15] / terms[3]) / window)
    if terms[16] == 2 then
      takeBackShare(client, 1, takes, ofRound)
    else
      refundShare(p, mine, takes, passed, window)
    end
    if terms[16] == 4 and terms[2] == 4 and client[3][1] > 0 then
      takeBackShare(client, 3, takes, ofRound)
    elseif user and terms[16] ~= 2 and terms[16] ~= 4 then
      refundShare(user, part, takes, passed, window)
      client.changed[4] = true
    end
  end
end

--# answer
answer = answer .. pack('<I7I7', client.tells, client.told)

--# commit
for _, client in pairs(operation ~= PEEK and shares or {}) do
  local terms, d, p, changed = client.terms, client[1], client[2], client.changed
  local window, takes, units = terms[4], terms[6], terms[7]
  if operation == TAKE and grant > 0 and client.charged and client.standing > 0 then
    if client.mine > 0 and terms[10] > 0 then p[5], changed[2] = p[5] + units * window, true end
    if client.standing == 2 then
      overShare(d, takes)
      changed[1] = true
    else
      if client.standing == 3 then p[4] = (p[4] == 0 and 2 * terms[9] or p[4]) + units * window end
      chargeShare(p, client.mine, takes)
      changed[2] = true
      if client.part > 0 and client.standing == 4 then
        overShare(client[3], takes)
        changed[3] = true
      elseif client.part > 0 then
        chargeShare(client[4], client.part, takes)
        changed[4] = true
      end
    end
  end
  for n, _ in pairs(changed) do
    local number, record, lasts = client.keys[n], client[n], 2
    if #record == 0 then          -- it is reset
      values[number], expiries[number] = '', 0
    elseif n % 2 == 1 then
      record[1] = now + 2 * window * terms[3]
      values[number] = pack('<BBdddddddd', 2, 177, spread(record, 1, 8))
      expiries[number] = record[1]
    else
      local parts = math.max(n == 2 and client.mine or client.part, 1)
      lasts = math.max(math.min(math.ceil(record[3] / parts), 64, math.floor(3153600000000000 / (window * terms[3]))), 2)
      record[1] = now + lasts * window * terms[3]
      values[number] = pack('<BBddddddB', 2, 176, spread(record, 1, 7))
      expiries[number] = record[1]
    end
  end
end
