package core

import (
	"context"
	"time"
)

// Outage is how a limit decides while its store does not answer.
type Outage uint8

const (
	// Local lets a bucket in this process stand in, with the limit divided by
	// Config.Replicas, but at least one request of the limit's cost. It begins
	// full at the first outage.
	Local Outage = iota
	// Allow lets requests through this limit.
	Allow
	// Deny refuses requests with 503 Service Unavailable.
	Deny
)

func (o Outage) valid() bool { return o <= Deny }

// outageRetry is what a request that is denied for an outage is told to wait.
const outageRetry = time.Second

// share returns the part of r that one of n processes grants: at least one
// request of the given cost. Together they grant at most n units, or that cost,
// more than r.
func (r *Rule) share(n int, cost int64) Rule {
	quota, burst := ceilDiv(r.Quota, int64(n)), max(ceilDiv(r.Burst, int64(n)), cost)
	if r.Algorithm != TokenBucket {
		quota = burst
	}
	// A smaller quota can have fewer divisors in common with the window, and be
	// too odd to count exactly: then it is rounded up to one that has as many.
	common := gcd(r.Quota, r.Window.Microseconds())
	for _, quota := range []int64{quota, ceilDiv(quota, common) * common} {
		if share, err := newRule(r.Name, r.Algorithm, quota, r.Window, burst, r.Jitter); err == nil {
			return share
		}
	}
	return *r
}

// localRule returns the share of one process in the numbers that a request is
// limited by.
func (l *limit) localRule(of *Rule) *Rule {
	if of == &l.rule {
		return &l.local
	}
	share := of.share(l.replicas, l.cost) // a tier's
	return &share
}

// decideOutage decides by each limit's own policy.
func (l *Limiter) decideOutage(ctx context.Context, c *call, err error) Decision {
	local := calls.Get().(*call)
	defer local.release()
	reason := ReasonOutageAllowed
	for i, limit := range c.limits {
		if limit.shadow {
			continue
		}
		switch limit.outage {
		case Deny:
			return Decision{Reason: ReasonOutageDenied, RetryAfter: outageRetry, Err: err, limiter: l, binding: -1}
		case Local:
			reason = ReasonOutageLocal
			rule, cost := limit.localRule(c.checks[i].Rule), c.checks[i].Cost
			if cost <= c.checks[i].Rule.Burst { // else it can never fit
				cost = min(cost, rule.Burst)
			}
			local.add(limit, rule, c.checks[i].Key, cost)
		}
	}
	if failed := l.local.decide(local.checks, local.results, true); failed != nil {
		err = failed
	}
	d := l.verdict(ctx, local, err)
	d.Reason = reason
	return d
}
