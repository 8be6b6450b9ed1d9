-- Decides, charges, refunds or resets groups of checks: the checks of one request are
-- one group, decided all or nothing; a call holds the groups of many requests.
--
-- One script serves all algorithms, because checks of one request must be
-- decided in one call. The arithmetic is that of the core package's files named
-- after the algorithms; every number is an integer below 2^53, exact in Lua.
--
-- The usual way through is one straight piece of code, and not a function per
-- step: Lua creates functions each time the script runs, and a dozen of them cost
-- as much as the decision.
--
-- KEYS   one per client key of a group, each holding all limits of that key. Groups
--        may name the same key: they are decided one after the other.
--
-- ARGV[1]  clock        7 bytes: microseconds since the epoch; 0 for the server's own
-- ARGV[2…] one per group, integers big-endian:
--          operation    1 byte: 't' take, 'p' peek, 'c' charge, 'r' refund, 'x' reset
--          times        2 bytes: take: how many equal requests ask, each by itself; else 1.
--                       More than 1 only without a sliding log
--          base         2 bytes: KEYS before the group's first
--          checks       1 byte: their number, and per check:
--          key          1 byte: index into the group's KEYS
--          shadow       1 byte: 1 if the check is judged and not enforced
--          limit        4 bytes: the limit's id
--          algorithm    1 byte: 1 token bucket, 2 fixed window, 3 sliding window, 4 sliding log
--          tick         4 bytes: microseconds
--          unit         7 bytes: token bucket: debt of one unit; else the window in ticks
--          rate         7 bytes: token bucket: debt drained in a tick
--          capacity     7 bytes: token bucket: debt that the bucket holds; else the quota in units
--          cost         7 bytes: units
--          offset       7 bytes: of the windows, in microseconds
--          charged      7 bytes: refund: when the cost was charged
--          form         1 byte: its length; then how algorithm, tick, unit and rate are stored
--
-- RETURN   now          7 bytes: microseconds since the epoch
--          per check    30 bytes: how many of the equal requests fit this check alone (2 bytes),
--                       then four numbers of 7 bytes, the check's core.Reading: before a take
--                       or peek, after all else; of a log that a take charged, after it, too.
--          A group whose key can't be read has instead: 65535, length (2 bytes) of a text, and
--          the text. Nothing of it was charged.
--
-- VALUE    version      1 byte: 1
--          per limit    length of the record (2 bytes), limit (4), expires (7:
--                       microseconds since the epoch), form, state
-- FORM     algorithm × 16 + tick (0: 1 µs, 1: 1 ms, 2: 1 s), length of unit × 16 + length
--          of rate, unit, rate (absent if 1)
-- STATE    token bucket    fraction of the tick in which the debt ends, over rate (7; absent if rate is 1)
--          fixed window    units used (7)
--          sliding window  units used in this window (7), in the one before (7)
--          sliding log     units used (2), then per entry when (7) and units (2)
--
-- A record whose time has passed equals none. The key expires with its last record.
-- Nothing is written before all groups are decided: a call that fails on an unforeseen
-- value has changed nothing, unless Redis refused a write.

local VERSION = '\1'
local HEAD = 13                   -- bytes of a record before its form
local BUCKET, WINDOW, ESTIMATE, LOG = 1, 2, 3, 4
local FAILED = '\255\255'

local unpack, pack, sub, floor = struct.unpack, struct.pack, string.sub, math.floor

local now = unpack('>I7', ARGV[1])
local own = now == 0
if own then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- By name: what a key holds by now, and what it held in Redis; what must be written.
local values, stored, changed = {}, {}, {}

-- Of the group at work, by name: what its keys shall hold if it is denied, and what if it
-- is granted. They differ from each other while a check is charged, and the first differs
-- from values only where a limit's numbers have changed.
local denied, granted = {}, {}

local answers = {pack('>I7', now)}

