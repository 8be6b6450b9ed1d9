package core_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// What an application writes into a body of its own is what Retry-After says.
func TestRetryAfterSeconds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		d    core.Decision
		want int64
	}{
		{"the zero decision", core.Decision{}, 0},
		{"allowed", core.Decision{Allowed: true, RetryAfter: time.Second}, 0},
		{"no wait helps", core.Decision{}, 0},
		{"a moment", core.Decision{RetryAfter: time.Microsecond}, 1},
		{"whole seconds", core.Decision{RetryAfter: time.Hour}, 3600},
		{"just above", core.Decision{RetryAfter: time.Hour + time.Microsecond}, 3601},
		{"just below", core.Decision{RetryAfter: time.Hour - 296*time.Millisecond}, 3600},
	} {
		check.Equal(t, tt.name, tt.d.RetryAfterSeconds(), tt.want)
	}
	l := limiterOn(t, core.NewMemory(), core.PerHour(1).By(keyfuncs.Everyone()))
	for range 2 {
		d := l.Allow(&request{})
		h := http.Header{}
		d.SetHeaders(h)
		check.Equal(t, "Retry-After", h.Get("Retry-After"), strings.TrimPrefix(fmt.Sprint(d.RetryAfterSeconds()), "0"))
	}
}
