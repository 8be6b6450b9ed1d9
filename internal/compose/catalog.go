package compose

import (
	"context"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/seam"
)

// Catalog holds any number of limits, of which each call says which to ask, for which keys and at
// which costs: for services that decide for others, by their own configuration. Config.Limits need
// no By, and their Named tells them apart. Config.Bypass does not apply. A Catalog never changes; Next
// makes the one that takes its place. It is safe for concurrent use.
type Catalog struct{ limiter *core.Limiter }

// NewCatalog returns a catalog of config.Limits.
func NewCatalog(config core.Config) (*Catalog, error) {
	l, err := door.New(config, making{Keyless: true, Catalog: true})
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
	l, err := door.New(config, making{Keyless: true, Catalog: true, Next: c.limiter})
	if err != nil {
		return nil, err
	}
	return &Catalog{l}, nil
}

// Entry is what a call asks one limit of a [Catalog], by its place in Config.Limits. Rule replaces the limit's own
// numbers, with the limit's name, unless it is nil. Key is any bytes; what does not suit a store is hashed.
// Cost is 0 or more; with 0 the limit charges nothing, and denies if nothing remains. A call asks no limit
// twice for one key.
//
// AnyOf has the limit deny only if all limits with AnyOf in the call deny. Those that have room are charged,
// and those that have none only if the units are Spent.
//
// Spent says that the units are spent already: they are charged whether or not they fit, and whether or
// not the call is denied. That holds for limits in shadow mode and with AnyOf, too.
type Entry = seam.Entry

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
	ask := c.ask(how, entries)
	defer ask.release()
	_ = door.Together(ctx, seam.Call{Timeout: how.Timeout}, ask[:]) // entries always can be decided together
	*d = ask[0].Decision
}

// GiveBack gives the costs of entries back to their limits, at most what is used of the windows that
// are running, and returns what each limit says then. An error means that it is not known whether
// they were.
func (c *Catalog) GiveBack(ctx context.Context, how How, entries []Entry) ([]core.Result, error) {
	ask := c.ask(how, entries)
	defer ask.release()
	err := door.Together(ctx, seam.Call{Timeout: how.Timeout, Verb: seam.GiveBack}, ask[:])
	return ask[0].Results, err
}

// Limiter returns what observers know of the catalog.
func (c *Catalog) Limiter() *core.Limiter { return c.limiter }

// question is a call of a catalog.
type question [1]Ask

var questions = sync.Pool{New: func() any { return new(question) }}

func (c *Catalog) ask(how How, entries []Entry) *question {
	q := questions.Get().(*question)
	if entries == nil {
		entries = []Entry{}
	}
	q[0].Limiter, q[0].Entries, q[0].Apart = c.limiter, entries, how.Apart
	return q
}

func (q *question) release() {
	q[0] = Ask{}
	questions.Put(q)
}
