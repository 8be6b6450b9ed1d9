// Package flat writes the numbers of a limit as integers and a text, for messages and records: of the service, and of
// trackers of top clients.
package flat

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// Numbers are [store.Numbers] as integers and a text, to be written to messages and records: durations are
// nanoseconds and truth values 0 or 1. The order of Values never changes; what is added comes last.
type Numbers struct {
	// Algorithm, Quota, Window, Burst, Whole, Soft, Jitter plus twice FromUse, Wait, Once, Repeats, the five of Block in their
	// order, Unit and Day of Calendar; Debt, and whether it is chosen; Guaranteed, and Divided.
	Values [Length]int64

	Zone string // the name of Calendar.Location; "" for none
}

// Length is how many Values there are. Before is how many there were before Debt, and WithDebt how many before Guaranteed: numbers
// without what came later can be written without it, which older processes read.
const (
	Length   = 21
	WithDebt = 19
	Before   = 17
)

// Of returns numbers as integers and a text.
func Of(n *store.Numbers) Numbers {
	jitter := int64(0)
	if n.Jitter {
		jitter = 1
	}
	if n.FromUse {
		jitter += 2
	}
	zone := ""
	if n.Calendar.Location != nil {
		zone = n.Calendar.Location.String()
	}
	hasDebt, divided := int64(0), int64(0)
	if n.HasDebt {
		hasDebt = 1
	}
	if n.Divided {
		divided = 1
	}
	return Numbers{Zone: zone, Values: [Length]int64{
		int64(n.Algorithm), n.Quota, int64(n.Window), n.Burst, n.Whole, n.Soft, jitter, int64(n.Wait), int64(n.Once), n.Repeats,
		n.Block.After, int64(n.Block.Within), int64(n.Block.For), n.Block.Factor, int64(n.Block.Max),
		int64(n.Calendar.Unit), int64(n.Calendar.Day), n.Debt, hasDebt, n.Guaranteed, divided,
	}}
}

// Numbers returns the numbers that [Of] was given. It is an error if they can't be those of a limit: an
// algorithm, a unit or a day that there is not, or a time zone that this machine does not know, or knows as
// its own alone. Everything else is for [store.NewRule] to check.
func (f *Numbers) Numbers() (store.Numbers, error) {
	v := &f.Values
	for _, at := range []int{0, 15, 16} {
		if v[at] < 0 || v[at] > math.MaxUint8 {
			return store.Numbers{}, fmt.Errorf("weblimit: store: %d can't be number %d of a limit", v[at], at)
		}
	}
	n := store.Numbers{
		Algorithm: store.Algorithm(v[0]), Quota: v[1], Window: time.Duration(v[2]), Burst: v[3], Whole: v[4], Soft: v[5], Jitter: v[6]&1 == 1, FromUse: v[6]&2 == 2,
		Wait: time.Duration(v[7]), Once: time.Duration(v[8]), Repeats: v[9],
		Block:    store.Block{After: v[10], Within: time.Duration(v[11]), For: time.Duration(v[12]), Factor: v[13], Max: time.Duration(v[14])},
		Calendar: store.Period{Unit: store.PeriodUnit(v[15]), Day: int(v[16])},
		Debt:     v[17], HasDebt: v[18] == 1, Guaranteed: v[19], Divided: v[20] == 1,
	}
	switch f.Zone {
	case "":
		return n, nil
	case "Local":
		return store.Numbers{}, errors.New("weblimit: store: a time zone that only another machine knows")
	}
	zone, err := time.LoadLocation(f.Zone)
	n.Calendar.Location = zone
	return n, err
}
