package inspect

import (
	"strings"
	"sync"
	"time"
)

const (
	labelFor  = time.Minute
	maxLabels = 4096
	maxLabel  = 200 // bytes
)

// labels keeps what Config.Label returned, since a page asks for the same keys each second.
type labels struct {
	resolve func(string) string

	mu      sync.Mutex
	known   map[string]string // Guarded by mu.
	expires time.Time         // of all of them. Guarded by mu.
}

// of returns the label of a key, or "".
func (l *labels) of(key string) string {
	if l.resolve == nil || key == "" {
		return ""
	}
	l.mu.Lock()
	if now := time.Now(); now.After(l.expires) || len(l.known) >= maxLabels {
		l.known, l.expires = make(map[string]string), now.Add(labelFor)
	}
	label, ok := l.known[key]
	l.mu.Unlock()
	if ok {
		return label
	}
	label = l.ask(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[key] = label
	return label
}

// ask calls the application's function. A panic in it must not take the page away.
func (l *labels) ask(key string) (label string) {
	defer func() {
		if recover() != nil {
			label = ""
		}
	}()
	label = strings.ToValidUTF8(l.resolve(key), "\uFFFD")
	if len(label) > maxLabel {
		label = strings.ToValidUTF8(label[:maxLabel], "") + "…"
	}
	return label
}