for g = 2, #ARGV do
  local arg = ARGV[g]
  local operation, times, base, checks, first = unpack('>c1I2I2B', arg)
  local grant = times             -- how many of the equal requests all enforced checks fit, so far
  local reply = #answers
  local failure

  -- A group is decided as it is read, with its charges, on the assumption that it will be
  -- granted. What equal requests charge depends on how many are granted: then it is
  -- judged (pass 1) before it is charged (pass 2).
  for pass = times > 1 and checks > 1 and 1 or 2, 2 do
    local p = first
    local most = grant

    for i = 1, checks do
      local key, shadow, limit, algorithm, tick, unit, rate, capacity, cost, offset, charged, bytes
      key, shadow, limit, algorithm, tick, unit, rate, capacity, cost, offset, charged, bytes, p =
        unpack('>BBI4BI4I7I7I7I7I7I7B', arg, p)
      local form = sub(arg, p, p + bytes - 1)
      p = p + bytes

      local name = KEYS[base + key]
      local value = granted[name]
      if not value then
        value = values[name]
        if not value then
          value = redis.pcall('GET', name) or VERSION
          if type(value) == 'table' then
            failure = value.err
            break
          elseif sub(value, 1, 1) ~= VERSION then
            failure = 'WEBLIMIT value of an unknown version at ' .. name
            break
          end
          values[name], stored[name] = value, value
        end
        denied[name], granted[name] = value, value
      end

      -- Find the limit's record: at is where it stands or would.
      local at, size, length, expires = 2, #value, 0, 0
      while at <= size do
        local other
        length, other, expires = unpack('>I2I4I7', value, at)
        if other == limit then break end
        at, length, expires = at + length, 0, 0
      end

      -- The bucket: see core/bucket.go. An expired one is as good as none.
      local x, y, entries = 0, 0, ''
      local converted = false
      if expires > now then
        local state = at + HEAD + #form
        if sub(value, at + HEAD, state - 1) ~= form then
          -- The limit's numbers have changed since: keep what was used under the old ones.
          local BIG, ENTRY = 2251799813685248, 9 -- no scaled number is above 2^51
          local kind, sizes, p = unpack('>BB', value, at + HEAD)
          local old = {algorithm = floor(kind / 16), tick = ({[0] = 1, 1000, 1000000})[kind % 16], rate = 1}
          old.unit, p = unpack('>I' .. floor(sizes / 16), value, p)
          if sizes % 16 > 0 then old.rate, p = unpack('>I' .. sizes % 16, value, p) end
          local units, rest, parts = 0, 0, 1 -- whole units used, and rest of parts of one
          if old.algorithm == BUCKET then
            local fraction = old.rate > 1 and unpack('>I7', value, p) or 0
            local whole = expires / old.tick - floor(now / old.tick)
            if fraction > 0 then whole = whole - 1 end
            local debt = math.min(whole, floor(BIG / old.rate)) * old.rate + fraction
            units, rest, parts = floor(debt / old.unit), debt % old.unit, old.unit
          elseif old.algorithm == WINDOW then
            units = unpack('>I7', value, p)
          elseif old.algorithm == ESTIMATE then
            local current, previous = unpack('>I7I7', value, p)
            local start, ticks = expires / old.tick - 2 * old.unit, floor(now / old.tick)
            if ticks >= start + old.unit then
              start, current, previous = start + old.unit, 0, current
            end
            local weighted = previous * (old.unit - math.max(ticks - start, 0))
            units, rest, parts = current + floor(weighted / old.unit), weighted % old.unit, old.unit
          else
            units = unpack('>I2', value, p)
            entries = sub(value, p + 2, at + length - 1)
            while entries ~= '' do
              local when, n = unpack('>I7I2', entries)
              if when + old.unit > now then break end
              entries, units = sub(entries, ENTRY + 1), units - n
            end
          end
          converted = true
          expires = 0
          if algorithm == BUCKET then
            local debt = capacity
            if units < capacity / unit then
              -- rest × unit / parts rounded up, by long division: the product may need 102 bits.
              local bit, factor, quotient, left = 1, unit, 0, 0
              while bit * 2 <= factor do bit = bit * 2 end
              while bit >= 1 and rest > 0 do
                quotient, left = quotient * 2, left * 2
                if factor >= bit then factor, left = factor - bit, left + rest end
                if left >= parts then quotient, left = quotient + 1, left - parts end
                if left >= parts then quotient, left = quotient + 1, left - parts end
                bit = bit / 2
              end
              if left > 0 then quotient = quotient + 1 end
              debt = math.min(capacity, units * unit + quotient)
            end
            x = debt % rate
            local ends = floor(debt / rate) + (x > 0 and 1 or 0)
            if ends > 0 then expires = (floor(now / tick) + ends) * tick end
          elseif algorithm == WINDOW or algorithm == ESTIMATE then
            x = math.min(units + (rest > 0 and 1 or 0), capacity)
          elseif old.algorithm == algorithm then
            -- A log's entries know their times: the new window just applies to them.
            x = units
            if x > 0 then expires = unpack('>I7', entries, #entries - ENTRY + 1) + unit end
          else
            x = math.min(units + (rest > 0 and 1 or 0), capacity)
            entries = x > 0 and pack('>I7I2', now, x) or ''
            expires = now + unit
          end
        elseif algorithm == BUCKET then
          if rate > 1 then x = unpack('>I7', value, state) end
        elseif algorithm == WINDOW then
          x = unpack('>I7', value, state)
        elseif algorithm == ESTIMATE then
          x, y = unpack('>I7I7', value, state)
        else
          x = unpack('>I2', value, state)
          entries = sub(value, state + 2, at + length - 1)
        end
      else
        expires = 0
      end

      -- By algorithm: bring the bucket to now and read it (a to d, the check's core.Reading);
      -- count how often cost fits; charge it so often, as far as the group is granted, or
      -- give it back. before and after are the record's state, nil for no record.
      local fits, a, b, c, d, before, after = times, 0, 0, 0, 0
      local ends = 0              -- when the bucket expires once it is charged

      if algorithm == BUCKET then
        local ticks = tick == 1 and now or floor(now / tick)
        local whole, fraction = 0, 0 -- ticks until the debt ends, and over rate
        if expires > 0 then
          whole, fraction = expires / tick - ticks, x
          if fraction > 0 then whole = whole - 1 end
          before = rate > 1 and pack('>I7', x) or ''
        end
        a, b = whole, fraction
        if operation == 'r' then
          local debt = math.min(cost, capacity / unit) * unit
          local passed = math.max(ticks - floor(charged / tick), 0)
          if passed <= floor(debt / rate) then
            debt = debt - passed * rate
            whole, fraction = whole - floor(debt / rate), fraction - debt % rate
            if fraction < 0 then whole, fraction = whole - 1, fraction + rate end
            if whole < 0 then whole, fraction = 0, 0 end
          end
        elseif cost > 0 then
          local full = floor(capacity / rate)
          if operation == 'c' then
            if whole < full then
              local debt = math.min(capacity, whole * rate + fraction + math.min(cost, capacity / unit) * unit)
              whole, fraction = floor(debt / rate), debt % rate
            end
          else
            local units = cost * unit
            local debt = whole * rate + fraction
            if whole > full or debt + units > capacity then
              fits = 0
            else
              if times > 1 then fits = math.min(times, floor((capacity - debt) / units)) end
              local n = fits < most and fits or most
              debt = debt + n * units
              whole, fraction = floor(debt / rate), debt % rate
            end
          end
        end
        if whole > 0 or fraction > 0 then
          ends = (ticks + whole + (fraction > 0 and 1 or 0)) * tick
          after = rate > 1 and pack('>I7', fraction) or ''
        end
        if operation == 'r' or operation == 'c' then a, b = whole, fraction end

      elseif algorithm == WINDOW then
        if expires == 0 then expires = now - (now - offset) % unit + unit end
        ends = expires
        a, b = x, expires - now
        if x > 0 then before = pack('>I7', x) end
        if operation == 'r' then
          if charged >= expires - unit then x = x - math.min(x, cost) end
          a = x
        elseif cost > 0 then
          if operation == 'c' then
            x = math.max(x, math.min(capacity, x + cost))
            a = x
          else
            fits = math.max(math.min(times, floor((capacity - x) / cost)), 0)
            x = x + math.min(fits, most) * cost
          end
        end
        if x > 0 then after = pack('>I7', x) end

      elseif algorithm == ESTIMATE then
        local ticks = tick == 1 and now or floor(now / tick)
        if expires > 0 and ticks >= expires / tick - unit then
          x, y = 0, x
          expires = y > 0 and expires + unit * tick or 0
        end
        if expires == 0 then
          expires = (ticks - (ticks - offset / tick) % unit + 2 * unit) * tick
        end
        ends = expires
        local start = expires / tick - 2 * unit
        local elapsed = ticks > start and ticks - start or 0
        a, b, c = x, y, elapsed
        if x > 0 or y > 0 then before = pack('>I7I7', x, y) end
        if operation == 'r' then
          local when = floor(charged / tick)
          if when >= start then
            x = x - math.min(x, cost)
          elseif when >= start - unit then
            y = y - math.min(y, cost)
          end
          a, b = x, y
        elseif cost > 0 then
          if operation == 'c' then
            x = math.max(x, math.min(capacity, x + cost))
            a = x
          else
            -- What the last window weighs, rounded up, is taken from the quota.
            local weighs = y * (unit - elapsed)
            local room = capacity - x - floor(weighs / unit) - (weighs % unit > 0 and 1 or 0)
            fits = math.max(math.min(times, floor(room / cost)), 0)
            x = x + math.min(fits, most) * cost
          end
        end
        if x > 0 or y > 0 then after = pack('>I7I7', x, y) end

      else -- sliding log
        local ENTRY = 9
        local gone = 0
        while gone < #entries do
          local when, n = unpack('>I7I2', entries, gone + 1)
          if when + unit > now then break end
          gone, x = gone + ENTRY, x - n
        end
        if gone > 0 then entries = sub(entries, gone + 1) end

        -- the microseconds until enough of the oldest entries have left for units to fit
        local function wait(units)
          local missing = x + units - capacity
          if missing <= 0 or units > capacity then return 0 end
          for q = 1, #entries, ENTRY do
            local when, n = unpack('>I7I2', entries, q)
            missing = missing - n
            if missing <= 0 then return when + unit - now end
          end
          return 0
        end
        local function newest()
          return entries ~= '' and unpack('>I7', entries, #entries - ENTRY + 1) or 0
        end

        local last = newest()
        a, b, c, d = x, wait(cost), wait(1), x > 0 and last + unit - now or 0
        if x > 0 then before, expires = pack('>I2', x) .. entries, last + unit end
        local asked = cost
        if operation == 'r' then
          asked = 0
          for q = 1, #entries, ENTRY do
            local when, n = unpack('>I7I2', entries, q)
            if when == charged then
              local less = math.min(n, cost)
              local left = less < n and pack('>I7I2', when, n - less) or ''
              x, entries = x - less, sub(entries, 1, q - 1) .. left .. sub(entries, q + ENTRY)
              break
            end
          end
        else
          local more = cost
          if operation == 'c' then
            asked, more = 0, math.max(math.min(cost, capacity - x), 0)
          elseif x + cost > capacity then
            fits, more = cost > 0 and 0 or fits, 0
          end
          if more > 0 then
            x = x + more
            if last >= now then
              local n = unpack('>I2', entries, #entries - 1)
              entries = sub(entries, 1, -ENTRY - 1) .. pack('>I7I2', last, n + more)
            else
              entries = entries .. pack('>I7I2', now, more)
            end
          end
        end
        last = newest()
        if operation ~= 't' then
          if operation ~= 'p' then a, b, c, d = x, wait(asked), wait(1), x > 0 and last + unit - now or 0 end
        elseif fits > 0 and cost > 0 then
          -- The answer depends on whether the group is granted: both, until that is known.
          answers[-(reply + i)] = pack('>I2I7I7I7I7', fits, x, wait(asked), wait(1), x > 0 and last + unit - now or 0)
        end
        if x > 0 then after, ends = pack('>I2', x) .. entries, last + unit end
      end

      if operation == 'x' then
        after, converted = nil, false
      elseif fits < grant and shadow == 0 then
        grant = fits
      end

      if pass == 2 then
        -- Put the new record where the old one is, or at the end.
        local state = after
        if fits == 0 then state = before end
        if converted or fits > 0 and (cost > 0 or operation == 'x') then
          local record = state and pack('>I2I4I7', HEAD + #form + #state, limit, fits > 0 and ends or expires) .. form .. state or ''
          granted[name] = sub(value, 1, at - 1) .. record .. sub(value, at + length)
          if converted then
            -- The old numbers must go even if the request is denied: see core.Rule.open.
            record = before and pack('>I2I4I7', HEAD + #form + #before, limit, expires) .. form .. before or ''
            local same, spot, span, other = denied[name], 2
            while true do
              span, other = unpack('>I2I4', same, spot)
              if other == limit then break end
              spot = spot + span
            end
            denied[name] = sub(same, 1, spot - 1) .. record .. sub(same, spot + span)
          end
        end
        answers[reply + i] = pack('>I2I7I7I7I7', fits, a, b, c, d)
      end
    end
    if failure then break end
  end

  if failure then
    for i = reply + 1, #answers do answers[i] = nil end
    answers[reply + 1] = FAILED .. pack('>I2', #failure) .. failure
  elseif operation ~= 'p' then
    local final = grant > 0 and granted or denied
    for i = 1, checks do
      if grant > 0 and answers[-(reply + i)] then answers[reply + i] = answers[-(reply + i)] end
    end
    for name, value in pairs(final) do
      if value ~= values[name] then values[name], changed[name] = value, true end
    end
  end
  if g < #ARGV then denied, granted = {}, {} end
end

-- Write what changed, key by key, less the records whose time has passed.
local writes = {}
for name in pairs(changed) do
  local value = values[name]
  if value ~= stored[name] then
    local last, at = 0, 2
    while at <= #value do
      local length, _, expires = unpack('>I2I4I7', value, at)
      if expires > now then
        if expires > last then last = expires end
        at = at + length
      else
        value = sub(value, 1, at - 1) .. sub(value, at + length)
      end
    end
    -- Expiry is in whole milliseconds, of a clock that may have been read a moment earlier.
    local ttl = 0
    if last > 0 then
      ttl = math.ceil(last / 1000) - floor(now / 1000) + 1
      if not own then ttl = ttl + 3600000 end -- a test's clock may stand still for an hour
    end
    writes[#writes + 1] = {name, string.format('%d', ttl), value}
  end
end
for i = 1, #writes do
  local write = writes[i]
  if write[2] == '0' then
    redis.call('DEL', write[1])
  else
    redis.call('PSETEX', write[1], write[2], write[3])
  end
end

return table.concat(answers)
