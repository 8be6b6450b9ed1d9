package envoy

import (
	"context"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/compose"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ShouldRateLimit implements envoy.service.ratelimit.v3.RateLimitService.
func (s *Server) ShouldRateLimit(ctx context.Context, request *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	s.stats.requests.Add(1)
	q := question{server: s, snapshot: s.current.Load(), request: request}
	err := q.read()
	if err == nil {
		err = q.decide(ctx)
	}
	if err != nil {
		if status.Code(err) == codes.Unavailable {
			s.stats.storeErrors.Add(1)
		} else {
			s.stats.serviceErrors.Add(1)
		}
		return nil, err
	}
	return q.answer(), nil
}

// question is a request while it is decided.
type question struct {
	server   *Server
	snapshot *snapshot
	request  *rls.RateLimitRequest
	asked    []asked         // by descriptor
	asks     []compose.Entry // what the store is asked, by what is taken
	rules    []*rule         // of asks
	results  []core.Result   // of asks; with AnyOf and in shadow mode, too
	known    []bool          // of asks: whether there is a result
	back     []compose.Entry // what is given back
	returned []core.Result   // of back; nil if it is not known whether they were
	decision core.Decision   // on asks
}

// asked is a descriptor and what becomes of it.
type asked struct {
	rule     *rule // nil if no limit applies
	key      []byte
	path     string // in statistics
	hits     uint64
	negative bool // hits are given back
	stated   bool // hits are those of the descriptor itself
	place    int  // in asks or back
}

// read finds the rules of the descriptors. Its error is that of a request that no limit can answer.
func (q *question) read() error {
	request, config := q.request, &q.server.config
	descriptors := request.GetDescriptors()
	switch {
	case request.GetDomain() == "":
		return status.Error(codes.InvalidArgument, "rate limit domain must not be empty")
	case len(descriptors) == 0:
		return status.Error(codes.InvalidArgument, "rate limit descriptor list must not be empty")
	case len(descriptors) > config.MaxDescriptors:
		return status.Errorf(codes.InvalidArgument, "at most %d descriptors are decided together, and the request has more", config.MaxDescriptors)
	}
	domain := q.snapshot.rules.domains[request.GetDomain()]
	q.asked = make([]asked, len(descriptors))
	var replaced map[string]bool
	for i, d := range descriptors {
		if len(d.GetEntries()) > config.MaxEntries {
			return status.Errorf(codes.InvalidArgument, "a descriptor has at most %d entries, and one of the request has more", config.MaxEntries)
		}
		a := &q.asked[i]
		a.hits, a.stated = hitsOf(request, d)
		a.negative = d.GetIsNegativeHits()
		if domain == nil {
			continue
		}
		if limit := d.GetLimit(); limit != nil {
			if err := a.override(domain, d); err != nil {
				return err
			}
			continue
		}
		a.rule, a.key, a.path = domain.match(d)
		if a.rule != nil && len(a.rule.replaces) > 0 {
			if replaced == nil {
				replaced = make(map[string]bool)
			}
			for _, name := range a.rule.replaces {
				replaced[name] = true
			}
		}
	}
	if domain == nil {
		q.server.warnOfStranger(request.GetDomain(), q.snapshot.rules)
	}
	for i := range q.asked {
		a := &q.asked[i]
		if a.rule != nil && !a.rule.unlimited && replaced[a.rule.limit.GetName()] {
			a.rule = nil
		}
		if a.rule != nil && !a.rule.unlimited {
			q.ask(a)
		}
	}
	return nil
}

// mostHits is above every limit, and far from an overflow of a sum.
const mostHits = 1 << 40

// hitsOf returns how many hits a descriptor adds, and whether it says so itself. It says no more than is
// needed to use up any limit: counters that are no limits add hits up, and would begin again at 0.
func hitsOf(request *rls.RateLimitRequest, d *ratelimit.RateLimitDescriptor) (hits uint64, stated bool) {
	if own := d.GetHitsAddend(); own != nil {
		return min(own.GetValue(), mostHits), true
	}
	return uint64(max(request.GetHitsAddend(), 1)), false
}

// override has a descriptor be limited by the numbers that it brings along.
func (a *asked) override(in *domain, d *ratelimit.RateLimitDescriptor) error {
	unit := rls.RateLimitResponse_RateLimit_Unit(d.GetLimit().GetUnit())
	if windows[unit] == 0 {
		return status.Errorf(codes.InvalidArgument, "the limit of a descriptor has an unknown unit, %d", int32(unit))
	}
	requests := d.GetLimit().GetRequestsPerUnit()
	numbers, err := in.algorithm.limit(requests, unit).Named(in.overrides).Rule()
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	a.rule = &rule{
		place: in.override, numbers: &numbers, algorithm: in.algorithm, path: in.name + separator + "override",
		limit: &rls.RateLimitResponse_RateLimit{RequestsPerUnit: requests, Unit: unit},
	}
	a.key, a.path = in.overrideKey(unit, d.GetEntries()), a.rule.path
	return nil
}

// ask adds what a descriptor asks of its limit. Several that ask one limit for one key ask once, for the
// sum of their hits.
func (q *question) ask(a *asked) {
	to := &q.asks
	if a.negative {
		to = &q.back
	}
	config := &q.server.config
	cost := a.rule.cost(a.hits)
	spent := config.Overdraw == OverdrawAlways || config.Overdraw == OverdrawStated && a.stated
	for i := range *to {
		other := &(*to)[i]
		if other.Limit == a.rule.place && string(other.Key) == string(a.key) {
			other.Cost = min(other.Cost+cost, 1<<50) // above every limit, and below 2^53
			other.Spent = other.Spent || spent
			a.place = i
			return
		}
	}
	ask := compose.Entry{Limit: a.rule.place, Rule: a.rule.numbers, Key: a.key, Cost: cost, AnyOf: a.rule.quota || config.Quota, Spent: spent}
	a.place = len(*to)
	*to = append(*to, ask)
	if !a.negative {
		q.rules = append(q.rules, a.rule)
	}
}

// decide asks the store. Its error is an outage, if that is to be one.
func (q *question) decide(ctx context.Context) error {
	how := compose.How{Apart: q.server.config.Independent, Timeout: timeLeft(ctx)}
	if how.Timeout < 0 {
		return status.Error(codes.DeadlineExceeded, "the caller's deadline has passed")
	}
	if len(q.asks) > 0 {
		q.snapshot.catalog.Decide(ctx, how, q.asks, &q.decision)
		if q.decision.Reason == core.ReasonOutageDenied {
			return status.Error(codes.Unavailable, "the store of the limits did not answer")
		}
		q.spread()
	}
	if len(q.back) > 0 {
		for i := range q.back {
			if len(q.asks) > 0 && !q.decision.Allowed && !how.Apart {
				q.back[i].Cost = 0 // a denied request changes nothing; the store still tells what is left
			}
		}
		how.Timeout = timeLeft(ctx)
		q.returned, _ = q.snapshot.catalog.GiveBack(ctx, how, q.back) // the store's events tell of an outage
	}
	return nil
}

// spread takes the results of the decision to what was asked. In an outage, only limits that the
// process decides by itself have one.
func (q *question) spread() {
	q.results, q.known = make([]core.Result, len(q.asks)), make([]bool, len(q.asks))
	results := q.decision.Results()
	for i := range q.asks {
		if q.decision.Err != nil && (q.rules[i].shadow || q.server.config.Shadow || q.server.config.OnOutage != core.Local) || len(results) == 0 {
			continue
		}
		q.results[i], q.known[i] = results[0].Result, true
		results = results[1:]
	}
}

// leastTime is what the store gets at least: if every answer were too late, it would seem to be out.
const leastTime = 5 * time.Millisecond

// timeLeft returns how long the store may take for the answer to come before the caller's deadline. The answer itself needs
// time to arrive: a quarter of what is left, at most 5ms. It is 0 if there is none, and negative if it has passed.
func timeLeft(ctx context.Context) time.Duration {
	if ctx.Err() != nil {
		return -1
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	left := time.Until(deadline)
	return max(left-min(left/4, 5*time.Millisecond), leastTime)
}
