-- Limits that clients divide: core/store/counting/share.go and sharing.go, in whose words the comments are. A check with a
-- share has two or four keys more, those of the division and the client, and of the client's users and the user. They
-- come behind the keys of the group, and hold no records, but a division or a part.
--
-- A division is, from 1: when it expires, round, level, active, before, capped, over, clients.
-- A part is, from 1: when it expires, at, debt, least, most, round, capped plus 2 if large.
--
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

--# plan
if not rollShare then
  --> share.functions
end
if ask ~= shared then
  shared, shareTerms = ask, {}
  local size = unpack('<I2', ask, #ask - 3)
  local at = #ask - 3 - size
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
    if record ~= '' and (byte(record) ~= 2 or byte(record, 2) ~= 177 - (n + 1) % 2) then failure = 'WEBLIMIT value of an unknown version' end
    if failure or record == '' or unpack('<I7', record, 3) <= now then
      client[n] = {0, 0, 0, 0, 0, 0, 0, 0}
    elseif n % 2 == 1 then
      client[n] = {unpack('<I7I7I7I7I7I7I7I7', record, 3)}
    else
      client[n] = {unpack('<I7I7I7I7I7I7B', record, 3)}
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
    if d[6] > 0 then d[3] = d[3] + floor((d[7] - floor(whole / 64)) / d[6]) end
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
  local base = max(floor((whole - floor(whole / 64)) / max(d[4], d[5], 1)), 1)
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
  return more > 0 and floor(more / parts) * window + math.ceil(more % parts * window / parts) or 0
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
client.mine, client.part, client.standing = mine, part, standing
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
      values[number] = pack('<c0BI7I7I7I7I7I7I7I7', VERSION, 177, spread(record, 1, 8))
      expiries[number] = record[1]
    else
      local parts = math.max(n == 2 and client.mine or client.part, 1)
      lasts = math.max(math.min(math.ceil(record[3] / parts), 64, math.floor(3153600000000000 / (window * terms[3]))), 2)
      record[1] = now + lasts * window * terms[3]
      values[number] = pack('<c0BI7I7I7I7I7I7B', VERSION, 176, spread(record, 1, 7))
      expiries[number] = record[1]
    end
  end
end
