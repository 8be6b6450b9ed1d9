package adapter

import (
	"context"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/seam"
)

var (
	newCatalog   = seam.NewCatalog.(func(core.Config, *core.Limiter) (*core.Limiter, error))
	decideSome   = seam.DecideSome.(func(*core.Limiter, context.Context, time.Duration, bool, int, func(int, *core.Check) (int, uint8), *core.Decision))
	giveBackSome = seam.GiveBackSome.(func(*core.Limiter, context.Context, time.Duration, int, func(int, *core.Check) (int, uint8)) ([]core.Result, error))
)

// Catalog holds any number of limits, of which each call says which to ask, for which keys and at
// which costs: for services that decide for others, by their own configuration. Config.Limits need
// no By, and their Named tells them apart. Config.Bypass does not apply. A Catalog never changes; Next
// makes the one that takes its place. It is safe for concurrent use.
type Catalog struct{ limiter *core.Limiter }

// NewCatalog returns a catalog of config.Limits.
func NewCatalog(config core.Config) (*Catalog, error) {
	l, err := newCatalog(config, nil)
	if err != nil {
		return nil, err
	}
	return &Catalog{l}, nil
}

// Next returns a catalog that takes the place of c, with the same Store: its limits may have names of
// c's limits, with other numbers. c can still be asked, for what has begun with it. What clients have
// used under a limit stays used as long as its name stays. If there is an error, nothing changes. The
// caller makes sure that only one takes the place of c.
func (c *Catalog) Next(config core.Config) (*Catalog, error) {
	l, err := newCatalog(config, c.limiter)
	if err != nil {
		return nil, err
	}
	return &Catalog{l}, nil
}

// Entry is what a call entries one limit of a [Catalog]. A call entries no limit twice for one key.
type Entry struct {
	Limit int        // its place in Config.Limits
	Rule  *core.Rule // instead of the limit's own numbers, with the limit's name; nil for those
	Key   []byte     // any bytes; what does not suit a store is hashed
	Cost  int64      // 0 or more; with 0 the limit charges nothing, and denies if nothing remains

	// AnyOf has the limit deny only if all limits with AnyOf in the call deny. Those that have room
	// are charged, and those that have none only if the units are Spent.
	AnyOf bool

	// Spent says that the units are spent already: they are charged whether or not they fit, and
	// whether or not the call is denied. That holds for limits in shadow mode and with AnyOf, too.
	Spent bool
}

// How says how a call of a [Catalog] is decided. Its zero value is ready to use.
type How struct {
	// Timeout bounds how long the store may take if it is less than Config.Timeout, such as what
	// is left until the caller's deadline. Defaults to Config.Timeout.
	Timeout time.Duration

	// Apart charges each limit by itself, whatever the others say. Defaults to all or nothing.
	Apart bool
}

// Decide decides some limits together, of at most 255, and writes the decision to d, which must be
// zero. Its results are in the order of entries; in an outage, those of limits that allow without being
// asked are missing. The caller's context only has values, and its end changes nothing.
func (c *Catalog) Decide(ctx context.Context, how How, entries []Entry, d *core.Decision) {
	decideSome(c.limiter, ctx, how.Timeout, how.Apart, len(entries), asker(entries), d)
}

// GiveBack gives the costs of entries back to their limits, at most what is used of the windows that
// are running, and returns what each limit says then. An error means that it is not known whether
// they were.
func (c *Catalog) GiveBack(ctx context.Context, how How, entries []Entry) ([]core.Result, error) {
	return giveBackSome(c.limiter, ctx, how.Timeout, len(entries), asker(entries))
}

// Limiter returns what observers know of the catalog.
func (c *Catalog) Limiter() *core.Limiter { return c.limiter }

func asker(entries []Entry) func(int, *core.Check) (int, uint8) {
	return func(i int, check *core.Check) (place int, how uint8) {
		a := &entries[i]
		check.Key, check.Cost, check.Rule = a.Key, a.Cost, a.Rule
		if a.AnyOf {
			how |= 1
		}
		if a.Spent {
			how |= 2
		}
		return a.Limit, how
	}
}
