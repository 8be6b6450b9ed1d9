--> header
-- Takes, peeks at, charges, refunds, resets, renews or restores groups of checks. The checks of one
-- request are one group, of which all are charged or none. A call holds the groups of many
-- requests.
--
-- One script serves all algorithms, because the checks of one request must be decided in one
-- call. The arithmetic is that of the files of core/store that are named like the pieces.
-- Every number is an integer below 2^53, which Lua computes exactly.
--
-- Most of the time goes into what the script makes Lua create: strings, tables and functions,
-- some 0.1 µs each, and Redis commands. Therefore the usual path is straight code without
-- functions, a table is made only where a call has several keys, and a record is recognized by
-- comparing its first bytes with those that the client has prepared. Only a record that does not
-- look as expected is taken apart.
--
-- KEYS     the client keys of all groups, each once. One key holds all limits of a client key
--
-- ARGV[…]  what groups ask, each text once. Integers are little-endian, numbers are IEEE 754
--          doubles, lengths in bytes stand in parentheses:
--          operation    (1) 1 take, 2 peek, 3 charge, 4 refund, 5 reset, 6 renew, 7 restore;
--                       plus 128 for a take or peek with penalties; plus 64 for a plain take: of
--                       token buckets of one key, each enforced, with a cost, and neither
--                       with a mark nor of the lower class; plus 32 for checks with shares
--          checks       (1) how many, marks and penalties included
--          keys         (1) how many, and then per key, keys of marks first:
--          its checks   (1) how many, and then per check, by ascending limit; a mark's key has one:
--          algorithm    (1) 1 token bucket, 2 fixed window, 3 sliding window, 4 sliding log,
--                       5 calendar window, 6 penalty, 7 mark of an operation that is charged once,
--                       8 concurrency, 9 ledger, 10 block by hand; plus 128 if the check is in shadow mode: judged, not
--                       enforced; plus 64 if it is charged only if its operation has no mark; plus
--                       32 if the capacity is that of the lower class of requests; plus 16 if it is
--                       one of several alternatives
--          tick         number: microseconds; calendar, ledger: when the current window began by the
--                       client's clock, in microseconds since the epoch
--          per          number: token bucket: debt drained in a tick; calendar, ledger: when that
--                       window ends; mark: how long it counts; concurrency: the lease; else the window, in
--                       ticks
--          capacity     number: token bucket: the debt that it holds; mark: how many repeats are
--                       free; else the quota in units
--          cost         number: token bucket: debt; else units. In a restoration: the units used
--          offset       number: of the windows, in microseconds, or below 0 if they begin with first use;
--                       token bucket: how many microseconds ahead it can expire; calendar, ledger: when
--                       the window after the current one ends
--          head         (1) its length, then the bytes with which the limit's record begins
--          charged      number, in a refund, renewal or restoration only: when the cost was charged;
--                       calendar, ledger: when the window ends in which it was charged, or to which
--                       the restoration belongs
--          generation   number, in a restoration only: the one that begins
--          expect       number, in a restoration only: the generation or, from 2^36, the position that
--                       there must be, or 0 if the account
--                       must be unknown
--          history      number, in a restoration only: the server's, which there must be
--          mark         (1) only after "plus 64": the number of the mark's key in the group
--          full         number, only after "plus 32": the capacity of the higher class, which
--                       determines how records are stored; without it, full is the capacity
--          choice       (1) only after "plus 16": the number of the choice in the group, from 1, (1) the
--                       check's place in it, from 0, and (1) the place that will likely pay. The group is of one request
--          utmost       number, in a charge only: what it can bring the use to at most; token bucket: debt
--          A penalty is a check beside the check that it guards, of the same key. Its numbers are,
--          in the places of tick to offset: how many denials begin a block, how long they count, how
--          long the first block lasts, how many times longer the next one lasts, and the longest
--          block; times are in microseconds. A charge begins a block as long as the first. In a take
--          of units ahead the first number is 0, and the third says for how long no denial counts.
--          Its head is followed by:
--          guarded      (7) the id of the limit that it guards
--          A block by hand is a check with no more than how long it lasts in the place of per, 0 for none. A
--          charge sets it, and a reset forgets it.
--          At its end, once:
--          shares       only after "plus 32", for each check with a share: limit (7), key (1) its number in the group, keys (1)
--                       2, or 4 if users divide the client's share; then the numbers: microseconds of a tick, ticks of a
--                       window, parts of the quota, parts of the cost, units of the cost, weight, minimum, maximum, the
--                       debt that the bucket must have room for beside that of a request within its share, of one
--                       over its share, and before the level falls, parts of a unit, and in a refund when the
--                       cost was charged and the standing. Behind all of them (2) their length
--          layout       (1) its length, then the bytes, only of a plain take of several checks: the format of struct of a
--                       value that holds just the records of its checks
--          age          (1) in a take of a caller that repeats denials, else 0: n if it does so for up
--                       to 2^n milliseconds, and hears what is published
--          prefix       (1) how long the prefix of the store's keys is; 0 if that is above 255. What
--                       follows it in a key is published, in the channel of the prefix and "given-back"
-- ARGV[#]  the groups. It is left out if there is one group of one request with one key, decided
--          at the server's time:
--          clock        (1) 0: the server's; 1: the number that follows, microseconds since the epoch
--          per group    (1) the index in ARGV of what it asks, (1) how many equal requests ask it,
--                       each by itself, up to 126, or 1 with a sliding log, mark or penalty; then
--                       per key, and per key of a share behind them (2, big-endian) its index in KEYS
--
-- RETURN   now          (7) microseconds since the epoch
--          per check    (1) how many of the equal requests the check has room for, by itself, or 2
--                       if its operation was charged before; plus 128 if it has no room for some of
--                       them while the key has a hold. Then (7 each) the numbers of the check's
--                       counting.Reading, taken before a take or peek and after any other operation:
--                       3 of a sliding window; 4 of a ledger, or of a sliding log, and in a take of one 4 more, taken
--                       after it is granted; else 2. A penalty has 1: the microseconds until its
--                       block ends, 0 if there is none. In a charge another one follows: what it has
--                       added; token bucket: debt. A mark has no answer. A restoration
--                       says how many of the checks it restored: 0 or 1
--          A check with a share has two more behind its numbers: the parts that are the share, and what
--          Sharing.tell in core/store/counting/sharing.go says.
--          A penalty's answer is also that of a block by hand, which means nothing.
--          A take or peek with checks of keys that are blocked by hand has before that: (1) 127, (1) how many
--          checks, and for each (2) where its answer begins and (7) the microseconds until its block ends.
--          A plain take can have instead: (1) 254, (1) 1 if all requests are granted, or 0 if the only
--          one is denied, and the value before that, which is of the layout's length. Of one check it is the
--          state of the record before that, zeros if there was none.
--          A group with a key that can't be read has instead: (1) 255, (2) the length of an error
--          text, and the text. Nothing of it was charged.
--
-- VALUE    version      (1) 2
--          records      by ascending limit, of one limit a block by hand first: head, (7) when it expires, in microseconds since the
--                       epoch, and state
--
--          The keys of shares hold no records, but behind the version (1) 177 and a division, numbers: when it expires, round,
--          level, active, before, capped, over and clients; or (1) 176 and a part: numbers, when it expires, at, debt, least,
--          most and round, (1) capped plus 2 if large: Division and Part in core/store/counting/share.go.
-- HEAD     limit        (7) its id, a hash of 52 bits of its name; of a penalty 2^52 more
--          algorithm    (1) × 16, plus the tick: 0 1 µs, 1 1 ms, 2 1 s
--          sizes        (1) the length of unit × 16, plus the width
--          unit         token bucket: debt of one unit; calendar, ledger: a number for the kind of window;
--                       penalty and mark: none; else the window in ticks
--          rate         (width) of a token bucket only: debt drained in a tick, unless that is 1
-- STATE    token bucket    (width) the part of a tick in which the last debt drains, × rate
--          fixed window    (width) units used
--          calendar window (width) units used
--          sliding window  (width) units used in this window, (width) in the one before
--          sliding log     (2) units used, (2) entries, then per entry (7) when, (2) units
--          concurrency     as a sliding log
--          penalty         (7) when its denials stop counting, or without any when the block began,
--                          (7) when the last block ends,
--                          (4) denials that count, (2) blocks in a row.
--                          Without any of both, and the first time after the second: until when
--                          processes may hold units, and when one took some. If such a record expires
--                          later than that, none are taken ahead before
--          mark            (7) when the operation was charged, (2) repeats since then
--          block by hand   (7) since when; it ends when it expires
--          ledger          (7) units used, (7) position: generation × 2^36 plus the number of changes;
--                          0 if the account is unknown, since it was used under another algorithm;
--                          (7) history of the server that began the generation
--          The width is 0 if there is nothing of that width, else 1, 2, 4 or 7. For the counts of
--          a window it is at least 4, and holds twice the quota, which a charge can bring them
--          to. For a mark it is 9: all of its state.
--          For a ledger it is 7, or 14 in a record without a history.
--
--          A hold says that the key has charges that may still be given back: they belong to
--          requests whose other slots have not answered yet. It is a sliding window of limit
--          9007199254740991, and so the last record of a value, always of 27 bytes. Its units are the
--          number of such charges.
--
--          A notice says that the denial of a request may be repeated by a process without asking, and
--          that the process hears what is published. It is a mark without state of limit
--          9007199254740990, of 16 bytes, behind all records but a hold. It does not keep the key.
--
-- A record that has expired equals none. But a ledger's is kept for six hours more, and becomes that
-- of the next period. A key expires with its last record but a notice. Nothing is written
-- before all groups are decided: a call that fails on an unforeseen value has changed nothing, and
-- left no more than notices.
-- Only Redis refusing a write can leave a call half done.

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
      end
    end
  end
  if divides and not settled then
    --> share.plan
    if not rollShare then
      --> share.functions
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
  end

  local done = settled
  if plain and not divides then
    if total == 1 then
      --> plain.one
      if not known then
        algorithm, tick, per, capacity, cost, offset, head = unpack('<BdddddBc0', ask, 5)
        shadow, full, mark, choice, asked = false, capacity, nil, nil, ask -- as parse would have it
        --> tokenbucket.format
        if per == 1 then
          writes = '<c0c0I7'
        elseif per < 256 then
          reads, writes = '<I7B', '<c0c0I7B'
        elseif per < 65536 then
          reads, writes = '<I7I2', '<c0c0I7I2'
        elseif per < 4294967296 then
          reads, writes = '<I7I4', '<c0c0I7I4'
        else
          reads, writes = '<I7I7', '<c0c0I7I7'
        end
        farthest = now + offset
        opening = VERSION .. head
        lengthOfOne = #opening + 7 + (per > 1 and byte(head, 9) % 16 or 0)
      end
      k = high * 256 + low
      value = only or values[k]
      if not value then
        value = redis.pcall('GET', KEYS[k]) or '' -- MGET does not tell whether it is of another type
        if type(value) == 'string' then values[k] = value end
      end
      if value == '' or #value == lengthOfOne and sub(value, 1, #opening) == opening then
        local fit, before = true, '\0\0\0\0\0\0\0'
        local microseconds, rate, room, more = tick, per, capacity, times * cost
        local ends, part = 0, 0
        if value ~= '' then
          before = sub(value, #opening + 1)
          if per > 1 then ends, part = unpack(reads, before) else ends = unpack('<I7', before) end
        elseif per > 1 then
          before = string.rep('\0', lengthOfOne - #opening)
        end
        if ends <= farthest and ends % tick == 0 then
          --> plain.bucket
          local since = microseconds > 1 and now - now % microseconds or now
          if rate == 1 then
            if ends < since then ends = since end
            ends = ends + more * microseconds
            fit = fit and ends <= since + room * microseconds
          else
            local debt = more
            if ends > now then
              debt = debt + ((ends - since) / microseconds - (part > 0 and 1 or 0)) * rate + part
            end
            fit = fit and debt <= room
            part = debt % rate
            ends = since + ((debt - part) / rate + (part > 0 and 1 or 0)) * microseconds
          end
          done = fit or times == 1
          if done then
            orderAt, missed, dirty, last = start + 2, not fit, fit, ends
            if fit then built = pack(writes, VERSION, head, ends, part) end
            --> plain.answer
            if answers then
              answers[#answers + 1] = fit and '\254\1' or '\254\0'
              answer = before
            else
              answer = pack('<I7BBc0', now, 254, fit and 1 or 0, before)
            end
          end
        end
      end
    else
      --> plain
      if ask ~= planned then
        planned, plan = ask, {unpack('<' .. string.rep('BdddddBc0', total), ask, 5)}
        layout = unpack('<Bc0', ask, plan[#plan])
        length = struct.size(layout)
      end
      k = high * 256 + low
      value = only or values[k]
      if value and #value == length then
        local records, r, p = {unpack(layout, value)}, 2, 0 -- the first one is the version
        local fit = true
        done, last = records[1] == VERSION, 0
        while done and p < 7 * total do
          local microseconds, rate, room = plan[p + 2], plan[p + 3], plan[p + 4]
          local more, ends, part = times * plan[p + 5], records[r + 1], 0
          done = records[r] == plan[p + 7] and ends <= now + plan[p + 6] and ends % microseconds == 0
          if rate > 1 then part = records[r + 2] end
          --> plain.bucket
          local since = microseconds > 1 and now - now % microseconds or now
          if rate == 1 then
            if ends < since then ends = since end
            ends = ends + more * microseconds
            fit = fit and ends <= since + room * microseconds
          else
            local debt = more
            if ends > now then
              debt = debt + ((ends - since) / microseconds - (part > 0 and 1 or 0)) * rate + part
            end
            fit = fit and debt <= room
            part = debt % rate
            ends = since + ((debt - part) / rate + (part > 0 and 1 or 0)) * microseconds
          end
          records[r + 1] = ends
          if rate > 1 then
            records[r + 2] = part
            r = r + 3
          else
            r = r + 2
          end
          if ends > last then last = ends end
          p = p + 7
        end
        done = done and (fit or times == 1)
        if done then
          orderAt, missed, dirty = start + 2, not fit, fit
          if fit then built = pack(layout, spread(records)) end
          local before = value
          --> plain.answer
          if answers then
            answers[#answers + 1] = fit and '\254\1' or '\254\0'
            answer = before
          else
            answer = pack('<I7BBc0', now, 254, fit and 1 or 0, before)
          end
        end
      end
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
            choice, place, guess = byte(ask, askAt, askAt + 2)
            askAt = askAt + 3
            algorithm = algorithm - 16
          end
          if operation == CHARGE and algorithm ~= PENALTY and algorithm ~= MANUAL then utmost, askAt = unpack('<d', ask, askAt) end
          if algorithm == TOKENBUCKET then
            --> tokenbucket.format
            if per == 1 then
              writes = '<c0c0I7'
            elseif per < 256 then
              reads, writes = '<I7B', '<c0c0I7B'
            elseif per < 65536 then
              reads, writes = '<I7I2', '<c0c0I7I2'
            elseif per < 4294967296 then
              reads, writes = '<I7I4', '<c0c0I7I4'
            else
              reads, writes = '<I7I7', '<c0c0I7I7'
            end
            farthest = now + offset
          elseif algorithm == FIXEDWINDOW then
            --> fixedwindow.format
            if byte(head, 9) % 16 == 4 then
              reads, writes = '<I7I4', '<c0c0I7I4'
            else
              reads, writes = '<I7I7', '<c0c0I7I7'
            end
            farthest = now + per
          elseif algorithm == CALENDAR then
            --> fixedwindow.format
            if byte(head, 9) % 16 == 4 then
              reads, writes = '<I7I4', '<c0c0I7I4'
            else
              reads, writes = '<I7I7', '<c0c0I7I7'
            end
            farthest = now + per
            --> calendar.farthest
            -- The window after the present one: the clock may have been set back over its beginning. A client
            -- whose own present is another does not name it.
            farthest = now < tick and math.min(per, now + 4 * (per - tick)) or now < per and offset or now + 2 * (offset - per)
          elseif algorithm == SLIDINGWINDOW then
            --> slidingwindow.format
            if byte(head, 9) % 16 == 4 then
              reads, writes = '<I7I4I4', '<c0c0I7I4I4'
            else
              reads, writes = '<I7I7I7', '<c0c0I7I7I7'
            end
            farthest = now + 2 * per * tick
          elseif algorithm == PENALTY then
            --> penalty.format
            writes = '<c0c0I7I7I7c0'
            guarded, askAt = sub(ask, askAt, askAt + 6), askAt + 7
            farthest = 9007199254740992       -- 2^53: see decide
          elseif algorithm == MARK then
            --> mark.format
            reads, writes = '<I7I7I2', '<c0c0I7I7I2'
            farthest = 9007199254740992       -- 2^53: see decide
          elseif algorithm == LEDGER then
            --> ledger.format
            reads, writes = '<I7I7I7I7', '<c0c0I7I7I7I7'
            --> calendar.farthest
            -- The window after the present one: the clock may have been set back over its beginning. A client
            -- whose own present is another does not name it.
            farthest = now < tick and math.min(per, now + 4 * (per - tick)) or now < per and offset or now + 2 * (offset - per)
          elseif algorithm == MANUAL then
            --> manual.format
            reads, writes = '<I7I7', '<c0c0I7I7'
            farthest = 9007199254740992       -- 2^53: see pass
          else                              -- SLIDINGLOG, CONCURRENCY
            --> slidinglog.format
            writes = '<c0c0I7I2I2c0'
            farthest = now + 2 * per          -- entries keep their times if these are at most a window ahead
          end
        end

        --> find
        local state = at + #head
        barred = nil
        if sub(value, at, state - 1) ~= head then
          local limit = unpack('<I7', head)
          --> find.pass
          local other, kind, sizes, width, form, expiry, used, stop
          while at <= #value do
            other, kind, sizes = unpack('<I7BB', value, at)
            if other > limit then break end
            kind, width, form = (kind - kind % 16) / 16, sizes % 16, at + 9
            stop = form + (sizes - width) / 16
            if kind == TOKENBUCKET then stop = stop + width end
            expiry, used = unpack('<I7', value, stop)
            if kind == SLIDINGLOG or kind == CONCURRENCY then
              stop = used + 4 + ENTRY * unpack('<I2', value, used + 2)
            elseif kind == SLIDINGWINDOW then
              stop = used + 2 * width
            elseif kind == LEDGER and width == 7 then
              stop = used + 3 * width
            elseif kind == PENALTY then
              stop = used + 20
            else                            -- TOKENBUCKET, FIXEDWINDOW, CALENDAR, MARK, LEDGER, MANUAL
              stop = used + width
            end
            if stop > #value + 1 then error('a record is too short') end
            local manual = other == limit and kind == MANUAL and algorithm ~= MANUAL
            if other == limit and not manual then break end
            --> manual.pass
            local since = manual and operation ~= RESET and expiry > now and unpack('<I7', value, used)
            if manual and operation == RESET then dirty, expiry = true, 0 end
            if since then barred = since > now and now + (expiry - since) or expiry end -- no longer than if it was set now
            if since and since > now and operation == TAKE and cost > 0 then
              value = sub(value, 1, used - 8) .. pack('<I7I7', barred, now) .. sub(value, stop)
              expiry, converted = barred, true
            end
            if kind == LEDGER then expiry = expiry + AFTERLIFE end
            if expiry > now then
              built = built .. sub(value, at, stop - 1)
              if other ~= NOTICE then
                if expiry > held then held = expiry end
                if expiry > last then last = expiry end
              end
            end
            at = stop
            if manual then other = nil end  -- it is not the limit's record, if no other one follows
          end
          state = nil
          if other == limit and sub(value, at, at + #head - 1) == head then
            state = at + #head
          elseif algorithm == MANUAL then
            -- There is none. What stands here, if anything does, is the limit's own record.
          elseif other == limit and expiry > now then
            -- The limit's numbers have changed: keep what was used under the old ones.
            --> convert
            local floor, min, max = math.floor, math.min, math.max
            local BIG = 2251799813685248      -- 2^51: no scaled number is larger
            local oldTick = ({[0] = 1, 1000, 1000000})[byte(value, at + 7) % 16]
            local oldUnit, f = unpack('<I' .. floor(sizes / 16), value, form)
            local oldRate = 1
            if kind == TOKENBUCKET and width > 0 then oldRate = unpack('<I' .. width, value, f) end
            local ticks = tick == 1 and now or floor(now / tick)
            local units
            local rest, parts = 0, 1
            local x, y, entries = 0, 0, ''
            local same = oldTick == tick and oldUnit == per
            if kind == CALENDAR or kind == LEDGER then same = sub(value, form, f - 1) == sub(head, 10) end
            same = same and kind == algorithm and kind ~= TOKENBUCKET
            local logs = (kind == SLIDINGLOG or kind == CONCURRENCY) and (algorithm == SLIDINGLOG or algorithm == CONCURRENCY)
            if operation == REFUND and algorithm ~= LEDGER and not same and not logs then
              --> convert.foreign
              -- A refund of what was charged under other numbers than those of the record. Units beyond the burst
              -- were forgotten when the record was converted to these, so a token bucket gets back what drains in
              -- the time in which the charge would have drained, and no more units than were charged: see
              -- Bucket.Refund in core/store/counting/bucket.go. Of others nothing is given back. The record keeps its numbers.
              foreignEnds = expiry
              if kind == TOKENBUCKET and algorithm == TOKENBUCKET then
                local back = min(cost, full)
                local given = min(floor(back / unpack('<I' .. floor(byte(head, 9) / 16), head, 10)), floor(BIG / oldUnit))
                local century = 3153600000000000 -- 100 years
                back = min(floor(back / per) * tick, min(floor(given * oldUnit / oldRate), floor(century / oldTick)) * oldTick)
                back = back - max(now - charged, 0)
                if back > 0 then foreignEnds = expiry - floor(back / oldTick) * oldTick end
              end
              foreign = ''
              if foreignEnds > now then
                expiry = foreignEnds
                foreign = sub(value, at, used - 8) .. pack('<I7', expiry) .. sub(value, used, stop - 1)
              end
            end
            if foreign == '' then
              units = 0
            elseif kind == TOKENBUCKET then
              --> tokenbucket.used
              local fraction = width > 0 and unpack('<I' .. width, value, used) or 0
              local whole = expiry / oldTick - floor(now / oldTick)
              if fraction > 0 then whole = whole - 1 end
              local debt = min(whole, floor(BIG / oldRate)) * oldRate + fraction
              units, rest, parts = floor(debt / oldUnit), debt % oldUnit, oldUnit
            elseif kind == FIXEDWINDOW or kind == CALENDAR then
              --> fixedwindow.used
              units = unpack('<I' .. width, value, used)
            elseif kind == SLIDINGWINDOW then
              --> slidingwindow.used
              local current, previous = unpack('<I' .. width .. 'I' .. width, value, used)
              x, y = current, previous
              local begins, past = expiry / oldTick - 2 * oldUnit, floor(now / oldTick)
              if past >= begins + oldUnit then
                begins, current, previous = begins + oldUnit, 0, current
              end
              local weighted = previous * (oldUnit - max(past - begins, 0))
              units, rest, parts = current + floor(weighted / oldUnit), weighted % oldUnit, oldUnit
            elseif kind == LEDGER then
              --> ledger.used
              units = unpack('<I7', value, used)
            else                              -- SLIDINGLOG, CONCURRENCY
              --> slidinglog.used
              x, entries = unpack('<I2', value, used), sub(value, used + 4, stop - 1)
              local window = oldUnit
              --> slidinglog.trim
              local gone = 0
              while gone < #entries do
                local when, n = unpack('<I7I2', entries, gone + 1)
                if when + window > now then break end
                gone, x = gone + ENTRY, x - n
              end
              if gone > 0 then entries = sub(entries, gone + 1) end
              units = x
            end
            local burst = full
            if not (same or logs or foreign or kind == LEDGER or algorithm == LEDGER) and operation ~= RESET then
              --> convert.exceeds
              local unit = algorithm == TOKENBUCKET and unpack('<I' .. floor(byte(head, 9) / 16), head, 10) or 1
              local holds = floor(full / unit)
              local latest = algorithm == FIXEDWINDOW and now + 2 * per or farthest
              local over = expiry
              if kind == SLIDINGWINDOW and x == 0 and now < expiry - oldUnit * oldTick then
                over = expiry - oldUnit * oldTick -- all of it was in the window before
              end
              local upTo = operation == CHARGE and utmost or full
              local holdsMost = floor(upTo / unit)
              if over > latest or units < holds or units == holds and rest == 0 then
                -- It is converted as it is, or as far as it fits.
              elseif units < holdsMost or units == holdsMost and rest == 0 then
                full = upTo                     -- restored below
              else
                spared, sparedTo, sparedFor, sparedOne = expiry, stop, over - now, over - now
              end
              if spared and kind == TOKENBUCKET then
                local fraction = width > 0 and unpack('<I' .. width, value, used) or 0
                local whole = expiry / oldTick - floor(now / oldTick) - (fraction > 0 and 1 or 0)
                local drained = floor((capacity - unit) / unit) * oldUnit - fraction
                sparedOne = (whole - floor(drained / oldRate)) * oldTick
                drained = floor((capacity - cost) / unit) * oldUnit - fraction
                sparedFor = (whole - floor(drained / oldRate)) * oldTick
              end
            end
            local ends = 0
            if spared then
              -- It stays.
            elseif same then
              -- Only the width of the counts has changed. A count that is too large for the new width is
              -- above twice the quota, too. It becomes 2^32-1, and counts as that if the quota is raised again.
              ends = expiry
              if kind == FIXEDWINDOW or kind == CALENDAR then x = units end
              if kind == LEDGER then
                --> ledger.keep
                x, y, entries = units, unpack('<I7', value, used + 7), 0 -- a record without a history
              elseif byte(head, 9) % 16 == 4 then
                x, y = min(x, 4294967295), min(y, 4294967295)
              end
            elseif algorithm == TOKENBUCKET then
              --> tokenbucket.open
              local unit = unpack('<I' .. floor(byte(head, 9) / 16), head, 10)
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
              -- The product is exact where it is below full.
              local debt = min(full, units * unit + quotient)
              x = debt % per
              if debt > 0 then ends = (ticks + floor(debt / per) + (x > 0 and 1 or 0)) * tick end
            elseif algorithm == FIXEDWINDOW then
              --> fixedwindow.open
              x = min(units + (rest > 0 and 1 or 0), full)
              local over
              --> fixedwindow.next
              over = now + per                  -- of one that begins with first use, which has a negative offset
              if offset >= 0 then over = over - (now - offset) % per end
              if x > 0 then ends = over end
            elseif algorithm == SLIDINGWINDOW then
              --> slidingwindow.open
              x, y = min(units + (rest > 0 and 1 or 0), full), 0
              if x > 0 then ends = (ticks - (ticks - offset / tick) % per + 2 * per) * tick end
            elseif algorithm == CALENDAR then
              --> calendar.open
              x = min(units + (rest > 0 and 1 or 0), full)
              local over
              --> calendar.next
              -- The client says when windows begin and end; which one is current is decided by the clock
              -- here. A client that is late by more than a window, or early by more than two, only tells how
              -- long one is.
              over = now < tick and math.min(tick, now + 2 * (per - tick)) or now < per and per
                or now < offset and offset or now + (offset - per)
              if x > 0 then ends = over end
            elseif algorithm == LEDGER then
              --> ledger.open
              --> calendar.open
              x = min(units + (rest > 0 and 1 or 0), full)
              local over
              --> calendar.next
              -- The client says when windows begin and end; which one is current is decided by the clock
              -- here. A client that is late by more than a window, or early by more than two, only tells how
              -- long one is.
              over = now < tick and math.min(tick, now + 2 * (per - tick)) or now < per and per
                or now < offset and offset or now + (offset - per)
              if x > 0 then ends = over end
              y, entries = 0, 0                 -- the account is unknown
            elseif kind == SLIDINGLOG or kind == CONCURRENCY then
              --> slidinglog.open
              -- The entries have their times: the new window just applies to them.
              x, y = units, #entries / ENTRY
              if x > 0 then ends = unpack('<I7', entries, #entries - ENTRY + 1) + per end
            else                              -- SLIDINGLOG, CONCURRENCY; the record was no log before
              --> slidinglog.begin
              x, y = min(units + (rest > 0 and 1 or 0), full), 1
              if x > 0 then entries, ends = pack('<I7I2', now, x), now + per end
            end
            full = burst
            if not spared then
              converted = converted or not (same or foreign)
              local record = ''
              if ends > 0 then
                record = pack(writes, '', head, ends, x, y, entries)
                state = at + #head
              end
              value = sub(value, 1, at - 1) .. record .. sub(value, stop)
            end
          elseif other == limit then
            at = stop
          end
        end

        --> read
        local from, expires, x, y, entries = at, 0, 0, 0, ''
        local spare, begun = 0
        local strikes, level = 0, 0
        if state then
          if algorithm == TOKENBUCKET and per == 1 then
            expires, at = unpack('<I7', value, state)
          elseif algorithm == SLIDINGWINDOW or algorithm == MARK then
            expires, x, y, at = unpack(reads, value, state)
          elseif algorithm == LEDGER then
            expires, x, y, entries, at = unpack(reads, value, state)
          elseif algorithm == SLIDINGLOG or algorithm == CONCURRENCY then
            expires, x, y, at = unpack('<I7I2I2', value, state)
            entries = sub(value, at, at + ENTRY * y - 1)
            at = at + ENTRY * y
          elseif algorithm == PENALTY then
            expires, x, y, strikes, level, at = unpack('<I7I7I7I4I2', value, state)
          else                            -- TOKENBUCKET, FIXEDWINDOW, CALENDAR, MANUAL
            expires, x, at = unpack(reads, value, state)
          end
          if expires > now then
            if expires > farthest then
              --> bringback
              if algorithm == TOKENBUCKET then
                x = full % per
                expires = (math.floor(now / tick) + (full - x) / per + (x > 0 and 1 or 0)) * tick
              elseif algorithm == SLIDINGWINDOW then
                expires = (math.floor(now / tick) + 2 * per) * tick
              elseif algorithm == CALENDAR then
                local over
                --> calendar.next
                -- The client says when windows begin and end; which one is current is decided by the clock
                -- here. A client that is late by more than a window, or early by more than two, only tells how
                -- long one is.
                over = now < tick and math.min(tick, now + 2 * (per - tick)) or now < per and per
                  or now < offset and offset or now + (offset - per)
                expires = over
              elseif algorithm == LEDGER then
                expires, x, y = 0, 0, 0
              elseif algorithm == SLIDINGLOG or algorithm == CONCURRENCY then
                --> slidinglog.bringback
                local kept, units = #entries, 0
                while kept > 0 and unpack('<I7', entries, kept - ENTRY + 1) > now + per do
                  units, kept = units + unpack('<I2', entries, kept - 1), kept - ENTRY
                end
                local newest = kept > 0 and unpack('<I7', entries, kept - ENTRY + 1) or 0
                if newest >= now then
                  units = units + unpack('<I2', entries, kept - 1)
                  kept = kept - ENTRY
                else
                  newest = now
                end
                entries = sub(entries, 1, kept) .. pack('<I7I2', newest, units)
                y, expires = #entries / ENTRY, newest + per
              else                              -- FIXEDWINDOW
                expires = now + per
              end
              local record = expires > 0 and pack(writes, '', head, expires, x, y, entries) or ''
              value = sub(value, 1, from - 1) .. record .. sub(value, at)
              at, converted = from + #record, true
            end
            if algorithm == LEDGER and expires > 0 then spare = AFTERLIFE end
            if expires + spare > held then held = expires + spare end
          else
            --> ledger.next
            begun = algorithm == LEDGER and y >= 68719476736 and now >= tick and now < offset
              and now < expires + AFTERLIFE and expires == (now < per and tick or per)
            if begun then                     -- nobody has charged it: it begins in generation 1
              local kept = expires + AFTERLIFE
              expires, x, y = now < per and per or offset, 0, 68719476736
              spare = kept - expires
              if kept > held then held = kept end
            end
            if not begun then expires, x, y, entries, strikes, level = 0, 0, 0, '', 0, 0 end
          end
        end
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
          local ticks = tick == 1 and now or (now - now % tick) / tick
          local whole = 0                   -- ticks until the debt has drained; x / rate is the rest of one
          if expires > 0 then
            whole = expires / tick - ticks
            if x > 0 then whole = whole - 1 end
          end
          a, b = whole, x
          -- If the clock was set back, this may be too large to be exact, but it is never too small.
          local debt = whole * per + x
          local room = capacity
          client = shares and shares[sub(head, 1, 7) .. string.char(key)]
          if client and operation > PEEK then
            --> share.change
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
          elseif client and client.room then
            room = client.room              -- pass 1 has judged it
          elseif client and cost > 0 and cost <= capacity then
            --> share.judge
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
          end
          if operation <= PEEK and cost > 0 then
            if debt + cost > room then
              fits = 0
            else
              if times > 1 then fits = math.min(times, math.floor((capacity - debt) / cost)) end
              debt = debt + (fits < most and fits or most) * cost
              x = debt % per
              ends = (ticks + (debt - x) / per + (x > 0 and 1 or 0)) * tick
            end
          elseif operation == CHARGE and cost > 0 and debt < utmost then
            added = math.min(utmost - debt, cost)
            debt = debt + added
            x = debt % per
            whole = (debt - x) / per
            ends = (ticks + whole + (x > 0 and 1 or 0)) * tick
            a, b = whole, x
          elseif operation == REFUND and expires > 0 then
            local floor = math.floor
            local back = math.min(cost, full)
            local passed = math.max(ticks - floor(charged / tick), 0)
            if passed <= floor(back / per) then
              back = back - passed * per
              whole, x = whole - floor(back / per), x - back % per
              if x < 0 then whole, x = whole - 1, x + per end
              if whole < 0 then whole, x = 0, 0 end
              ends = 0
              if whole > 0 or x > 0 then ends = (ticks + whole + (x > 0 and 1 or 0)) * tick end
            end
            a, b = whole, x
          end
          answer = pack(answer and '<c0BI7I7' or '<I7BI7I7', answer or now, fits, a, b)

        elseif algorithm == FIXEDWINDOW then
          --> fixedwindow.decide
          local over = expires
          if over == 0 then
            --> fixedwindow.next
            over = now + per                  -- of one that begins with first use, which has a negative offset
            if offset >= 0 then over = over - (now - offset) % per end
          end
          local current = operation == REFUND and charged >= over - per
          --> fixedwindow.count
          a = x
          if operation <= PEEK and cost > 0 then
            if x + cost > capacity then
              fits = 0
            else
              if times > 1 then fits = math.min(times, math.floor((capacity - x) / cost)) end
              x, ends = x + (fits < most and fits or most) * cost, over
            end
          elseif operation == CHARGE and cost > 0 and x < utmost then
            added = math.min(utmost - x, cost)
            x, ends = x + added, over
            a = x
          elseif current and expires > 0 then
            x = x - math.min(x, cost)
            a, ends = x, x > 0 and over or 0
          end
          answer = pack(answer and '<c0BI7I7' or '<I7BI7I7', answer or now, fits, a, over - now)

        elseif algorithm == CALENDAR then
          --> calendar.decide
          local over = expires
          if over == 0 then
            --> calendar.next
            -- The client says when windows begin and end; which one is current is decided by the clock
            -- here. A client that is late by more than a window, or early by more than two, only tells how
            -- long one is.
            over = now < tick and math.min(tick, now + 2 * (per - tick)) or now < per and per
              or now < offset and offset or now + (offset - per)
          end
          local current = operation == REFUND and charged == over
          --> fixedwindow.count
          a = x
          if operation <= PEEK and cost > 0 then
            if x + cost > capacity then
              fits = 0
            else
              if times > 1 then fits = math.min(times, math.floor((capacity - x) / cost)) end
              x, ends = x + (fits < most and fits or most) * cost, over
            end
          elseif operation == CHARGE and cost > 0 and x < utmost then
            added = math.min(utmost - x, cost)
            x, ends = x + added, over
            a = x
          elseif current and expires > 0 then
            x = x - math.min(x, cost)
            a, ends = x, x > 0 and over or 0
          end
          answer = pack(answer and '<c0BI7I7' or '<I7BI7I7', answer or now, fits, a, over - now)

        elseif algorithm == SLIDINGWINDOW then
          --> slidingwindow.decide
          local ticks = tick == 1 and now or (now - now % tick) / tick
          local over = expires
          if over > 0 and ticks >= over / tick - per then
            x, y = 0, x
            over = y > 0 and over + per * tick or 0
          end
          if over == 0 then
            over = (ticks - (ticks - offset / tick) % per + 2 * per) * tick
          end
          local begins = over / tick - 2 * per
          local elapsed = ticks > begins and ticks - begins or 0
          a, b = x, y
          if operation <= PEEK and cost > 0 then
            -- The weighted count of the last window, rounded up, is taken from the quota.
            local weighted = y * (per - elapsed)
            local room = capacity - x - math.ceil(weighted / per)
            fits = math.max(math.min(times, math.floor(room / cost)), 0)
            if fits > 0 then x, ends = x + (fits < most and fits or most) * cost, over end
          elseif operation == CHARGE and cost > 0 and x < utmost then
            added = math.min(utmost - x, cost)
            x, ends = x + added, over
          elseif operation == REFUND and expires > 0 then
            local when = math.floor(charged / tick)
            if head == HOLD and (x == 0 or y == 0) then -- the window in which it is now, even if the clock was set back
              when = x > 0 and begins or begins - 1
            end
            if when >= begins then
              x = x - math.min(x, cost)
            elseif when >= begins - per then
              y = y - math.min(y, cost)
            end
            ends = (x > 0 or y > 0) and over or 0
          end
          if operation > PEEK then a, b = x, y end
          answer = pack(answer and '<c0BI7I7I7' or '<I7BI7I7I7', answer or now, fits, a, b, elapsed)

        elseif algorithm == PENALTY then
          --> penalty.decide
          local after, within, lasts, factor, longest = tick, per, capacity, cost, offset
          local limit = guarded .. key
          local leased, kept = 0, 0         -- until when units are held; until when none are taken ahead
          if strikes == 0 and level == 0 and x > y then
            if y > now then
              ends = 0                      -- the clock was set back
            else
              leased, kept = x, expires
            end
          end
          local taken = y
          if leased > 0 or ends then x, y = 0, 0 end
          -- What was written before the clock was set back counts no longer than if it was written now.
          if x > now and strikes == 0 then  -- the block begins later than now
            x, y, ends = now, now + (y - x), 0
          elseif strikes > 0 then
            if y > now then y, ends = now, 0 end -- a blocked key counts no denials, so the block was over
            if x > now + within then x, ends = now + within, 0 end
            if x <= now then x, strikes = 0, 0 end
          end
          if y + longest <= now then level = 0 end
          if level == 0 and y <= now then y = 0 end
          if operation == CHARGE then
            converted = converted or y > now + lasts -- a shorter block: see notice
            local prefix = byte(ask, -1)
            if leased > now and prefix > 0 then
              -- A user without the permission publishes nothing, and what is held ends with its age.
              redis.pcall('PUBLISH', sub(KEYS[k], 1, prefix) .. 'given-back', 'blocked' .. sub(KEYS[k], prefix + 1))
            end
            x, y, strikes, ends = now, now + lasts, 0, 0 -- ends is computed below
          elseif operation <= PEEK and y > now then
            fits, blocks[limit] = 0, y
            missed = missed or not shadow
          elseif operation == TAKE and after == 0 then
            if strikes > 0 or level > 0 or kept > leased then
              fits, blocks[limit] = 0, now
            elseif pass == 2 and grant > 0 and not exceeded[limit] then
              x, y, ends = math.max(leased, now + lasts), now, 0
            end
          elseif operation == TAKE and pass == 2 and exceeded[limit] and leased > now and not exceeded.unknown then
            if kept == leased then
              x, y, ends, kept = leased, taken, 0, now + within
            end
          elseif operation == TAKE and pass == 2 and exceeded[limit] and not exceeded.unknown then
            if strikes == 0 then x = now + within end
            strikes, ends = strikes + 1, 0
            if strikes >= after then
              for _ = 1, factor > 1 and level or 0 do
                if lasts >= longest then break end
                lasts = math.min(lasts * factor, longest)
              end
              x, y, strikes, level, fits = now, now + lasts, 0, math.min(level + 1, 65535), 0
              missed = missed or not shadow
            end
          end
          if ends then
            ends = math.max(x, kept, level > 0 and y + longest or y)
            entries = pack('<I4I2', strikes, level)
          end
          answer = pack(answer and '<c0BI7' or '<I7BI7', answer or now, fits, y > now and y - now or 0)

        elseif algorithm == MARK then
          --> mark.decide
          -- A take leaves the mark, or counts a repeat. grant.check undoes that if the check is denied or
          -- costs nothing.
          if x > now then expires = math.min(expires, now + per) end -- the clock was set back since
          repeated = repeated or {}
          repeated[key] = operation <= PEEK and expires > 0 and y < capacity and expires
          if operation == TAKE then
            if repeated[key] then
              y, ends = y + 1, expires
            else
              x, y, ends = now, 0, now + per
            end
          elseif operation == REFUND and expires > 0 and x == charged then
            ends = 0
          end

        elseif algorithm == CONCURRENCY then
          --> concurrency.decide
          local window = per
          --> slidinglog.trim
          local gone = 0
          while gone < #entries do
            local when, n = unpack('<I7I2', entries, gone + 1)
            if when + window > now then break end
            gone, x = gone + ENTRY, x - n
          end
          if gone > 0 then entries = sub(entries, gone + 1) end
          local newest = entries ~= '' and unpack('<I7', entries, #entries - ENTRY + 1) or 0
          a, b = x, x > 0 and newest + per - now or 0
          --> slidinglog.charge
          local more = 0                    -- units to add
          if operation <= PEEK and cost > 0 then
            if x + cost > capacity then
              fits = 0
            else
              if times > 1 then fits = math.min(times, math.floor((capacity - x) / cost)) end
              more = (fits < most and fits or most) * cost
            end
          elseif operation == REFUND or operation == RENEW then
            -- The entry is at lower, or there is none of its time.
            local lower, upper = 0, #entries / ENTRY
            while lower < upper do
              local middle = math.floor((lower + upper) / 2)
              if unpack('<I7', entries, middle * ENTRY + 1) < charged then lower = middle + 1 else upper = middle end
            end
            local e = lower * ENTRY + 1
            if e < #entries and unpack('<I7', entries, e) == charged then
              local n = unpack('<I2', entries, e + 7)
              local back = math.min(n, cost)
              local left = back < n and pack('<I7I2', charged, n - back) or ''
              x, entries = x - back, sub(entries, 1, e - 1) .. left .. sub(entries, e + ENTRY)
              newest = x > 0 and unpack('<I7', entries, #entries - ENTRY + 1) or 0
              ends = x > 0 and newest + per or 0
            end
          end
          if operation == CHARGE then
            more = math.max(math.min(cost, utmost - x), 0)
            added = more
          elseif operation == RENEW then
            more = math.max(math.min(cost, 2 * full - x), 0)
          end
          if more > 0 then
            x = x + more
            if newest >= now then           -- the clock was set back, or stands still
              local n = unpack('<I2', entries, #entries - 1)
              entries = sub(entries, 1, -ENTRY - 1) .. pack('<I7I2', newest, n + more)
            else
              newest = now
              entries = entries .. pack('<I7I2', now, more)
            end
            ends = newest + per
          end
          y = #entries / ENTRY
          if operation > PEEK then a, b = x, x > 0 and newest + per - now or 0 end
          answer = pack(answer and '<c0BI7I7' or '<I7BI7I7', answer or now, fits, a, b)

        elseif algorithm == LEDGER then
          --> ledger.decide
          if not history then
            local info = redis.pcall('INFO', 'replication')
            local id = type(info) == 'string' and string.find(info, 'master_replid:', 1, true)
            history = id and tonumber(sub(info, id + 14, id + 25), 16) or 0
          end
          local over = expires
          if over == 0 then
            --> calendar.next
            -- The client says when windows begin and end; which one is current is decided by the clock
            -- here. A client that is late by more than a window, or early by more than two, only tells how
            -- long one is.
            over = now < tick and math.min(tick, now + 2 * (per - tick)) or now < per and per
              or now < offset and offset or now + (offset - per)
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

        elseif algorithm == MANUAL then
          --> manual.decide
          if operation == CHARGE and (per > 0 or expires > 0) then
            converted = converted or expires > now + per
            x, ends = now, per > 0 and now + per or 0
            local prefix = byte(ask, -1)
            if per > 0 and prefix > 0 then
              -- Processes may hold units that they took ahead. A user without the permission publishes nothing, and
              -- what is held ends with its age.
              redis.pcall('PUBLISH', sub(KEYS[k], 1, prefix) .. 'given-back', 'blocked' .. sub(KEYS[k], prefix + 1))
            end
          end
          answer = pack(answer and '<c0BI7' or '<I7BI7', answer or now, fits, 0)

        else                      -- SLIDINGLOG
          --> slidinglog.decide
          local window = per
          --> slidinglog.trim
          local gone = 0
          while gone < #entries do
            local when, n = unpack('<I7I2', entries, gone + 1)
            if when + window > now then break end
            gone, x = gone + ENTRY, x - n
          end
          if gone > 0 then entries = sub(entries, gone + 1) end
          local newest = entries ~= '' and unpack('<I7', entries, #entries - ENTRY + 1) or 0

          -- wait returns the microseconds until enough of the oldest entries have left for units to fit.
          local function wait(units)
            local missing = x + units - capacity
            if missing <= 0 or units > capacity then return 0 end
            for e = 1, #entries, ENTRY do
              local when, n = unpack('<I7I2', entries, e)
              missing = missing - n
              if missing <= 0 then return when + per - now end
            end
            return 0
          end
          local function reading(units)
            return pack('<I7I7I7I7', x, wait(units), wait(1), x > 0 and newest + per - now or 0)
          end

          -- A take answers with the readings before and after: which one applies depends on whether
          -- the group is granted.
          local before, after = '', ''
          if operation <= PEEK then before = reading(cost) end
          --> slidinglog.charge
          local more = 0                    -- units to add
          if operation <= PEEK and cost > 0 then
            if x + cost > capacity then
              fits = 0
            else
              if times > 1 then fits = math.min(times, math.floor((capacity - x) / cost)) end
              more = (fits < most and fits or most) * cost
            end
          elseif operation == REFUND or operation == RENEW then
            -- The entry is at lower, or there is none of its time.
            local lower, upper = 0, #entries / ENTRY
            while lower < upper do
              local middle = math.floor((lower + upper) / 2)
              if unpack('<I7', entries, middle * ENTRY + 1) < charged then lower = middle + 1 else upper = middle end
            end
            local e = lower * ENTRY + 1
            if e < #entries and unpack('<I7', entries, e) == charged then
              local n = unpack('<I2', entries, e + 7)
              local back = math.min(n, cost)
              local left = back < n and pack('<I7I2', charged, n - back) or ''
              x, entries = x - back, sub(entries, 1, e - 1) .. left .. sub(entries, e + ENTRY)
              newest = x > 0 and unpack('<I7', entries, #entries - ENTRY + 1) or 0
              ends = x > 0 and newest + per or 0
            end
          end
          if operation == CHARGE then
            more = math.max(math.min(cost, utmost - x), 0)
            added = more
          elseif operation == RENEW then
            more = math.max(math.min(cost, 2 * full - x), 0)
          end
          if more > 0 then
            x = x + more
            if newest >= now then           -- the clock was set back, or stands still
              local n = unpack('<I2', entries, #entries - 1)
              entries = sub(entries, 1, -ENTRY - 1) .. pack('<I7I2', newest, n + more)
            else
              newest = now
              entries = entries .. pack('<I7I2', now, more)
            end
            ends = newest + per
          end
          y = #entries / ENTRY
          if operation ~= PEEK then after = reading(operation == TAKE and cost or 0) end
          answer = pack(answer and '<c0Bc0c0' or '<I7Bc0c0', answer or now, fits, before, after)
        end

        --> grant.check
        if spared then
          --> convert.spared
          if operation > PEEK or cost == 0 or cost > capacity then sparedFor = sparedOne end
          if operation <= PEEK and cost > 0 then fits = 0 end
          ends, expires = nil, spared
          local beyond = 4503599627370496   -- 2^52: see beyond in core/store/counting/foreign.go
          local sparedTicks = math.ceil(sparedFor / tick)
          if algorithm == TOKENBUCKET then
            answer = pack('<c0BI7I7', sub(answer, 1, answered), fits, sparedTicks, beyond)
          elseif algorithm == SLIDINGWINDOW then
            answer = pack('<c0BI7I7I7', sub(answer, 1, answered), fits, beyond, 0, math.max(2 * per - sparedTicks, 0))
          elseif algorithm == SLIDINGLOG then
            answer = pack('<c0B', sub(answer, 1, answered), fits)
              .. string.rep(pack('<I7I7I7I7', full, sparedFor, sparedFor, sparedFor), operation == TAKE and 2 or 1)
          else                              -- FIXEDWINDOW, CALENDAR, CONCURRENCY
            if algorithm == CONCURRENCY then sparedFor = math.min(sparedFor, per) end
            answer = pack('<c0BI7I7', sub(answer, 1, answered), fits, full, sparedFor)
          end
        end
        if client and algorithm == TOKENBUCKET then
          --> share.answer
          answer = answer .. pack('<I7I7', client.tells, client.told)
        end
        if operation == CHARGE and algorithm ~= PENALTY and algorithm ~= MANUAL then
          answer = answer .. pack('<I7', not spared and added or 0)
        end
        -- Denied while a charge may still be given back: that may be over in a moment.
        local tentative
        if bar then
          --> manual.deny
          bars = (bars or '') .. pack('<I2I7', answered - (answers and 0 or 7), bar - now)
          -- It has no room, but a repeat that would be free keeps its answer.
          if cost > 0 then answer = sub(answer, 1, answered) .. '\0' .. sub(answer, answered + 2) end
          fits, ends, missed = 0, nil, missed or not shadow
        elseif fits < times then
          missed = missed or not (shadow or penalties) and algorithm ~= CONCURRENCY and head ~= HOLD
          tentative = #value > 27 and byte(value, -27) == 255
            and operation <= PEEK and algorithm ~= PENALTY and (algorithm ~= LEDGER or y > 0)
            and sub(value, -27, -16) == HOLD
          if tentative then
            local expiry = unpack('<I7', value, #value - 14)
            tentative = expiry > now and expiry <= now + 2000000 -- not if the clock was set back since
          end
          if tentative then answer = sub(answer, 1, answered) .. string.char(fits + 128) .. sub(answer, answered + 2) end
        end

        if penalties and algorithm ~= PENALTY then
          local limit = sub(head, 1, 7) .. key
          if fits == 0 and not (tentative or bar) then exceeded[limit] = true end
          if pass == 2 and blocks[limit] then
            -- A blocked check has no room, but a repeated operation keeps its answer.
            if fits ~= 2 and not bar then answer = sub(answer, 1, answered) .. '\0' .. sub(answer, answered + 2) end
            fits = 0
          end
          -- A denied group charges nothing, but it may have a denial to count.
          if grant == 0 or fits == 0 then ends = nil end
        end
        if choice then
          --> choice.check
          local number = shadow and -choice or choice
          local rank = bar and -1 or fits == 0 and 512 or fits == 2 and place or 256 + place
          lowest, picked = lowest or {}, picked or {}
          if not picked[number] then picked[number] = 256 + guess end
          if rank < (lowest[number] or 513) then lowest[number] = rank end
          if rank ~= picked[number] then
            ends = nil
            if mark and operation == TAKE then pending[mark][6] = false end -- the mark stays as it is
          end
        elseif fits < grant and not shadow then
          grant = fits
        end
        if mark and operation == TAKE and (fits == 0 or free) then
          pending[mark][6] = false        -- not dirty: the mark stays as it is
        end
        if operation == RESET and state then ends = 0 end
        if operation == REFUND and state and expires == 0 and head == HOLD then ends = 0 end -- else it counts if the clock is set back
        if foreign then ends, dirty = nil, true end

        if client then client.charged = fits > 0 and fits ~= 2 and not bar end

        -- The record as it will be if the group is granted.
        if pass == 2 and (grant > 0 or penalties) then
          if foreign then
            built = built .. foreign
            if foreign ~= '' and foreignEnds > last then last = foreignEnds end
          elseif not ends then
            if expires > 0 then
              built = built .. sub(value, from, at - 1)
              if expires + spare > last then last = expires + spare end
            end
          else
            dirty = true
            if ends > 0 then
              built = pack(writes, built, head, ends, x, y, entries)
              if algorithm == LEDGER then ends = ends + AFTERLIFE end
              if ends > last then last = ends end
            end
          end
        end
        cost = asks
      end

      -- The records of later limits.
      local limit = 9007199254740992 -- above any
      --> find.pass
      local other, kind, sizes, width, form, expiry, used, stop
      while at <= #value do
        other, kind, sizes = unpack('<I7BB', value, at)
        if other > limit then break end
        kind, width, form = (kind - kind % 16) / 16, sizes % 16, at + 9
        stop = form + (sizes - width) / 16
        if kind == TOKENBUCKET then stop = stop + width end
        expiry, used = unpack('<I7', value, stop)
        if kind == SLIDINGLOG or kind == CONCURRENCY then
          stop = used + 4 + ENTRY * unpack('<I2', value, used + 2)
        elseif kind == SLIDINGWINDOW then
          stop = used + 2 * width
        elseif kind == LEDGER and width == 7 then
          stop = used + 3 * width
        elseif kind == PENALTY then
          stop = used + 20
        else                            -- TOKENBUCKET, FIXEDWINDOW, CALENDAR, MARK, LEDGER, MANUAL
          stop = used + width
        end
        if stop > #value + 1 then error('a record is too short') end
        local manual = other == limit and kind == MANUAL and algorithm ~= MANUAL
        if other == limit and not manual then break end
        --> manual.pass
        local since = manual and operation ~= RESET and expiry > now and unpack('<I7', value, used)
        if manual and operation == RESET then dirty, expiry = true, 0 end
        if since then barred = since > now and now + (expiry - since) or expiry end -- no longer than if it was set now
        if since and since > now and operation == TAKE and cost > 0 then
          value = sub(value, 1, used - 8) .. pack('<I7I7', barred, now) .. sub(value, stop)
          expiry, converted = barred, true
        end
        if kind == LEDGER then expiry = expiry + AFTERLIFE end
        if expiry > now then
          built = built .. sub(value, at, stop - 1)
          if other ~= NOTICE then
            if expiry > held then held = expiry end
            if expiry > last then last = expiry end
          end
        end
        at = stop
        if manual then other = nil end  -- it is not the limit's record, if no other one follows
      end

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
      local again = false
      for number, rank in pairs(lowest) do
        if number > 0 and (rank < 0 or rank == 512) then grant = 0 end
        if rank ~= picked[number] then picked[number], again = rank, true end
      end
      if grant > 0 then
        missed = nil                    -- what did not fit has denied nothing: see notice
        if keys > 1 then
          for key = 1, keys do pending[key][8] = nil end
        end
        if again and pass == 3 and operation == TAKE then pass = 2 end
      end
      lowest = nil
    end
  end

  --> grant.group
  if failure then
    orderAt = start + 2 * keys
    answer = (answers and '' or pack('<I7', now)) .. pack('<BI2c0', 255, #failure, failure)
  else
    for key = 1, keys do
      if keys > 1 then k, value, held, built, last, dirty, converted, missed = spread(pending[key], 1, 8) end
      if operation == TAKE and dirty and grant > 0 and not (missed or converted) then
        value = built               -- nearly always
      else
        if operation == PEEK then
          last = nil
        elseif dirty and (grant > 0 or penalties) then
          value = built
        elseif converted then
          -- The old numbers must go even if the request is denied: see Bucket.Open in core/store/counting/bucket.go.
          last = held
        else
          last = nil
        end
        --> notice
        local gives = last and (converted or operation == REFUND or operation == RESET)
        local leaves = missed and operation == TAKE and byte(ask, -2) > 0
        -- It lasts for two ages, so that denials to other processes need not write. These can have longer
        -- ages; a notice of hours was written before the clock was set back. A key lives as long as its
        -- other records, notice or not: no denial lasts longer.
        local soonest, latest
        if leaves then
          soonest = now + 2 ^ byte(ask, -2) * 1000
          latest = math.max(2 * soonest - now, now + 3600000000)
          if not last and sub(value, -16, -8) == '\254\255\255\255\255\255\31\112\0' then -- without looking at all records
            local expiry = unpack('<I7', value, #value - 6)
            leaves = expiry < soonest or expiry > latest
          end
        end
        if (gives or leaves) and #value > 1 then
          local write, fresh, limit, at = last, false, NOTICE, 2
          built, held, last = VERSION, 0, 0
          --> find.pass
          local other, kind, sizes, width, form, expiry, used, stop
          while at <= #value do
            other, kind, sizes = unpack('<I7BB', value, at)
            if other > limit then break end
            kind, width, form = (kind - kind % 16) / 16, sizes % 16, at + 9
            stop = form + (sizes - width) / 16
            if kind == TOKENBUCKET then stop = stop + width end
            expiry, used = unpack('<I7', value, stop)
            if kind == SLIDINGLOG or kind == CONCURRENCY then
              stop = used + 4 + ENTRY * unpack('<I2', value, used + 2)
            elseif kind == SLIDINGWINDOW then
              stop = used + 2 * width
            elseif kind == LEDGER and width == 7 then
              stop = used + 3 * width
            elseif kind == PENALTY then
              stop = used + 20
            else                            -- TOKENBUCKET, FIXEDWINDOW, CALENDAR, MARK, LEDGER, MANUAL
              stop = used + width
            end
            if stop > #value + 1 then error('a record is too short') end
            local manual = other == limit and kind == MANUAL and algorithm ~= MANUAL
            if other == limit and not manual then break end
            --> manual.pass
            local since = manual and operation ~= RESET and expiry > now and unpack('<I7', value, used)
            if manual and operation == RESET then dirty, expiry = true, 0 end
            if since then barred = since > now and now + (expiry - since) or expiry end -- no longer than if it was set now
            if since and since > now and operation == TAKE and cost > 0 then
              value = sub(value, 1, used - 8) .. pack('<I7I7', barred, now) .. sub(value, stop)
              expiry, converted = barred, true
            end
            if kind == LEDGER then expiry = expiry + AFTERLIFE end
            if expiry > now then
              built = built .. sub(value, at, stop - 1)
              if other ~= NOTICE then
                if expiry > held then held = expiry end
                if expiry > last then last = expiry end
              end
            end
            at = stop
            if manual then other = nil end  -- it is not the limit's record, if no other one follows
          end
          local found = other == limit and at <= #value
          local prefix = byte(ask, -1)
          local hold = sub(value, found and stop or at)
          found = found and expiry > now
          if gives and found and prefix > 0 then
            -- A user without the permission publishes nothing, and denials end with their age.
            redis.pcall('PUBLISH', sub(KEYS[k], 1, prefix) .. 'given-back', sub(KEYS[k], prefix + 1))
            found = false
          end
          local holds = hold ~= '' and unpack('<I7', hold, 13) or 0
          if holds > now then last = math.max(last, holds) else hold = '' end
          if leaves and last > now then
            fresh = not found or expiry < soonest or expiry > latest
            if fresh then found, expiry = true, 2 * soonest - now end
          end
          if write or fresh then
            if found then built = pack('<c0c0I7', built, '\254\255\255\255\255\255\31\112\0', expiry) end
            value = built .. hold
          else
            last = nil
          end
          if fresh and not write and not (values and expiries[k]) then
            -- At once: if Redis refuses to write, the denial is to hold all the same.
            --> write.ttl
            -- Milliseconds, rounded up, with some more because the clock was read a moment earlier.
            local ttl = (last - now) / 1000 + 3
            if not own then ttl = ttl + 3600000 end -- a test's clock may stand still for an hour
            redis.pcall('PSETEX', KEYS[k], string.format('%d', ttl), value)
            if values then values[k] = value end
            last = nil
          end
        end
      end
      if last and values then values[k], expiries[k] = last > 0 and value or '', last end
    end
  end
  if shares then
    orderAt = orderAt + 2 * shareKeys
    if not failure then
      --> share.commit
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
    end
  end
  if bars and not failure then
    --> manual.answer
    local before = answers and 0 or 7
    answer = sub(answer, 1, before) .. string.char(127, #bars / 9) .. bars .. sub(answer, before + 1)
  end
  if values then
    answers = answers or {}
    answers[#answers + 1] = answer
  end
until not order or orderAt > #order

--> write
-- From here on nothing fails, unless Redis refuses a write.
for k = 1, #KEYS do
  if values then value, last = values[k], expiries[k] end
  if last == 0 then
    redis.call('DEL', KEYS[k])
  elseif last then
    --> write.ttl
    -- Milliseconds, rounded up, with some more because the clock was read a moment earlier.
    local ttl = (last - now) / 1000 + 3
    if not own then ttl = ttl + 3600000 end -- a test's clock may stand still for an hour
    redis.call('PSETEX', KEYS[k], string.format('%d', ttl), value)
  end
end

return answers and table.concat(answers) or answer
