package core

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/weblimit/weblimit/keyfuncs"
)

// What a limiter looks for in its first requests.

const (
	adviceLooks      = 1000 // requests of a limiter that are looked at
	keylessLooks     = 10   // requests of a limit that all lack its key before that is noticed
	forwardedHeaders = "X-Forwarded-For Forwarded X-Real-Ip Cf-Connecting-Ip True-Client-Ip"
)

// isLooking reports whether look is to see the next request.
func (a *advisor) isLooking() bool { return a.looks.Load() < adviceLooks }

// look examines one of the first requests of a limiter, and how it was decided, for misconfigurations that
// only requests show. It is called once, after the decision and before anybody hears of it. c has the checks;
// it is nil if no limit was asked.
func (a *advisor) look(l *Limiter, r keyfuncs.Request, c *call, d *Decision) {
	a.lookAtRequest(l, r, d)
	if c != nil {
		a.lookAtKeys(l, r, c, d)
	}
}

func (a *advisor) lookAtRequest(l *Limiter, r keyfuncs.Request, d *Decision) {
	first := a.looks.Add(1) == 1
	if before := decisionIn(r); before != nil && before != d && before.limiter == l {
		a.advise(adviceTwice, "one limiter decides a request twice, and charges it twice; is its middleware installed in two places?")
	}
	if first {
		a.lookAtRoutes(l, r)
	}
	if framework, ok := keyfuncs.As[keyfuncs.FrameworkAdvice](r); ok && first && a.readsFramework {
		if risk := framework.FrameworkRisk(); risk != "" {
			a.advise(adviceFramework, risk)
		}
	}
	if adapter, ok := keyfuncs.As[keyfuncs.PlaceAdvice](r); ok {
		if problem := adapter.Unguarded(); problem != "" {
			a.advise(adviceUnguarded, problem)
		}
	}
	for _, limit := range a.byRoute {
		if _, known := r.Route(); !known {
			limit.unrouted(r, "the route in its key is not known", "requests share a bucket")
		}
	}
	for _, limit := range a.proxied {
		if header, addr, unlisted := limit.key.Unlisted(r); unlisted {
			a.lookAtUnlisted(l, limit, r, header, addr)
		}
		if header := limit.key.Unnamed(r); header != "" && limit.mayApply(r) && !l.bypasses(r) {
			a.advise(adviceNoClient, "a proxy named in ClientIP sends a request without "+header+": such requests share a bucket, and a client that sends the header itself is believed; have the proxy set it on every request, and exempt its own health checks")
		}
	}
	for _, limit := range a.byParam {
		if name := limit.key.Unrouted(r); name != "" && !a.quiet(&limit.advised) && !limit.advised.Swap(true) {
			a.log(adviceRoute, "limit "+limit.rule.Name+": the path parameter "+name+" of its key is not known where the limiter stands, or the route has none, so the key is missing; put the limiter on the route")
		}
	}
	if len(a.proxied) > 0 {
		a.lookAtExemptions(l, r)
	}
	if !a.readsPeer {
		return
	}
	if name := forwardedIn(r, ""); name != "" {
		a.advise(adviceForwarded, "requests have "+name+", but limits by ClientIP use the peer's address; behind a proxy that is one bucket for all clients; name the proxy in ClientIP")
	}
}

// lookAtUnlisted advises if a request came through an address that may be a proxy, and that the
// strategy in the limit's key takes for the client. header is the one that the strategy reads.
// Of a public address nothing is said: anybody can send headers from there.
func (a *advisor) lookAtUnlisted(l *Limiter, limit *limit, r keyfuncs.Request, header string, addr netip.Addr) {
	name := forwardedIn(r, header)
	if name == "" || !limit.mayApply(r) || l.bypasses(r) {
		return
	}
	if !addr.IsValid() {
		a.advise(adviceUnlisted, "requests with "+name+" come over a unix socket, which has no address to list: ClientIP finds no client, and all requests share one bucket; use keyfuncs.HopCount")
		return
	}
	a.advise(adviceUnlisted, "requests with "+name+" come through "+addr.String()+", which ClientIP does not list as a proxy: if it is one, all clients behind it share one bucket; list it")
}

