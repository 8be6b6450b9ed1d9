package envoy

import (
	"math"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	okCode   = rls.RateLimitResponse_OK
	overCode = rls.RateLimitResponse_OVER_LIMIT
)

// answer returns the response to a request that is decided.
func (q *question) answer() *rls.RateLimitResponse {
	config, stats := &q.server.config, &q.server.stats
	response := &rls.RateLimitResponse{OverallCode: okCode}
	if len(q.asks) > 0 && !q.decision.Allowed {
		response.OverallCode = overCode
	}
	var nearest *rls.RateLimitResponse_DescriptorStatus // of those that show in headers
	denies := false                                     // nearest does; then none that passes replaces it
	var passed []*rule
	left := q.left()
	for i := range q.asked {
		a := &q.asked[i]
		s := &rls.RateLimitResponse_DescriptorStatus{Code: okCode}
		response.Statuses = append(response.Statuses, s)
		switch {
		case a.rule == nil:
			continue
		case a.rule.unlimited:
			s.LimitRemaining = math.MaxUint32 // as envoyproxy/ratelimit answers
			stats.count(config, a, 0, okCode, false)
			continue
		}
		over := q.status(a, s, left)
		quota := a.rule.quota || config.Quota
		switch {
		case over && a.rule.shadow:
			s.Code = okCode
		case over:
			s.Code = overCode
		}
		if s.Code == okCode {
			passed = append(passed, a.rule)
		}
		switch {
		case a.rule.shadow:
		case over && !quota:
			nearest, denies = s, true // the last one that denies, as envoyproxy/ratelimit has it
		case nearest == nil || !denies && s.LimitRemaining < nearest.LimitRemaining:
			nearest = s
		}
	}
	if config.Shadow {
		if slices.ContainsFunc(response.Statuses, func(s *rls.RateLimitResponse_DescriptorStatus) bool { return s.Code == overCode }) {
			stats.shadowed.Add(1)
		}
		response.OverallCode = okCode
	}
	q.headers(response, nearest)
	if config.DynamicMetadata {
		response.DynamicMetadata = metadata(q.request, passed)
	}
	return response
}

// left returns how many units each ask leaves to the descriptors that share it, in their order. The store has decided
// on their sum, and each is answered as if those before it had been decided first.
func (q *question) left() []int64 {
	left := make([]int64, len(q.asks))
	for i := range q.results {
		left[i] = q.results[i].Remaining
		if q.results[i].Charged && q.results[i].Allowed {
			left[i] += q.asks[i].Cost
		}
	}
	return left
}

// status writes what a limit says to a descriptor, and reports whether the descriptor is over it.
func (q *question) status(a *asked, s *rls.RateLimitResponse_DescriptorStatus, left []int64) (over bool) {
	var result core.Result
	known := false
	if !a.negative {
		result, known = q.results[a.place], q.known[a.place]
	} else if q.returned != nil {
		result, known = q.returned[a.place], true
	}
	s.CurrentLimit = a.rule.limit
	s.DurationUntilReset = a.rule.reset(&result)
	stats, config := &q.server.stats, &q.server.config
	cost := a.rule.cost(a.hits)
	switch {
	case !known: // in an outage
		s.LimitRemaining = a.rule.limit.GetRequestsPerUnit() // nobody knows
		return false
	case a.negative:
		s.LimitRemaining = remaining(a.rule, result.Remaining)
		return false
	case result.Allowed && result.Charged:
		left[a.place] -= cost
		s.LimitRemaining = remaining(a.rule, left[a.place])
	case result.Allowed: // nothing was charged, or hits are 0
		s.LimitRemaining = remaining(a.rule, result.Remaining)
	default:
		// Of several that share a limit, the first may have fitted, unless all were charged anyway.
		if over = cost == 0 || result.Charged || cost > left[a.place]; !over {
			left[a.place] -= cost
		}
		s.LimitRemaining = remaining(a.rule, left[a.place])
	}
	code := okCode
	if over {
		code = overCode
	}
	stats.count(config, a, int64(s.LimitRemaining), code, over && a.rule.shadow)
	return over
}

func remaining(r *rule, left int64) uint32 {
	return uint32(min(max(left, 0), int64(r.limit.GetRequestsPerUnit())))
}

// reset returns how long until the limit is whole again, in whole seconds: for fixed windows until the
// next one starts, by the clock of the store.
func (r *rule) reset(result *core.Result) *durationpb.Duration {
	window := windows[r.limit.GetUnit()]
	left := result.ResetAfter
	if r.algorithm == FixedWindow || result.At == 0 {
		at := result.At
		if at == 0 {
			at = time.Now().UnixMicro()
		}
		micros := window.Microseconds()
		left = time.Duration(micros-at%micros) * time.Microsecond
	}
	return &durationpb.Duration{Seconds: int64((left + time.Second - 1) / time.Second)}
}

// headers adds the response headers that are configured.
func (q *question) headers(response *rls.RateLimitResponse, nearest *rls.RateLimitResponse_DescriptorStatus) {
	config := &q.server.config
	add := func(name, value string) {
		response.ResponseHeadersToAdd = append(response.ResponseHeadersToAdd, &corev3.HeaderValue{Key: name, Value: value})
	}
	if names := config.LimitHeaders; names != nil && nearest != nil {
		add(names.Limit, strconv.FormatUint(uint64(nearest.GetCurrentLimit().GetRequestsPerUnit()), 10))
		add(names.Remaining, strconv.FormatUint(uint64(nearest.GetLimitRemaining()), 10))
		add(names.Reset, strconv.FormatInt(nearest.GetDurationUntilReset().GetSeconds(), 10))
	}
	if config.Headers == 0 || len(q.asks) == 0 {
		return
	}
	header := make(adapter.HeaderMap)
	q.decision.SetHeaders(header)
	names := make([]string, 0, len(header))
	for name := range header {
		names = append(names, name)
	}
	slices.Sort(names) // so that equal answers have equal bytes
	for _, name := range names {
		add(spelled(name), strings.Join(header.Values(name), ", "))
	}
}

// spelled returns a header name as drafts spell it.
func spelled(name string) string {
	for _, known := range core.ExposeHeaders() {
		if textproto.CanonicalMIMEHeaderKey(known) == name {
			return known
		}
	}
	return name
}
