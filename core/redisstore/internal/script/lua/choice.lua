-- Choices: checks of which one is charged, the first that fits. core/store/counting/choice.go. The one that the caller
-- guesses is charged while the group is decided, as all checks are: the one that paid the last time. If it is another
-- one that fits first, the group is decided once more. So nearly all groups are decided in one pass.
--
-- A rank says which check comes first: its place of a repeated operation, 256 more of another one that fits, 512 of one
-- that does not; and -1 if the key is blocked by hand, which denies the choice.
--
-- parse   reads:  ask, askAt, algorithm
--         sets:   choice (nil for a check without alternatives), place, guess, algorithm, askAt
-- check   in place of grant for a check with alternatives
--         reads:  choice, place, guess, shadow, fits, bar, mark, operation
--         sets:   picked, lowest, ends; pending, if another check is charged
-- pick    after a pass over the group
--         reads:  lowest, keys, operation
--         sets:   picked, grant, missed, pending; pass, if the group is to be decided once more

--# parse
choice, place, guess = byte(ask, askAt, askAt + 2)
askAt = askAt + 3
algorithm = algorithm - 16

--# check
local number = shadow and -choice or choice
local rank = bar and -1 or fits == 0 and 512 or fits == 2 and place or 256 + place
lowest, picked = lowest or {}, picked or {}
if not picked[number] then picked[number] = 256 + guess end
if rank < (lowest[number] or 513) then lowest[number] = rank end
if rank ~= picked[number] then
  ends = nil
  if mark and operation == TAKE then pending[mark][6] = false end -- the mark stays as it is
end

--# pick
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
