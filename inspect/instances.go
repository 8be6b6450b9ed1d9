package inspect

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/weblimit/weblimit/internal/pageapi"
	"github.com/weblimit/weblimit/metrics/top"
)

const (
	// An instance that publishes nothing any more is listed as silent for some minutes: it has
	// stopped, or it can't reach the store.
	silentFor = 5 * time.Minute
	maxSilent = 20

	maxRemembered = 1024 // instances
)

func instanceOf(i *top.Instance) pageapi.Instance {
	out := pageapi.Instance{
		Name: i.Name, At: i.At, State: "ok",
		Since: i.Health.Since, Class: i.Health.Class, LastedMS: i.Health.Lasted.Milliseconds(), Versions: i.Versions,
	}
	for _, b := range i.Health.Open {
		out.State = "degraded"
		out.Open = append(out.Open, pageapi.Breaker(b))
	}
	if i.Health.Out {
		out.State = "outage"
	}
	return out
}

// instances are those that were seen. Its zero value is ready to use.
type instances struct {
	mu   sync.Mutex
	seen map[string]time.Time // when, by name, by the clock of this process. Guarded by mu.
}

// note notes which instances there are, and returns those that are missing. They are told only if all could
// be read.
func (i *instances) note(now time.Time, present []top.Instance, complete bool) []pageapi.Silent {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.seen == nil {
		i.seen = make(map[string]time.Time)
	}
	for _, p := range present {
		if _, known := i.seen[p.Name]; known || len(i.seen) < maxRemembered {
			i.seen[p.Name] = now
		}
	}
	silent := []pageapi.Silent{}
	for name, at := range i.seen {
		switch {
		case now.Sub(at) > silentFor:
			delete(i.seen, name)
		case complete && at.Before(now):
			silent = append(silent, pageapi.Silent{Name: name, At: at})
		}
	}
	slices.SortFunc(silent, func(a, b pageapi.Silent) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Name, b.Name)) })
	return silent[:min(len(silent), maxSilent)]
}
