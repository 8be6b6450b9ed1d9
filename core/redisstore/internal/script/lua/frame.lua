-- The frame of the script. It reads the clock and the values of the keys, and decides group
-- by group, key by key and check by check. The piece named in a line "--> piece", or the
-- section in "--> piece.section", goes below that line: see script.go.

--# frame
--> header

-- The operations, and the algorithms and other records by the names of their pieces.
local TAKE, PEEK, CHARGE, REFUND, RESET, RENEW = 1, 2, 3, 4, 5, 6
local TOKENBUCKET, FIXEDWINDOW, SLIDINGWINDOW, SLIDINGLOG, CALENDAR, PENALTY, MARK, CONCURRENCY =
  1, 2, 3, 4, 5, 6, 7, 8
local VERSION = '\1'
local ENTRY = 9                   -- the length of a log's entry
local HOLD = '\255\255\255\255\48\52\64\66\15' -- the head of a hold
local spread, unpack, pack, sub, byte = unpack, struct.unpack, struct.pack, string.sub, string.byte

local order = ARGV[2] and ARGV[#ARGV]
local p = 2                       -- where the next group begins
local own = not order or byte(order) == 0
local now
if own then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now, p = unpack('<d', order, 2)
end

-- What the keys hold by now, by index, and of what must be written: when its last record
-- expires, 0 if none is left. A group of one key that is alone needs no tables.
local only, values, expiries
if not order or #order == p + 3 then
  only = redis.call('GET', KEYS[1]) or ''
else
  values, expiries = redis.call('MGET', spread(KEYS)), {}
end
local value, last

-- What is asked: kept from group to group, most ask the same.
local asked, operation, total, keys, first -- first: the checks of the first key
local algorithm, tick, per, capacity, full, cost, offset, head, charged, shadow
local mark                        -- the number of the key of the check's mark
local reads, writes               -- the formats of a record's state
local penalties, guarded          -- whether the group has penalties; the limit that one guards

local answers
-- The answer to the group so far. It is nil before the first check of the call is answered:
-- that answer comes behind the time.
local answer

repeat
  local index, times, high, low = 1, 1, 0, 1
  if order then index, times, high, low = byte(order, p, p + 3) end
  local ask = ARGV[index]
  local known = ask == asked      -- all of it is parsed already
  if not known then
    asked, operation, total, keys, first = nil, byte(ask, 1, 4)
    penalties = operation > 127
    if penalties then operation = operation - 128 end
  end
  local start = p + 2
  local grant = times             -- how many of the equal requests all enforced checks fit, so far
  local failure, pending
  local repeated                  -- by the number of a mark's key: it counts
  local k, built, held, dirty, converted

  -- A group is decided as it is read, with its charges, on the assumption that it will be
  -- granted. What equal requests charge depends on how many are granted: then it is
  -- judged (pass 1) before it is charged (pass 2). So is a group with penalties: then
  -- blocks are those that hold, and exceeded the limits that cost did not fit, by key and limit.
  local blocks, exceeded
  if penalties then blocks, exceeded = {}, {} end
  for pass = (penalties or times > 1 and total > 1) and 1 or 2, 2 do
    local most = grant
    local q = 5                   -- in ask
    p = start
    answer = answers and '' or nil

    for key = 1, keys do
      k = high * 256 + low
      if key > 1 then
        local h, l = byte(order, p, p + 1)
        k = h * 256 + l
      end
      p = p + 2
      value = only or values[k]
      if not value then
        -- None, or of a type that MGET takes for none.
        value = redis.pcall('GET', KEYS[k]) or ''
        if type(value) == 'table' then
          failure = value.err
          break
        end
        values[k] = value
      end
      if value ~= '' and byte(value) ~= 1 then
        failure = 'WEBLIMIT value of an unknown version' -- no key: this text ends in logs
        break
      end

      -- The key's records are in the order of its checks. at walks along value, which is
      -- brought under the limits' numbers where they have changed; built is what the
      -- key shall hold if the group is granted. held and last: when the last record of
      -- either expires.
      local at = 2
      local checks = first
      if key > 1 then checks, q = byte(ask, q), q + 1 end
      built, held, last, dirty, converted = VERSION, 0, 0, false, false

      for _ = 1, checks do
        if not known then
          --> parse
        end

        --> find

        --> read

        -- By algorithm: bring the bucket to now and read it (a to d, the check's core.Reading);
        -- count how often cost fits; charge it so often, as far as the group is granted, or
        -- give it back. Then ends is when the bucket expires, 0 if nothing is used any more;
        -- it is nil as long as nothing has changed.
        local fits = times
        local a, b, ends
        local answered = answer and #answer or 7
        local free = cost == 0
        if mark and repeated[mark] then fits, cost = 2, 0 end

        if algorithm == TOKENBUCKET then
          --> tokenbucket.decide

        elseif algorithm == FIXEDWINDOW then
          --> fixedwindow.decide

        elseif algorithm == CALENDAR then
          --> calendar.decide

        elseif algorithm == SLIDINGWINDOW then
          --> slidingwindow.decide

        elseif algorithm == PENALTY then
          --> penalty.decide
        elseif algorithm == MARK then
          --> mark.decide

        elseif algorithm == CONCURRENCY then
          --> concurrency.decide

        else -- sliding log
          --> slidinglog.decide
        end

        --> grant.check
      end

      -- The records of later limits.
      local limit = 4294967296    -- above any
      --> find.pass

      if keys > 1 then
        pending = pending or {}
        pending[key] = {k, value, held, built, last, dirty, converted}
      end
    end
    if failure then break end
    asked = total == 1 and ask
  end

  --> grant.group
  if values then
    answers = answers or {}
    answers[#answers + 1] = answer
  end
until not order or p > #order

--> write

return answers and table.concat(answers) or answer
