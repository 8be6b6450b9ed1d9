package redisstore

import (
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// How long a denial is repeated counts from when it was asked for, and what has ended it since then ends it also if its
// answer comes later.
func TestADenialEndsWhateverEndsItFirst(t *testing.T) {
	t.Parallel()
	const age = time.Minute
	s := New(redistest.Shared(t).Client(t), Config{Prefix: redistest.Prefix(t), DenialCache: DenialCache{Age: age}})
	s.denials.listener.wake(s)
	wait.Until(t, "the store listens", s.Hears) // which drops what was cached before
	rule := mustRule(core.PerHour(3))
	for _, tt := range []struct {
		name       string
		askedAgo   time.Duration
		retryAfter time.Duration
		meanwhile  func(key string)
		repeated   bool
	}{
		{name: "asked for just now", retryAfter: time.Hour, repeated: true},
		{name: "asked for within its age", askedAgo: age / 2, retryAfter: time.Hour, repeated: true},
		{name: "asked for longer ago than its age", askedAgo: age + age/2, retryAfter: time.Hour},
		{name: "asked for longer ago than its Retry-After", askedAgo: age / 2, retryAfter: age / 4},
		{name: "another process has given units back since it was asked for", retryAfter: time.Hour, meanwhile: s.denials.forgetKey},
		{name: "messages may have got lost since it was asked for", retryAfter: time.Hour, meanwhile: func(string) { s.denials.forgetAll() }},
	} {
		checks := []store.Check{{Key: []byte(tt.name), Rule: &rule, Cost: 1}}
		results := make([]store.Result, 1)
		asked, found := s.denials.find(checks, results)
		check.Equal(t, tt.name+": found before it was asked for", found, false)
		asked.sent -= int64(tt.askedAgo)
		if tt.meanwhile != nil {
			tt.meanwhile(tt.name)
		}
		s.keepDenial(asked, checks, []store.Result{{RetryAfter: tt.retryAfter, ResetAfter: time.Hour}}, 0)
		_, repeated := s.denials.find(checks, results)
		check.Equal(t, tt.name+": repeated", repeated, tt.repeated)
	}
}
