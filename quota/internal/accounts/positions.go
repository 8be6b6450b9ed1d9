package accounts

import (
	"time"

	"github.com/weblimit/weblimit/quota/internal/ledger"
)

// PositionsOf returns states as the ledger wants them.
func PositionsOf(states []Taken) []ledger.Position {
	if len(states) == 0 {
		return nil
	}
	positions := make([]ledger.Position, len(states))
	for i := range states {
		s := &states[i].State
		positions[i] = ledger.Position{
			Account: ledger.Account{Limit: states[i].Kept.Name, Key: ledger.TextOf([]byte(states[i].Entry.Key)), Start: s.Start, End: s.End},
			Date:    dateIn(s.day, states[i].Kept), Position: s.position, Used: s.used, At: s.at,
			Hard: s.hard, Included: s.included, Levels: s.levels,
		}
	}
	return positions
}

// PositionIn returns what the store says of an account, which reaches no level by it.
func PositionIn(k *Kept, a ledger.Account, v *View) ledger.Position {
	at := v.during(a.Start, a.End)
	day, _, _ := k.days.Period(at)
	return ledger.Position{Account: a, Date: dateIn(day, k), Position: v.Position, Used: v.Used, At: at}
}

// dateIn returns the day of a limit's time zone that begins at a time. A day may begin later than
// at midnight, where clocks change.
func dateIn(day int64, k *Kept) int32 {
	t := time.UnixMicro(day).In(k.days.Calendar.Location)
	return int32(time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC).Unix() / (24 * 3600))
}
