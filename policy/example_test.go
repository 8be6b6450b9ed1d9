package policy_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing/fstest"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
	"github.com/weblimit/weblimit/policy"
)

// A policy around an application, and another one on a route. What only the application knows, such
// as the plan of a customer, has a name in the file.
func Example() {
	set, err := policy.Parse("limits.yaml", []byte(`
policies:
  all:
    bypass: [{routes: [GET /healthz]}]
    limits:
      client:
        limit: 2/hour
        by: ip
        tiers: {by: plan, limits: {pro: 1000/hour}}
  sign-in:
    limits:
      login: {limit: 1/15m log, by: ip}
`), policy.Options{Values: map[string]func(keyfuncs.Request) string{
		"plan": func(r keyfuncs.Request) string { return keyfuncs.HeaderOf(r, "X-Example-Plan") },
	}})
	if err != nil {
		fmt.Println(err) // everything that is wrong with the file
		return
	}

	limits := nethttp.With(core.Config{Store: core.NewMemory()})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /", func(http.ResponseWriter, *http.Request) {})
	mux.Handle("POST /login", limits.Policy(set, "sign-in")(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	app := limits.Policy(set, "all")(mux)

	for _, of := range []struct{ method, path, plan string }{
		{"POST", "/login", ""}, {"POST", "/login", ""}, {"GET", "/", ""}, {"GET", "/", "pro"}, {"GET", "/healthz", ""},
	} {
		r := httptest.NewRequest(of.method, of.path, nil)
		r.Header.Set("X-Example-Plan", of.plan)
		w := httptest.NewRecorder()
		app.ServeHTTP(w, r)
		fmt.Println(of.method, of.path, of.plan, w.Code)
	}
	// Output:
	// POST /login  200
	// POST /login  429
	// GET /  429
	// GET / pro 200
	// GET /healthz  200
}

// A file that can't be used is refused with everything that is wrong with it.
func ExampleParse() {
	_, err := policy.Parse("limits.yaml", []byte(`policies:
  api:
    timeout: 100
    limits:
      login: {limit: 5/15 minuts, by: ip}
      search: {limit: 10/s, by: usr, burst: 20}
`))
	fmt.Println(err)
	// Output:
	// weblimit: policy: limits.yaml:3:14: policies.api.timeout: want a duration such as 500ms, 15m or 1h30m, got 100
	// limits.yaml:5:22: policies.api.limits.login.limit: "5/15 minuts": unknown unit "minuts"; did you mean "minute"?
	// limits.yaml:6:33: policies.api.limits.search.by: unknown key "usr"; did you mean "user"?
	// limits.yaml:6:38: policies.api.limits.search.burst: unknown field; it is part of limit: 100/minute burst 20
}

// The file changes, and what clients have used stays used.
func ExampleLoad() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	name := filepath.Join(dir, "limits.yaml")
	put := func(limit string) {
		text := "policies: {jobs: {limits: {tenant: {limit: " + limit + ", by: tenant}}}}"
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			fmt.Println(err)
		}
	}
	put("5/hour")
	set, err := policy.Load(name, quiet())
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter, err := set.Limiter(core.Config{Store: core.NewMemory()}, "jobs")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	for range 3 {
		limiter.AllowKey(ctx, "tenant:acme", 1)
	}
	put("4/hour")
	if err := set.Reload(ctx); err != nil { // or set.Watch(ctx), once
		fmt.Println(err)
	}
	for range 2 {
		fmt.Println(limiter.AllowKey(ctx, "tenant:acme", 1).Allowed)
	}
	// Output:
	// true
	// false
}

func ExampleLoadFS() {
	files := fstest.MapFS{"limits.json": {Data: []byte(`{"policies": {"api": {"limits": {"client": {"limit": "100/minute", "by": "ip"}}}}}`)}} // an embed.FS in an application
	set, err := policy.LoadFS(files, "limits.json")
	fmt.Println(set.Names(), err)
	// Output: [api] <nil>
}

func ExampleDiff() {
	before := policy.File{Name: "before", Text: []byte("policies: {api: {limits: {login: {limit: 5/15m, by: ip}, search: {limit: 10/s, by: user}}}}")}
	after := policy.File{Name: "after", Text: []byte("policies: {api: {timeout: 50ms, limits: {login: {limit: 3/15m, by: ip}, export: {limit: 2/minute, by: user, shadow: true}}}}")}
	changes, err := policy.Diff(before, after)
	if err != nil {
		fmt.Println(err)
	}
	for _, c := range changes {
		fmt.Println(c)
	}
	// Output:
	// api: timeout: (not set) → 50ms
	// api, search: the limit is gone: requests are no longer limited by 10 per second by user
	// api, login: 5 → 3 per 15m; keys keep what they used
	// api, export: new limit: 2 per minute by user, in shadow mode: nobody is denied
}

func ExampleTest() {
	file := policy.File{Name: "limits.yaml", Text: []byte("policies: {api: {limits: {login: {limit: 5/15m log, by: ip, when: {routes: [POST /login]}}}}}")}
	table := policy.File{Name: "requests.yaml", Text: []byte(`tests:
  - name: the sixth attempt is denied, and fifteen minutes later there are others
    policy: api
    requests:
      - {method: POST, route: /login, ip: 192.0.2.7, times: 5, expect: allowed}
      - {method: POST, route: /login, ip: 192.0.2.7, expect: denied, by: login}
      - {method: POST, route: /login, ip: 192.0.2.7, after: 15m, expect: allowed}
  - name: other routes are free
    policy: api
    requests:
      - {method: GET, route: /login, times: 9, expect: denied}
`)}
	trials, err := policy.Test(file, table)
	if err != nil {
		fmt.Println(err)
	}
	for _, t := range trials {
		fmt.Println(t.Name, t.Failures)
	}
	// Output:
	// the sixth attempt is denied, and fifteen minutes later there are others []
	// other routes are free [requests.yaml:11:9: tests[1].requests[0]: want denied, got allowed]
}
