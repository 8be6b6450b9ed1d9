package core

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weblimit/weblimit/internal/seam"
)

// need is a value of a framework that a key or condition reads; see keyfuncs.Func.Needing.
type need struct {
	whose string // a limit in quotes, or a field of Config
	value string // such as "*gin.Context"
}

func (l *Limiter) need(whose string, values []string) {
	for _, value := range values {
		l.needs = append(l.needs, need{whose, value})
	}
}

// needAll notes what the keys and conditions of a limit need.
func (l *Limiter) needAll(name string, limit *limit) {
	whose := fmt.Sprintf("limit %q", name)
	l.need(whose, limit.key.Needs())
	l.need(whose, limit.once.Needs())
	if limit.fair != nil {
		l.need(whose, limit.fair.by.Needs())
		l.need(whose, limit.fair.within.Needs())
	}
	for _, c := range limit.when {
		l.need(whose, c.Needs())
	}
	if limit.classes != nil {
		for _, c := range limit.classes.conditions() {
			l.need(whose, c.Needs())
		}
	}
}

// join is suits for an adapter, and tells it what it needs to know.
func (l *Limiter) join(adapter string, offers []string) (seam.Facts, error) {
	limits := func() int { return len(l.now().limits) }
	return seam.Facts{Limits: limits, Live: l.live != nil, Settles: l.live != nil || l.follows || l.remote != nil}, l.suits(adapter, offers)
}

// suits returns an error if the requests of an adapter lack a value that the limiter needs.
func (l *Limiter) suits(adapter string, offers []string) error {
	if l.live != nil {
		return l.live.suits(adapter, offers)
	}
	have := strings.Join(offers, " and ")
	if have == "" {
		have = "none of a framework"
	}
	for _, n := range l.needs {
		if !slices.Contains(offers, n.value) {
			return fmt.Errorf("weblimit: %s reads a %s, which requests of the adapter %s do not have (they have %s); take the Key or Matches of its own package", n.whose, n.value, adapter, have)
		}
	}
	return nil
}

// suitor is an adapter and the values that its requests have; see Limiter.suits.
type suitor struct {
	name   string
	offers []string
}

// suits is Limiter.suits for the current limiter and all that come after it.
func (v *live) suits(adapter string, offers []string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.current.Load().suits(adapter, offers); err != nil {
		return err
	}
	same := func(s suitor) bool { return s.name == adapter && slices.Equal(s.offers, offers) }
	if !slices.ContainsFunc(v.adapters, same) {
		v.adapters = append(v.adapters, suitor{adapter, offers})
	}
	return nil
}
