package quota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weblimit/weblimit/internal/spelling"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/micros"
)

// Export sends what was used to a receiver, such as a billing engine: see package notify. The
// use of each tenant, limit and day is sent in increments, whose sum is the use exactly. An
// increment is written to the ledger before it is sent, so that what is sent again after a
// crash has the same id and the same value, and a receiver that drops ids it knows counts it once.
//
// Of the processes with an export of one name, one does a pass, and then another may.
type Export struct {
	// Name identifies the receiver in the ledger: 1 to 64 letters, digits and . _ -. Required.
	Name string

	// Send sends increments, of which there is at least one. It must return when ctx is done. A
	// nil error says that the receiver has them all. After another all are sent again: see
	// [DeliveryError]. Required.
	Send func(ctx context.Context, batch []Increment) error

	// Limits are the names of the limits that are exported. Defaults to all that the book keeps.
	Limits []string

	// Every is the time from one pass to the next, from 10ms to 24h. A pass reads what all
	// accounts of the present periods have used. Defaults to 1m.
	Every time.Duration

	// Batch bounds the increments of one call of Send, from 1 to 1000. Defaults to 100.
	Batch int

	// Timeout bounds one call of Send, from 10ms to 10m. Defaults to 30s.
	Timeout time.Duration

	// HoldBack keeps negative increments, which refunds cause, until further use exceeds them,
	// for receivers that don't accept them. What is still held back when a period ends was
	// refunded after it was sent, and is missing in the sum for good. Defaults to false.
	HoldBack bool

	// Since is set when an export of that name is first opened: periods that ended before are
	// not sent. Periods that had not ended are sent from their beginning. Defaults to now.
	Since time.Time
}

// Increment is what an account has used on a day since the increment before.
type Increment struct {
	// ID identifies the increment, in all processes and attempts. The same ID has the same
	// Value.
	ID string

	Limit  string    // name of the limit
	Tenant string    // key as the limit counts it
	Start  time.Time // of the period
	End    time.Time

	Day   time.Time // the day in the limit's time zone, as midnight in UTC
	At    time.Time // of the last unit, in the period and on that day
	Value int64     // units, below 0 for a refund
	Total int64     // of the account on that day, with this increment
}

// The defaults and bounds of Export.
const (
	defaultExportEvery   = time.Minute
	defaultBatch         = 100
	defaultExportTimeout = 30 * time.Second

	maxExportEvery = 24 * time.Hour
	maxBatch       = 1000
	maxExports     = 16
)

// completeExports returns exports with defaults.
func completeExports(exports []Export, limits []string) ([]Export, error) {
	if len(exports) > maxExports {
		return nil, fmt.Errorf("weblimit: quota: Config.Exports has %d exports, the most is %d", len(exports), maxExports)
	}
	all := make([]Export, 0, len(exports))
	names := make(map[string]bool)
	for _, e := range exports {
		if err := e.complete(); err != nil {
			return nil, err
		}
		if names[e.Name] {
			return nil, fmt.Errorf("weblimit: quota: Config.Exports has the export %q twice", e.Name)
		}
		names[e.Name] = true
		for _, name := range e.Limits {
			if len(limits) > 0 && !slices.Contains(limits, name) {
				return nil, fmt.Errorf("weblimit: quota: Config.Exports: export %q: Config.Limits leaves out the limit %q, of which nothing is kept: it has %s%s",
					e.Name, name, strings.Join(limits, ", "), spelling.Meant(name, limits))
			}
		}
		all = append(all, e)
	}
	return all, nil
}

func (e *Export) complete() error {
	e.Every = orDefault(e.Every, defaultExportEvery)
	e.Batch = orDefault(e.Batch, defaultBatch)
	e.Timeout = orDefault(e.Timeout, defaultExportTimeout)
	e.Limits = slices.Clone(e.Limits)
	if !limitName.MatchString(e.Name) {
		return fmt.Errorf("weblimit: quota: the name of an export of Config.Exports must be 1 to 64 letters, digits and . _ -, got %q", e.Name)
	}
	var err error
	switch {
	case e.Send == nil:
		err = errors.New("Send is missing")
	case e.Every < minTimeout || e.Every > maxExportEvery:
		err = fmt.Errorf("its Every must be from %v to %v, got %v", minTimeout, maxExportEvery, e.Every)
	case e.Batch < 1 || e.Batch > maxBatch:
		err = fmt.Errorf("its Batch must be from 1 to %d, got %d", maxBatch, e.Batch)
	case e.Timeout < minTimeout || e.Timeout > maxDeliverTimeout:
		err = fmt.Errorf("its Timeout must be from %v to %v, got %v", minTimeout, maxDeliverTimeout, e.Timeout)
	case !e.Since.IsZero() && (e.Since.Unix() <= 0 || e.Since.After(micros.FarFuture)):
		err = fmt.Errorf("there can be no periods until %v", e.Since)
	}
	for _, name := range e.Limits {
		if !limitName.MatchString(name) {
			err = fmt.Errorf("a limit's name is 1 to 64 letters, digits and . _ -, got %q", name)
		}
	}
	if err != nil {
		return fmt.Errorf("weblimit: quota: Config.Exports: export %q: %w", e.Name, err)
	}
	return nil
}

// incrementOf returns an increment as users see it.
func incrementOf(i *ledger.Increment) Increment {
	at := min(max(i.At, i.Start), i.End-1)
	return Increment{
		// With sent and value in it, no two different increments can have one id.
		ID:    stableID("usage", i.Limit, i.Key, i.Start, i.End, int64(i.Date), i.Seq, i.Sent, i.Value),
		Limit: i.Limit, Tenant: i.Key, Start: micros.Time(i.Start), End: micros.Time(i.End),
		Day: micros.Date(i.Date), At: micros.Time(at), Value: i.Value, Total: i.Sent + i.Value,
	}
}
