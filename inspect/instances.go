package inspect

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/weblimit/weblimit/metrics/top"
)

const (
	// An instance that publishes nothing any more is listed as silent for some minutes: it has
	// stopped, or it can't reach the store.
	silentFor = 5 * time.Minute
	maxSilent = 20

	maxRemembered = 1024 // instances
)

// instanceJSON is one instance. State is as in healthJSON, as the instance saw its store when it took its
// snapshot.
type instanceJSON struct {
	Name     string        `json:"name"`
	At       time.Time     `json:"at"` // of its snapshot
	State    string        `json:"state"`
	Since    time.Time     `json:"since,omitzero"` // when the outage began, or the last one ended
	Class    string        `json:"class,omitempty"`
	LastedMS int64         `json:"lasted_ms,omitempty"` // of an outage that has ended
	Open     []breakerJSON `json:"open,omitempty"`
	Versions []string      `json:"versions,omitempty"` // of the policies by which it decides
}

// breakerJSON is a server that an instance does not ask.
type breakerJSON struct {
	Node  string    `json:"node"`
	Since time.Time `json:"since"`
	Class string    `json:"class,omitempty"`
}

// silentJSON is an instance that was there some minutes ago.
type silentJSON struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"` // of the last snapshot that was seen
}

func instanceOf(i *top.Instance) instanceJSON {
	out := instanceJSON{
		Name: i.Name, At: i.At, State: "ok",
		Since: i.Health.Since, Class: i.Health.Class, LastedMS: i.Health.Lasted.Milliseconds(), Versions: i.Versions,
	}
	for _, b := range i.Health.Open {
		out.State = "degraded"
		out.Open = append(out.Open, breakerJSON(b))
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
func (i *instances) note(now time.Time, present []top.Instance, complete bool) []silentJSON {
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
	silent := []silentJSON{}
	for name, at := range i.seen {
		switch {
		case now.Sub(at) > silentFor:
			delete(i.seen, name)
		case complete && at.Before(now):
			silent = append(silent, silentJSON{name, at})
		}
	}
	slices.SortFunc(silent, func(a, b silentJSON) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Name, b.Name)) })
	return silent[:min(len(silent), maxSilent)]
}