// lookAtExemptions advises if a request that a listed proxy has passed on is exempt for the
// proxy's address.
func (a *advisor) lookAtExemptions(l *Limiter, r keyfuncs.Request) {
	header := ""
	for _, limit := range a.proxied {
		if header = limit.key.Named(r); header != "" {
			break
		}
	}
	if header == "" {
		return
	}
	exempt := func(whose string) {
		a.advise(adviceExempt, whose+": FromCIDR exempts requests that a proxy has passed on with "+header+": it compares the address of the peer, which is the proxy, so all clients behind it are exempt; use FromCIDR of the strategy that ClientIP has")
	}
	for _, c := range l.bypass {
		if c.FromPeer(r) && c.Ask(r) == keyfuncs.Yes {
			exempt("Config.Bypass")
		}
	}
	for i := range l.limits {
		for _, c := range l.limits[i].when {
			if c.FromPeer(r) && c.Ask(r) == keyfuncs.No {
				exempt("limit " + l.limits[i].rule.Name)
			}
		}
	}
}

// forwardedIn returns the first header of r by which proxies name clients, or "" if there is none.
// A first one may be given.
func forwardedIn(r keyfuncs.Request, first string) string {
	if first != "" {
		if _, seen := r.Header(first, 0); seen {
			return first
		}
	}
	for name := range strings.FieldsSeq(forwardedHeaders) {
		if _, seen := r.Header(name, 0); seen {
			return name
		}
	}
	return ""
}

// mayApply reports whether no condition of the limit says that it does not apply.
func (l *limit) mayApply(r keyfuncs.Request) bool {
	return !slices.ContainsFunc(l.when, func(c keyfuncs.Condition) bool { return c.Ask(r) == keyfuncs.No })
}

// lookAtKeys looks for limits whose key no request has.
func (a *advisor) lookAtKeys(l *Limiter, r keyfuncs.Request, c *call, d *Decision) {
	switch d.Reason {
	case ReasonMissingKey, ReasonAmbiguousKey, ReasonInvalidCost: // further limits were not asked
		return
	}
	for i := range l.limits {
		limit := &l.limits[i]
		if n := limit.keyless.Load(); n < 0 || n >= keylessLooks || limit.missing == DenyRequest {
			continue
		}
		has, asked := hasKey(l, limit, r, c, d)
		if !asked {
			continue
		}
		if has {
			limit.keyless.Store(-adviceLooks) // so that it stays below 0
			continue
		}
		if limit.keyless.Add(1) == keylessLooks {
			limit.adviseKeyless(r)
		}
	}
}

// hasKey reports whether a request had the key of a limit, and whether the limit was asked for it.
func hasKey(l *Limiter, limit *limit, r keyfuncs.Request, c *call, d *Decision) (has, asked bool) {
	if l.direct != nil {
		if d.count == 1 {
			return string(c.keys) != missingKey, true
		}
	} else if i := slices.Index(c.limits, limit); i >= 0 {
		return string(c.checks[i].Key) != missingKey, true
	}
	refused := slices.ContainsFunc(c.refused, func(refused refusal) bool { return refused.limit == limit })
	return false, !refused && limit.missing == SkipLimit && limit.mayApply(r)
}

// adviseKeyless logs that no request had the limit's key, unless other advice says so.
func (l *limit) adviseKeyless(r keyfuncs.Request) {
	so := "so they share one bucket"
	if l.missing == SkipLimit {
		so = "so it limits nobody"
	} else if l.key.Unrouted(r) != "" {
		return
	}
	what, _ := l.key.Lacks(r)
	l.advisor.adviseLimit(adviceKeyless, l.rule.Name, fmt.Sprintf("limit %s: none of its first %d requests has its key (%s), %s; check that the limiter stands behind what provides the key (authentication; for a path parameter, on the route), and that name and type are right", l.rule.Name, keylessLooks, what, so))
}

// adviseNeverFits logs that CostBy or EstimateBy returned a cost that the rule never has room for.
// A limit that is scaled may have room later.
func (l *limit) adviseNeverFits(cost int64, rule *Rule) {
	if l.scaling == nil && !l.neverFits.Swap(true) {
		l.advisor.advise(adviceNeverFits, fmt.Sprintf("limit %s: CostBy or EstimateBy returned %d, and the limit never has room for more than %d: such requests are always denied, without Retry-After; bound the cost, or raise the limit", l.rule.Name, cost, rule.Burst))
	}
}
