package keyfuncs_test

import (
	"fmt"
	"net/http"

	"github.com/weblimit/weblimit/keyfuncs"
)

func ExampleMatches() {
	internal := keyfuncs.Matches(func(r keyfuncs.Request) bool { return r.Value("role") == "service" })

	fmt.Println(internal.Match(&request{values: map[any]any{"role": "service"}}))
	fmt.Println(internal.Match(&request{}))
	// Output:
	// true
	// false
}

func ExampleRoutes() {
	health := keyfuncs.Routes("GET /healthz", "/readyz")

	fmt.Println(health.Match(&request{method: "HEAD", path: "/healthz", route: "/healthz"}))
	fmt.Println(health.Match(&request{method: "POST", path: "/healthz", route: "/healthz"}))
	fmt.Println(health.Match(&request{method: "GET", path: "/healthz/../login", route: "/login"}))
	// Output:
	// true
	// false
	// false
}

func ExampleMethods() {
	writes := keyfuncs.Not(keyfuncs.Methods("GET", "OPTIONS"))

	fmt.Println(writes.Match(&request{method: "HEAD"}))
	fmt.Println(writes.Match(&request{method: "DELETE"}))
	// Output:
	// false
	// true
}

func ExampleTokens() {
	monitoring := "m0n1t0r1ng-5ecret" // from the environment
	exempt := keyfuncs.Tokens("X-Bypass-Token", monitoring)

	fmt.Println(exempt.Match(&request{headers: http.Header{"X-Bypass-Token": {monitoring}}}))
	fmt.Println(exempt.Match(&request{headers: http.Header{"X-Bypass-Token": {"guess"}}}))
	fmt.Println(keyfuncs.Tokens("X-Bypass-Token", "short").Err())
	// Output:
	// true
	// false
	// weblimit: keyfuncs.Tokens: token 1 of 1 has 5 bytes, want 16 or more
}

func ExampleFromCIDR() {
	office := keyfuncs.FromCIDR("192.0.2.0/24", "2001:db8::/32")

	fmt.Println(office.Match(&request{peer: "192.0.2.7"}))
	fmt.Println(office.Match(&request{peer: "203.0.113.9", headers: http.Header{"X-Forwarded-For": {"192.0.2.7"}}}))
	// Output:
	// true
	// false
}

func ExampleStrategy_FromCIDR() {
	office := keyfuncs.TrustedProxies("10.0.0.0/8").FromCIDR("192.0.2.0/24")

	fmt.Println(office.Match(&request{peer: "10.0.0.1", headers: http.Header{"X-Forwarded-For": {"192.0.2.7"}}}))
	fmt.Println(keyfuncs.HopCount(1).FromCIDR("192.0.2.0/24").Err())
	// Output:
	// true
	// weblimit: keyfuncs.Strategy.FromCIDR: HopCount does not check the peer, so clients could choose their network
}

func ExamplePreflight() {
	headers := http.Header{"Origin": {"https://example.com"}, "Access-Control-Request-Method": {"PUT"}}

	fmt.Println(keyfuncs.Preflight().Match(&request{method: "OPTIONS", headers: headers}))
	fmt.Println(keyfuncs.Preflight().Match(&request{method: "OPTIONS", headers: headers, route: "/rpc"})) // which takes all methods
	// Output:
	// true
	// false
}

func ExampleCondition_Ask() {
	login := keyfuncs.Routes("POST /login")

	fmt.Println(login.Ask(&request{method: "POST", route: "/login"}))
	fmt.Println(login.Ask(&request{method: "POST", unknown: true})) // in front of the router
	fmt.Println(login.Ask(&request{method: "GET", unknown: true}))
	// Output:
	// yes
	// unknown
	// no
}

func ExampleNot() {
	notHealth := keyfuncs.Not(keyfuncs.Routes("/healthz"))

	fmt.Println(notHealth.Match(&request{route: "/healthz"}), notHealth.Match(&request{route: "/login"}))
	// Output: false true
}

func ExampleAll() {
	metrics := keyfuncs.All(keyfuncs.Routes("GET /metrics"), keyfuncs.FromCIDR(keyfuncs.Private))

	fmt.Println(metrics.Match(&request{method: "GET", route: "/metrics", peer: "10.0.0.1"}))
	fmt.Println(metrics.Match(&request{method: "GET", route: "/metrics", peer: "203.0.113.9"}))
	// Output:
	// true
	// false
}

func ExampleAny() {
	exempt := keyfuncs.Any(keyfuncs.Routes("/healthz"), keyfuncs.FromCIDR(keyfuncs.Loopback))

	fmt.Println(exempt.Match(&request{route: "/login", peer: "127.0.0.1"}))
	fmt.Println(keyfuncs.Any(keyfuncs.Routes("healthz")).Err())
	// Output:
	// true
	// weblimit: keyfuncs.Routes: "healthz" is not a route, want one such as "GET /healthz"
}
