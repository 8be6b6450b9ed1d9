package core_test

import (
	"bytes"
	"encoding"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/keyfuncs"
)

// A type that prints words has them in JSON, too: slog's handler would write the number.
func TestLogsHaveWordsInJSON(t *testing.T) {
	t.Parallel()
	for want, value := range map[string]any{
		"cached denial":        core.ReasonCachedDenial,
		"unknown reason":       core.Reason(200),
		"Deny":                 core.Deny,
		"OutageAction(9)":      core.OutageAction(9),
		"SkipLimit":            core.SkipLimit,
		"NearLimit":            core.NearLimit,
		"Draft11|XRateLimit":   core.XRateLimit | core.Draft11,
		"Draft03|Headers(128)": core.Draft03 | 128,
		"breaker opened":       store.EventBreakerOpened,
		"token bucket":         store.TokenBucket,
		"month":                store.CalendarMonth,
		"unknown":              keyfuncs.Unknown,
		"ambiguous":            keyfuncs.Ambiguous,
		"breaker open":         store.ClassOpen,
	} {
		var out bytes.Buffer
		slog.New(slog.NewJSONHandler(&out, nil)).Info("", "value", value)
		var line struct{ Value string }
		if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Value != want {
			t.Errorf("%T: %s, want %q (%v)", value, out.Bytes(), want, err)
		}
	}
}

// What is read is what was written, and nothing else is read.
func TestEnumsAreReadAgain(t *testing.T) {
	t.Parallel()
	reads(t, core.ReasonWithinLimit, core.ReasonNeverFits, core.ReasonUndecided)
	reads(t, core.Local, core.Allow, core.Deny)
	reads(t, core.ShareBucket, core.DenyRequest, core.SkipLimit)
	reads(t, core.Always, core.NearLimit, core.OnDenial, core.Never)
	reads(t, 0, core.Draft11, core.Draft07|core.Draft03|core.XRateLimitDelta, core.Draft11|core.XRateLimit)
}

func reads[T interface {
	~uint8
	encoding.TextMarshaler
}](t *testing.T, values ...T) {
	t.Helper()
	for _, value := range values {
		text, err := json.Marshal(map[string]T{"v": value})
		var again map[string]T
		if err == nil {
			err = json.Unmarshal(text, &again)
		}
		if err != nil || again["v"] != value {
			t.Errorf("%s: read as %d, want %d (%v)", text, again["v"], value, err)
		}
	}
	for _, text := range []string{"nonsense", "0", "local", "Draft11|", strings.Repeat("x", 1000)} {
		again := map[string]T{}
		err := json.Unmarshal([]byte(`{"v":"`+text+`"}`), &again)
		if err == nil || !strings.Contains(err.Error(), "want one of") || len(err.Error()) > 400 {
			t.Errorf("%q: read as %d, want a short error that says what is possible, got %v", text, again["v"], err)
		}
	}
}
