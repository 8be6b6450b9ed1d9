-- The frame of the script. It reads the clock and the values of the keys, and decides group
-- by group, key by key and check by check. The piece named in a line "--> piece", or the
-- section in "--> piece.section", goes below that line: see script.go.

--# frame
--> header

-- Operations; algorithms and other records, by the names of their pieces.
local TAKE, PEEK, CHARGE, REFUND, RESET, RENEW, RESTORE = 1, 2, 3, 4, 5, 6, 7
local TOKENBUCKET, FIXEDWINDOW, SLIDINGWINDOW, SLIDINGLOG, CALENDAR, PENALTY, MARK, CONCURRENCY,
  LEDGER, MANUAL = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local VERSION = '\2'
local ENTRY = 9                   -- the length of a log's entry
local NOTICE = 9007199254740990         -- the limit of a notice's record
local HOLD = '\255\255\255\255\255\255\31\48\52\64\66\15' -- the head of a hold's record
local AFTERLIFE = 21600000000     -- how long an account is kept after its period: KeptAfter in core/store/counting/ledger.go
local spread, unpack, pack, sub, byte = unpack, struct.unpack, struct.pack, string.sub, string.byte

local order = ARGV[2] and ARGV[#ARGV]
local orderAt = 2                 -- where the next group begins in order
local own = not order or byte(order) == 0
local now
if own then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now, orderAt = unpack('<d', order, 2)
end

-- By the index of the key: what it holds after the groups so far, and, if that must be
-- written, when its last record expires, or 0 if no record is left. A call of one group with
-- one key needs no tables: its value is only.
local only, values, expiries
if not order or #order == orderAt + 3 then
  only = redis.call('GET', KEYS[1]) or ''
else
  values, expiries = redis.call('MGET', spread(KEYS)), {}
end
local value, last                 -- of the key at work

-- What the group asks. It is kept from group to group, because most ask the same.
local asked, operation, total, keys, first -- first: the checks of the first key
local algorithm, tick, per, capacity, full, cost, offset, head, charged, shadow
local mark                        -- the number of the key of the check's mark
local choice, place, guess        -- the number of the check's choice, or nil, its place in that, and which place is to pay
local utmost                      -- what a charge can bring the use to at most
local generation, expect, restored -- of an account that is restored
local history                     -- of this server, once a ledger has asked
local reads, writes               -- the formats of a record and its state
local farthest                    -- when a record can expire at most that is written now
local penalties                   -- whether the group has penalties
local divides                     -- whether the group has checks with shares
local plain                       -- whether the group is a plain take: see plain
local planned, plan, layout, length, opening, lengthOfOne
local guarded                     -- the limit that the penalty guards
local barred                      -- until when the check's key is blocked by hand, or nil
local rollShare, meetShare, boundShare, drainShare, holdsShare, untilShare, chargeShare, refundShare,
  overShare, takeBackShare, capShare, judgeUserShare -- functions of share
local quick, quickTerms           -- the last plain ask with a share, and its numbers: see share
local shared, shareTerms          -- the last ask with shares, and what it says of them: see share
local bars                        -- for each check of the group that is: see RETURN; or nil

local answers                     -- to the groups so far, if the call has several keys

-- The answer to the group so far. It is nil until the first check of the call has an answer,
-- which goes behind the time.
local answer

repeat
  local index, times, high, low = 1, 1, 0, 1
  if order then index, times, high, low = byte(order, orderAt, orderAt + 3) end
  local ask = ARGV[index]
  local known = ask == asked      -- it is parsed already, with its only check
  if not known then
    asked, operation, total, keys, first = nil, byte(ask, 1, 4)
    penalties = operation > 127
    if penalties then operation = operation - 128 end
    plain = operation > 63
    if plain then operation = operation - 64 end
    divides = operation > 31
    if divides then operation = operation - 32 end
  end
  local start = orderAt + 2
  local grant = times             -- how many of the equal requests the checks so far grant
  local failure                   -- the error text, if a key can't be read
  local pending                   -- by the number of the key, if there are several: see grant.group
  local repeated                  -- by the number of a mark's key: until when the operation is a repeat, or false
  local k, built, held, dirty, converted
  local picked, lowest            -- by the number of a choice: see choice; nil without any
  bars = nil
  local missed                    -- whether the key has a denial that may be repeated: see notice

  local shares, shareKeys         -- by limit and key: see share
  local settled                   -- whether share.plain has decided the group
  if divides and plain then
    --> share.plain
  end
  if divides and not settled then
    --> share.plan
  end

  local done = settled
  if plain and not divides then
    if total == 1 then
      --> plain.one
    else
      --> plain
    end
  end

  -- A group is charged while it is decided (pass 2), on the assumption that it will be
  -- granted. Two kinds of groups are only decided first (pass 1): equal requests with several
  -- checks, because what a check charges depends on how many of them are granted; and
  -- groups with penalties. For those, by key and limit: blocks says when the limit's block
  -- ends, exceeded are those whose cost did not fit; exceeded.unknown says that none counts.
  local blocks, exceeded
  if penalties then blocks, exceeded = {}, {} end
  local pass = done and 3 or (penalties or times > 1 and total > 1) and 1 or 2
  while pass < 3 do
    if failure then break end
    local most = grant
    local askAt = 5               -- where the next check begins in ask
    orderAt = start
    answer, bars = answers and '' or nil, nil

    for key = 1, keys do
      k = high * 256 + low
      if key > 1 then
        local h, l = byte(order, orderAt, orderAt + 1)
        k = h * 256 + l
      end
      orderAt = orderAt + 2
      value = only or values[k]
      if not value then
        -- The key does not exist, or is of another type: MGET does not tell which.
        value = redis.pcall('GET', KEYS[k]) or ''
        if type(value) == 'table' then
          failure = value.err
          break
        end
        values[k] = value
      end
      if value ~= '' and byte(value) ~= 2 then
        failure = 'WEBLIMIT value of an unknown version' -- no key: this text ends in logs
        break
      end

      -- The records of the key are in the order of its checks, and at moves along them.
      --   value   what the key holds; records are converted where a limit's numbers have changed
      --   held    when the last record of value expires
      --   built   what the key will hold if the group is granted
      --   last    when the last record of built expires
      --   dirty   whether a check has changed built
      local at = 2
      local checks = first
      if key > 1 then checks, askAt = byte(ask, askAt), askAt + 1 end
      built, held, last, dirty, converted = VERSION, 0, 0, false, false

      for _ = 1, checks do
        local foreign             -- the record as it stays, if it was not written under the numbers of a refund
        local foreignEnds         -- and when it expires
        local spared, sparedTo, sparedFor, sparedOne -- of a record that counts more than these numbers hold: see convert
        if not known then
          --> parse
        end

        --> find

        --> read
        if spared then
          at, held = sparedTo, math.max(held, spared)
        end

        -- The algorithm's piece brings the state to now and appends the check's reading to answer.
        -- In a take or peek it sets fits, how many of the equal requests the check has room for,
        -- and charges as many of these as are granted, at most. If the state has changed, it sets
        -- ends: when the record expires, or 0 if nothing is used any more.
        local fits = times
        local a, b, ends
        local client              -- that has a share of the check, if it has one: see share
        local added               -- what a charge has added
        local answered = answer and #answer or 7 -- where the answer to this check begins, from 0
        local free = cost == 0
        local asks = cost
        if foreign then cost = 0 end
        local bar = operation <= PEEK and not free and barred
        if mark and repeated[mark] then
          -- At the end of a block that ends after its mark, the operation is charged as a new one.
          local blocked = blocks and blocks[sub(head, 1, 7) .. key] or bar
          if bar and bar > blocked then blocked = bar end
          if not (blocked and blocked >= repeated[mark]) then fits, cost = 2, 0 end
        end

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

        elseif algorithm == LEDGER then
          --> ledger.decide

        elseif algorithm == MANUAL then
          --> manual.decide

        else                      -- SLIDINGLOG
          --> slidinglog.decide
        end

        --> grant.check
        cost = asks
      end

      -- The records of later limits.
      local limit = 9007199254740992 -- above any
      --> find.pass

      if keys > 1 then
        pending = pending or {}
        pending[key] = {k, value, held, built, last, dirty, converted, missed}
        missed = nil
      end
    end
    if failure then break end
    asked = total == 1 and ask
    pass = pass + 1
    if lowest then
      --> choice.pick
    end
  end

  --> grant.group
  if shares then
    orderAt = orderAt + 2 * shareKeys
    if not failure then
      --> share.commit
    end
  end
  if bars and not failure then
    --> manual.answer
  end
  if values then
    answers = answers or {}
    answers[#answers + 1] = answer
  end
until not order or orderAt > #order

--> write

return answers and table.concat(answers) or answer
