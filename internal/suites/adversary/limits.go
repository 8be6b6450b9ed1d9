package adversary

import (
	"log/slog"
	"slices"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// rule is a limit and its meaning for the oracle.
type rule struct {
	limit core.Limit
	name  string
	quota int64
	cost  int64
	by    func(*caller) who

	applies  func(*caller) (yes, known bool) // nil: to all requests
	missing  core.MissingKey
	refunds  bool // requests that end in a server error are refunded
	estimate bool
}

// limited returns a rule whose quota does not come back during a test.
func limited(name string, quota int64, key keyfuncs.Func, by func(*caller) who) rule {
	return rule{limit: core.PerDay(quota).By(key).Named(name), name: name, quota: quota, cost: 1, by: by, missing: core.ShareBucket}
}

func (r rule) costs(n int64) rule {
	r.limit, r.cost = r.limit.Cost(n), n
	return r
}

func (r rule) onMissing(m core.MissingKey) rule {
	r.limit, r.missing = r.limit.OnMissingKey(m), m
	return r
}

func (r rule) when(c condition) rule {
	r.limit, r.applies = r.limit.When(c.condition), c.holds
	return r
}

func (r rule) unless(c condition) rule {
	r.limit, r.applies = r.limit.Unless(c.condition), func(call *caller) (bool, bool) {
		yes, known := c.holds(call)
		return !yes, known
	}
	return r
}

func (r rule) refundsErrors() rule {
	r.limit, r.refunds = r.limit.RefundOn(core.ServerErrors), true
	return r
}

func (r rule) estimates(n int64) rule {
	r.limit, r.cost, r.estimate = r.limit.Estimate(n), n, true
	return r
}

// condition is a keyfuncs.Condition and its meaning for the oracle.
type condition struct {
	condition keyfuncs.Condition
	holds     func(*caller) (yes, known bool)
}

func onMethods(methods ...string) condition {
	return condition{keyfuncs.Methods(methods...), func(c *caller) (bool, bool) {
		return slices.Contains(methods, c.method) || c.method == "HEAD" && slices.Contains(methods, "GET"), true
	}}
}

// onRoutes is met on routes. Templates are written in both notations.
func onRoutes(some ...string) condition {
	var both []string
	for _, route := range some {
		both = append(both, route)
		if other := Colons.Replace(route); other != route {
			both = append(both, other)
		}
	}
	return condition{keyfuncs.Routes(both...), func(c *caller) (bool, bool) {
		route, known := c.route()
		return slices.Contains(some, route), known
	}}
}

// token is the bypass token of the monitoring.
const token = "monitoring-0123456789abcdef"

func withToken() condition {
	return condition{keyfuncs.Tokens("X-Bypass-Token", token), func(c *caller) (yes, known bool) {
		lines := c.lines("X-Bypass-Token")
		// A token is compared as the framework returns it. net/http leaves the blank of a line
		// break at the end of a value, and all blanks over HTTP/2, so it may not match.
		known = !slices.ContainsFunc(c.fields, func(f field) bool { return equalFoldASCII(f.name, "X-Bypass-Token") && f.raw != f.value })
		return len(lines) == 1 && lines[0] == token, known
	}}
}

// setup is the limits of one application.
type setup struct {
	name    string
	rules   []rule
	bypass  []condition
	onRoute bool // the limits depend on the route; in Fiber they stand on it
	hangUps bool // the limits are about clients that leave

	reads []string // fields that the limits read; clients send them most
}

var (
	viaProxies  = byAddr(from(proxies, trusted(forwardedFor)))
	directly    = byAddr(peerAddr)
	standardKey = byAPIKey("X-API-Key", "Authorization")
)

var setups = []setup{
	{name: "Peer", rules: []rule{limited("peer", 4, keyfuncs.ClientIP(), directly)}},
	{name: "TrustedProxies", reads: []string{"X-Forwarded-For"}, rules: []rule{limited("client", 2, keyfuncs.ClientIP(keyfuncs.TrustedProxies("10.0.0.0/8")), viaProxies)}},
	{name: "HopCount", reads: []string{"X-Forwarded-For"}, rules: []rule{limited("client", 2, keyfuncs.ClientIP(keyfuncs.HopCount(2)), byAddr(hopCount(2)))}},
	{name: "XRealIP", reads: []string{"X-Real-IP"}, rules: []rule{limited("client", 2, keyfuncs.ClientIP(keyfuncs.XRealIP("10.0.0.0/8")), byAddr(from(proxies, lastLine("X-Real-IP"))))}},
	{name: "SingleHeader", reads: []string{"True-Client-IP"}, rules: []rule{limited("client", 2, keyfuncs.ClientIP(keyfuncs.SingleHeader("True-Client-IP", "10.0.0.0/8")), byAddr(from(proxies, lastLine("True-Client-IP"))))}},
	{name: "Forwarded", reads: []string{"Forwarded"}, rules: []rule{limited("client", 2, keyfuncs.ClientIP(keyfuncs.Forwarded("10.0.0.0/8")), byAddr(from(proxies, trusted(forwarded))))}},
	{name: "Cloudflare", reads: []string{"CF-Connecting-IP", "CF-Connecting-IPv6"}, rules: []rule{limited("client", 2, keyfuncs.ClientIP(keyfuncs.Cloudflare()), byAddr(from(cloudflare, cloudflareAddr)))}},
	{name: "Header", reads: []string{"X-Tenant"}, rules: []rule{limited("tenant", 2, keyfuncs.Header("X-Tenant"), byHeader("X-Tenant"))}},
	{name: "Header, DenyRequest", reads: []string{"X-Tenant"}, rules: []rule{limited("tenant", 2, keyfuncs.Header("X-Tenant"), byHeader("X-Tenant")).onMissing(core.DenyRequest)}},
	{name: "Header, SkipLimit", reads: []string{"X-Tenant"}, rules: []rule{limited("tenant", 2, keyfuncs.Header("X-Tenant"), byHeader("X-Tenant")).onMissing(core.SkipLimit)}},
	{name: "Cookie", reads: []string{"Cookie"}, rules: []rule{limited("session", 2, keyfuncs.Cookie("sid"), byCookie("sid"))}},
	{name: "APIKey", reads: []string{"X-API-Key", "Authorization"}, rules: []rule{limited("key", 2, keyfuncs.APIKey(), standardKey)}},
	{name: "APIKey, SkipLimit", reads: []string{"X-API-Key", "Authorization"}, rules: []rule{limited("key", 2, keyfuncs.APIKey(), standardKey).onMissing(core.SkipLimit)}},
	{name: "APIKey in the query", reads: []string{"X-API-Key"}, rules: []rule{limited("key", 2, keyfuncs.APIKey("X-API-Key", "?api_key"), byAPIKey("X-API-Key", "?api_key"))}},
	{name: "First(User, APIKey, ClientIP)", reads: []string{"X-API-Key", "Authorization"}, rules: []rule{limited("caller", 3,
		keyfuncs.First(keyfuncs.User(ContextKey(UserKey)), keyfuncs.User(UserKey), keyfuncs.APIKey(), keyfuncs.ClientIP()), first(byUser, standardKey, directly))}},
	{name: "Join(ClientIP, Method)", reads: []string{"X-Forwarded-For"}, rules: []rule{limited("client", 2,
		keyfuncs.Join(keyfuncs.ClientIP(keyfuncs.TrustedProxies("10.0.0.0/8")), keyfuncs.Method()), join(viaProxies, byMethod))}},
	{name: "Route", onRoute: true, rules: []rule{limited("route", 2, keyfuncs.Route(), byRoute)}},
	{name: "three limits", reads: []string{"X-API-Key", "Authorization", "X-Forwarded-For"}, rules: []rule{
		limited("key", 3, keyfuncs.APIKey(), standardKey),
		limited("client", 5, keyfuncs.ClientIP(keyfuncs.TrustedProxies("10.0.0.0/8")), viaProxies).costs(2),
		limited("all", 6, keyfuncs.Everyone(), byEveryone),
	}},
	{name: "writes", reads: []string{"X-API-Key"}, rules: []rule{
		limited("writes", 2, keyfuncs.APIKey(), standardKey).unless(onMethods("GET", "OPTIONS")),
		limited("peer", 6, keyfuncs.ClientIP(), directly),
	}},
	{name: "one route", reads: []string{"X-API-Key", "X-Tenant"}, onRoute: true, rules: []rule{
		limited("items", 2, keyfuncs.APIKey(), standardKey).when(onRoutes(routeItem, routeRead)),
		limited("tenant", 3, keyfuncs.Header("X-Tenant"), byHeader("X-Tenant")).onMissing(core.SkipLimit),
	}},
	{name: "bypasses", reads: []string{"X-Bypass-Token"}, bypass: []condition{withToken()}, rules: []rule{limited("peer", 3, keyfuncs.ClientIP(), directly)}},
	{name: "bypassed route", reads: []string{"X-Bypass-Token", "X-Tenant"}, onRoute: true, bypass: []condition{onRoutes(routeOK), withToken()}, rules: []rule{limited("tenant", 2, keyfuncs.Header("X-Tenant"), byHeader("X-Tenant"))}},
	{name: "RefundOn(ServerErrors)", hangUps: true, rules: []rule{limited("peer", 4, keyfuncs.ClientIP(), directly).refundsErrors()}},
	{name: "Estimate", hangUps: true, rules: []rule{limited("tokens", 40, keyfuncs.ClientIP(), directly).estimates(9)}},
	{name: "Estimate, RefundOn(ServerErrors)", hangUps: true, rules: []rule{limited("tokens", 40, keyfuncs.ClientIP(), directly).estimates(9).refundsErrors()}},
}

// plain reports whether the charge of a request follows from its status.
func (s *setup) plain() bool {
	return len(s.rules) == 1 && !s.hangUps && !s.onRoute && len(s.bypass) == 0 && s.rules[0].missing != core.SkipLimit
}

// config returns the configuration of a limiter.
func (s *setup) config(store core.Store) core.Config {
	c := core.Config{Store: store, Logger: slog.New(slog.DiscardHandler)}
	for _, r := range s.rules {
		c.Limits = append(c.Limits, r.limit)
	}
	for _, b := range s.bypass {
		c.Bypass = append(c.Bypass, b.condition)
	}
	return c
}
