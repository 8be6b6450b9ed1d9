-- Choices: checks of which one is charged, the first that fits. core/store/counting/choice.go. The first one is assumed
-- to fit, and is charged while the group is decided, as all checks are. If it does not fit, the group is decided once
-- more, with the one that does. So the usual case is decided in one pass, and a check that needs two has no room for
-- what comes first.
--
-- A rank says which check comes first: its place of a repeated operation, 256 more of another one that fits, 512 of one
-- that does not; and -1 if the key is blocked by hand, which denies the choice.
--
-- parse   reads:  ask, askAt, algorithm
--         sets:   choice (nil for a check without alternatives), place, algorithm, askAt
-- check   in place of grant for a check with alternatives
--         reads:  choice, place, shadow, fits, bar, mark, operation
--         sets:   lowest, ends; pending, if another check is charged
-- pick    after a pass over the group
--         reads:  lowest, keys, operation
--         sets:   picked, grant, missed, pending; pass, if the group is to be decided once more

--# parse
choice, place, askAt = byte(ask, askAt), byte(ask, askAt + 1), askAt + 2
algorithm = algorithm - 16

--# check
local number = shadow and -choice or choice
local rank = bar and -1 or fits == 0 and 512 or fits == 2 and place or 256 + place
lowest = lowest or {}
if rank < (lowest[number] or 512) then lowest[number] = rank else lowest[number] = lowest[number] or 512 end
if rank ~= (picked and picked[number] or 256) then
  ends = nil
  if mark and operation == TAKE then pending[mark][6] = false end -- the mark stays as it is
end

--# pick
local again = false
for number, rank in pairs(lowest) do
  if number > 0 and (rank < 0 or rank == 512) then grant = 0 end
  if rank ~= (picked and picked[number] or 256) then
    picked, again = picked or {}, true
    picked[number] = rank
  end
end
if grant > 0 then
  missed = nil                    -- what did not fit has denied nothing: see notice
  if keys > 1 then
    for key = 1, keys do pending[key][8] = nil end
  end
  if again and pass == 3 and operation == TAKE then pass = 2 end
end
lowest = nil
