package script

import (
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// Block is a block as the record of a penalty has it.
type Block struct {
	Limit uint64 // the id of the penalty, or of the limit if it was set by hand
	Until int64  // microseconds since the epoch
	Level int64  // how many blocks there were in a row
}

// BlocksIn returns the blocks in a value that are in force. A value that is not laid out as
// lua/header.lua says has none.
func BlocksIn(value string, now int64) (blocks []Block) {
	if value == "" || value[0] != Version {
		return nil
	}
	for rest := value[1:]; len(rest) >= recordHead; {
		length := recordLength(rest)
		if length == 0 || length > len(rest) {
			return blocks
		}
		if rest[idLength]>>4 == byte(counting.PenaltyRecord) {
			state := rest[length-penaltyState : length]
			b := Block{
				Limit: uint64(get7(rest)),
				Until: get7(state[7:]),
				Level: int64(state[18]) | int64(state[19])<<8,
			}
			if b.Until > now {
				blocks = append(blocks, b)
			}
		}
		if rest[idLength]>>4 == byte(counting.ManualRecord) && length == manualLength {
			if until := get7(rest[recordHead:]); until > now {
				blocks = append(blocks, Block{Limit: uint64(get7(rest)), Until: until})
			}
		}
		rest = rest[length:]
	}
	return blocks
}

// Version is the version of the layout, with which every value begins. The script has it too, in
// lua/frame.lua.
const Version = 2

const (
	idLength     = 7             // of a limit
	recordHead   = idLength + 2  // limit, algorithm, sizes
	penaltyState = 7 + 7 + 4 + 2 // when denials stop counting, when the block ends, denials, level
	manualState  = 7             // since when
	manualLength = recordHead + 7 + manualState
	entryLength  = 7 + 2 // of a log
	ledgerWidth  = 7     // of each of units used, position and history
)

// recordLength returns the length of the record at the beginning of what is left of a
// value, or 0 if that is cut short.
func recordLength(record string) int {
	algorithm, width := store.Algorithm(record[idLength]>>4), int(record[idLength+1]&15)
	state := recordHead + int(record[idLength+1]>>4)
	if algorithm == store.TokenBucket {
		state += width
	}
	state += 7 // expires
	switch algorithm {
	case store.SlidingLog, store.Concurrency:
		if len(record) < state+4 {
			return 0
		}
		return state + 4 + entryLength*(int(record[state+2])|int(record[state+3])<<8)
	case store.SlidingWindow:
		return state + 2*width
	case store.Ledger:
		if width == ledgerWidth { // else without a history
			return state + 3*width
		}
	case counting.PenaltyRecord:
		return state + penaltyState
	}
	return state + width
}
