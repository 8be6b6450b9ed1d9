package top

import (
	"sync"

	"github.com/weblimit/weblimit/core"
)

// kinds are what the keys of limits are made of, by the name of the limit: the command, which has
// only what instances publish, has to know under which keys a limit counts. Its zero value is ready to use.
type kinds struct {
	mu    sync.Mutex
	known map[string]string // Guarded by mu.
}

// mostKinds bounds the kinds of limits that come and go with policies.
const mostKinds = 4096

// Attached implements [core.Observer].
func (t *Tracker) Attached(l *core.Limiter) { t.kinds.learn(l) }

// learn notes the limits of a limiter's store.
func (k *kinds) learn(l *core.Limiter) {
	declarations := l.Store().Registry().Declarations()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil || len(k.known) > mostKinds {
		k.known = make(map[string]string)
	}
	for i := range declarations {
		if d := &declarations[i]; len(d.Keys) <= maxKinds {
			k.known[d.Rule.Name] = d.Keys
		}
	}
}

// of returns what the keys of a limit are made of, or "".
func (k *kinds) of(limit string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known[limit]
}
