package core_test

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Health checks and partners pass, untouched by limits and outages.
func ExampleConfig_bypass() {
	partner := "4f1c0a9be2d73586b0c4" // from a secret store; 32 random bytes are better
	limiter := core.Must(core.New(core.Config{
		Store:  core.NewMemory(),
		Limits: []core.Limit{core.PerHour(1).By(keyfuncs.ClientIP())},
		Bypass: []keyfuncs.Condition{
			keyfuncs.Routes("GET /healthz", "GET /readyz"),
			keyfuncs.Tokens("X-Bypass-Token", partner),
			keyfuncs.FromCIDR("192.0.2.0/24"),
		},
	}))
	for _, r := range []*request{
		{peer: "198.51.100.7"},
		{peer: "198.51.100.7"},
		{peer: "198.51.100.7", route: "/healthz"},
		{peer: "198.51.100.7", headers: map[string]string{"X-Bypass-Token": partner}},
		{peer: "192.0.2.1"},
	} {
		d := limiter.Allow(r)
		fmt.Println(d.Allowed, "-", d.Reason)
	}
	// Output:
	// true - within limit
	// false - limit exceeded
	// true - bypassed
	// true - bypassed
	// true - bypassed
}

// Older clients read older headers, beside those of the draft.
func ExampleConfig_headers() {
	limiter := core.Must(core.New(core.Config{
		Store:   core.NewMemory(),
		Limits:  []core.Limit{core.PerMinute(100).By(keyfuncs.ClientIP()).Cost(25)},
		Headers: core.Draft11 | core.Draft03 | core.XRateLimitDelta,
	}))
	d := limiter.Allow(&request{peer: "192.0.2.1"})
	h := http.Header{}
	d.SetHeaders(h)
	for _, name := range []string{
		"RateLimit-Policy", "RateLimit",
		"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset",
		"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
	} {
		fmt.Printf("%s: %s\n", name, h.Get(name))
	}
	// Output:
	// RateLimit-Policy: "default";q=100;w=60
	// RateLimit: "default";r=75;t=45
	// RateLimit-Limit: 100;w=60
	// RateLimit-Remaining: 75
	// RateLimit-Reset: 15
	// X-RateLimit-Limit: 100
	// X-RateLimit-Remaining: 75
	// X-RateLimit-Reset: 15
}

// Adapters hand the request's Accept-Language to AppendProblem.
func ExampleConfig_details() {
	limiter := core.Must(core.New(core.Config{
		Store:  core.NewMemory(),
		Limits: []core.Limit{core.PerMinute(1).By(keyfuncs.ClientIP())},
		Details: map[string]func(core.Decision) string{
			"de": func(d core.Decision) string {
				return fmt.Sprintf("Zu viele Anfragen. Bitte in %d Sekunden erneut versuchen.", d.RetryAfterSeconds())
			},
			"fr": func(core.Decision) string { return "Trop de requêtes." },
		},
	}))
	limiter.AllowKey(ctx, "ip:192.0.2.1", 1)
	d := limiter.AllowKey(ctx, "ip:192.0.2.1", 1)

	body, language := d.AppendProblem(nil, "de-AT, fr;q=0.5")
	fmt.Println("Content-Language:", language)
	fmt.Printf("%s\n", body)
	// Output:
	// Content-Language: de
	// {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"Zu viele Anfragen. Bitte in 60 Sekunden erneut versuchen.","violated-policies":["default"]}
}

func ExampleExposeHeaders() {
	fmt.Println("Access-Control-Expose-Headers:", strings.Join(core.ExposeHeaders()[:2], ", "), "...")
	// Output: Access-Control-Expose-Headers: RateLimit, RateLimit-Policy ...
}
