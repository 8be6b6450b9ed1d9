package prometheus

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core"
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

// tracing finds the trace of one decision once an exemplar may be taken. The trace is asked for then
// and not before: of all but one decision in a second nobody needs it.
type tracing struct {
	of  func(context.Context) string // nil if there are no exemplars
	ctx context.Context
	now int64 // since throttleOrigin

	asked bool
	id    string
}

// tracingOf returns the tracing of a decision, which takes the time from the check: another look at
// the clock costs as much as all that is counted.
func (o *Observer) tracingOf(ctx context.Context, seen *core.Observation) (t tracing) {
	if o.config.TraceID == nil {
		return t
	}
	t.of, t.ctx = o.config.TraceID, ctx
	if seen.CheckTime > 0 {
		t.now = int64(seen.CheckEnd.Sub(throttleOrigin))
	} else {
		t.now = int64(time.Since(throttleOrigin))
	}
	return t
}

// due returns the trace if an exemplar may be taken, to one caller each second, and otherwise "".
func (t *tracing) due(at *throttle) string {
	if t.of == nil {
		return ""
	}
	next := at.next.Load()
	if t.now < next {
		return ""
	}
	if !t.asked {
		t.asked, t.id = true, validTrace(t.of(t.ctx))
	}
	if t.id == "" || !at.next.CompareAndSwap(next, t.now+int64(exemplarEvery)) {
		return ""
	}
	return t.id
}
