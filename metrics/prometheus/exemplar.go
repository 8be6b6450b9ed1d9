package prometheus

import (
	"strings"
	"sync/atomic"
	"time"
)

const (
	traceLabel = "trace_id"

	// maxTrace is more than any format of trace ids needs. OpenMetrics allows 128 characters
	// for the labels of an exemplar, and the client library panics beyond.
	maxTrace = 64

	// exemplarEvery is the least time between two exemplars of one series: each is an
	// allocation, and a scrape reads only the last.
	exemplarEvery = time.Second
)

// validTrace returns a trace id, or "" for what can't be one. A trace id often comes from a header.
func validTrace(id string) string {
	if len(id) > maxTrace {
		return ""
	}
	for i := range len(id) {
		c := id[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' {
			return ""
		}
	}
	return id
}

// exemplar is a value of a histogram, and the request that it comes from.
type exemplar struct {
	value float64 // seconds
	trace string
	at    time.Time
}

func newExemplar(value time.Duration, trace string) *exemplar {
	return &exemplar{value.Seconds(), strings.Clone(trace), time.Now()}
}

// throttle lets one exemplar pass at a time. Its zero value is ready to use.
type throttle struct {
	next atomic.Int64 // since throttleOrigin
}

var throttleOrigin = time.Now()

// due reports whether an exemplar may be taken, to one caller each second.
func (t *throttle) due() bool {
	now, next := int64(time.Since(throttleOrigin)), t.next.Load()
	return now >= next && t.next.CompareAndSwap(next, now+int64(exemplarEvery))
}
