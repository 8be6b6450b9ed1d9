package quota

import (
	"context"
	"fmt"
	"slices"

	"github.com/weblimit/weblimit/core/store"
)

// quietFor is how many times in a row a process must say that it is there without having made a limiter since,
// until the names of limits in its configuration are compared with those that there are.
const quietFor = 3

// unknownLimits finds names of limits in Config.Limits and Export.Limits that no process has. One goroutine uses it.
type unknownLimits struct {
	made  int64 // limits of limiters, when it was asked last
	quiet int   // how often it was asked since then
	told  map[string]bool
}

// tellUnknownLimits reports names of limits that no process has: nothing of them is kept, or exported. Each is reported
// once, some time after this process has made its limiters.
func (f *flusher) tellUnknownLimits(ctx context.Context) {
	b, u := f.book, &f.unknown
	if made := b.rules.Made.Load(); made != u.made {
		u.made, u.quiet = made, 0
	}
	if u.quiet++; u.made == 0 || u.quiet != quietFor {
		return
	}
	within, cancel := context.WithTimeout(ctx, b.config.Timeout)
	declarations, err := b.ledger.Declarations(within)
	cancel()
	if err != nil {
		u.quiet-- // and asks again
		return
	}
	names := b.namesWith(declarations)
	u.tell(b, "Config.Limits", "", b.config.Limits, names, b.rules.LeftOut())
	for i := range b.config.Exports {
		e := &b.config.Exports[i]
		u.tell(b, fmt.Sprintf("Config.Exports: export %q: Limits", e.Name), e.Name, e.Limits, names, names)
	}
}

// tell reports the names that are not known. instead are those that may be meant.
func (u *unknownLimits) tell(b *Book, where, export string, names, known, instead []string) {
	for _, name := range names {
		what := fmt.Sprintf("%s has %q", where, name)
		if slices.Contains(known, name) || u.told[what] {
			continue
		}
		if u.told == nil {
			u.told = make(map[string]bool)
		}
		u.told[what] = true
		b.health.registry.Report(store.Event{
			Kind: EventLimitUnknown, Node: export, Err: fmt.Errorf("weblimit: quota: %s, and no process has a calendar limit of this name%s", what, meant(name, instead, "the limits are")),
		})
	}
}
