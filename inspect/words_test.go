package inspect

import (
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/metrics/top"
)

func TestDurationsAreShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0:                                     "0s",
		time.Microsecond:                      "1ms",
		850 * time.Millisecond:                "850ms",
		time.Second:                           "1s",
		1001 * time.Millisecond:               "1.1s",
		9950 * time.Millisecond:               "10s",
		10001 * time.Millisecond:              "11s",
		time.Minute:                           "1m",
		90 * time.Second:                      "1m30s",
		time.Hour:                             "1h",
		time.Hour + time.Second:               "1h1m",
		24 * time.Hour:                        "1d",
		30*time.Hour + 10*time.Minute:         "30h10m",
		3*24*time.Hour + 2*time.Hour:          "3d2h",
		365 * 24 * time.Hour:                  "365d",
		47*time.Hour + 59*time.Minute + 59e9:  "2d",
		59*time.Minute + 59*time.Second + 1e6: "1h",
	} {
		check.Equal(t, d.String(), short(d), want)
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1: "-1", -123: "-123", -1234: "-1,234"} {
		check.Equal(t, fmt.Sprint(n), grouped(n), want)
	}
}

func TestEveryReasonOfADenialHasASentence(t *testing.T) {
	t.Parallel()
	for reason, want := range map[core.Reason]string{
		core.ReasonLimitExceeded: "Used up: nothing left of 60 per 1m, burst 1,000, the request cost 5. Told to wait 4s.",
		core.ReasonCachedDenial:  "Used up: nothing left of 60 per 1m, burst 1,000, the request cost 5. Told to wait 4s.",
		core.ReasonBlocked:       "Blocked, by hand or for exceeding this limit repeatedly; 4s to go.",
		core.ReasonNeverFits:     "Too large: the request cost 5, and there is never room for more than 1,000. Waiting can't help.",
		core.ReasonMissingKey:    "Key missing: the request lacked what this limit counts by.",
		core.ReasonAmbiguousKey:  "Key ambiguous: the request had what this limit counts by several times.",
		core.ReasonInvalidCost:   "Cost invalid: it was negative.",
		core.ReasonOutageDenied:  "Outage: the store did not answer, and this limit then denies.",
		core.ReasonCanceled:      "Canceled: the request ended while it waited for its turn.",
	} {
		d := top.Denial{Reason: reason, Cost: 5, Quota: 60, Burst: 1000, Window: time.Minute, RetryAfter: 4 * time.Second}
		check.Equal(t, reason.String(), why(&d), want)
	}
}
