package weblimittest_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/weblimittest"
)

// t stands for the parameter of a test. It prints what a test would fail with.
var t testing.TB = printer{}

type printer struct{ testing.TB }

func (printer) Helper()                           {}
func (printer) Cleanup(func())                    {}
func (printer) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (printer) Fatalf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// newApp is the application under test. It takes its store as a parameter.
func newApp(store core.Store) http.Handler {
	login := core.PerMinute(5).By(keyfuncs.ClientIP()).Named("login").
		Penalty(core.Block{After: 3, Within: time.Hour, For: time.Hour})
	welcome := func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "welcome") }
	return limit(store, welcome, login) // nethttp.Limit, ginlimit.Limit, ...
}

// post sends a request from an address.
func post(app http.Handler, address string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/login", http.NoBody)
	r.RemoteAddr = net.JoinHostPort(address, "1234")
	w := httptest.NewRecorder()
	app.ServeHTTP(w, r)
	return w
}

func Example() {
	store := weblimittest.New(t)
	app := newApp(store)

	store.Exhaust("login")
	response := post(app, "192.0.2.1")
	weblimittest.Denied(t, response, "login")

	store.Advance(weblimittest.RetryAfter(t, response))
	weblimittest.Allowed(t, post(app, "192.0.2.1"))
	fmt.Println(response.Code, response.Header().Get("Retry-After"))
	// Output: 429 12
}

// In a test, t is its parameter, and each test has a store of its own.
func ExampleNew() {
	store := weblimittest.New(t)
	app := newApp(store)
	for range 5 {
		weblimittest.Allowed(t, post(app, "192.0.2.1"))
	}
	weblimittest.Denied(t, post(app, "192.0.2.1"), "login")
	// Output:
}

func ExampleStore() {
	store := weblimittest.New(t)
	app := newApp(store)
	fmt.Println("up:      ", post(app, "192.0.2.1").Code)
	store.Exhaust("login")
	fmt.Println("used up: ", post(app, "192.0.2.1").Code)
	store.Advance(time.Minute)
	fmt.Println("later:   ", post(app, "192.0.2.1").Code)
	// Output:
	// up:       200
	// used up:  429
	// later:    200
}

func ExampleStore_Advance() {
	store := weblimittest.New(t)
	app := newApp(store)
	store.Exhaust("login")

	store.Advance(time.Minute)
	weblimittest.Remaining(t, post(app, "192.0.2.1"), "login", 4)

	newYear := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	store.Advance(newYear.Sub(store.Now()))
	fmt.Println(store.Now())
	// Output: 2027-01-01 00:00:00 +0000 UTC
}

func ExampleStore_Now() {
	store := weblimittest.New(t)
	fmt.Println(store.Now()) // for every test, on every day
	// Output: 2000-01-01 00:00:00 +0000 UTC
}

func ExampleStore_Exhaust() {
	store := weblimittest.New(t)
	app := newApp(store)

	store.Exhaust("login", keyfuncs.Encode("ip", "192.0.2.1")) // one client
	weblimittest.Denied(t, post(app, "192.0.2.1"), "login")
	weblimittest.Allowed(t, post(app, "192.0.2.2"))

	store.Exhaust("login") // all clients
	weblimittest.Denied(t, post(app, "192.0.2.2"), "login")

	store.Exhaust("logn")
	// Output: weblimittest: Exhaust("logn"): no such limit on this store, which has "login"
}

func ExampleStore_BlockFor() {
	store := weblimittest.New(t)
	app := newApp(store)
	store.BlockFor("login", 10*time.Minute)

	response := post(app, "192.0.2.1")
	weblimittest.Denied(t, response, "login")
	fmt.Println(weblimittest.RetryAfter(t, response))
	// Output: 10m0s
}

func ExampleStore_Fail() {
	store := weblimittest.New(t)
	strict := core.PerMinute(5).By(keyfuncs.ClientIP()).Named("strict").OnOutage(core.Deny)
	app := limit(store, http.NotFound, strict)

	store.Fail()
	fmt.Println(post(app, "192.0.2.1").Code)
	store.Recover()
	fmt.Println(post(app, "192.0.2.1").Code)
	// Output:
	// 503
	// 404
}

func ExampleStore_Hang() {
	store := weblimittest.New(t)
	app := newApp(store)
	store.Hang()
	weblimittest.Allowed(t, post(app, "192.0.2.1")) // after Config.Timeout, by a bucket in the process
	// Output:
}

func ExampleStore_Recover() {
	store := weblimittest.New(t)
	app := newApp(store)
	store.Exhaust("login")
	weblimittest.Denied(t, post(app, "192.0.2.1"), "login")

	store.Fail()
	weblimittest.Allowed(t, post(app, "192.0.2.1")) // by a bucket in the process
	store.Recover()
	weblimittest.Denied(t, post(app, "192.0.2.1"), "login") // nothing is forgotten
	// Output:
}

func ExampleStore_Keys() {
	store := weblimittest.New(t)
	app := newApp(store)
	post(app, "192.0.2.1")
	post(app, "2001:db8::1")
	fmt.Println(store.Keys())
	// Output: [ip:192.0.2.1 ip:2001:db8::/64]
}

func ExampleAllowed() {
	store := weblimittest.New(t)
	app := newApp(store)
	weblimittest.Allowed(t, post(app, "192.0.2.1"))

	store.Exhaust("login")
	weblimittest.Allowed(t, post(app, "192.0.2.1")) // fails the test:
	// Output:
	// denied by "login", want it allowed
	// the response: 429 Too Many Requests
	//   RateLimit: "login";r=0;t=12
	//   RateLimit-Policy: "login";q=5;w=60
	//   Retry-After: 12
	//   Content-Type: application/problem+json
	//   {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"Rate limit exceeded. Retry in 12 seconds.","violated-policies":["login"]}
}

func ExampleDenied() {
	store := weblimittest.New(t)
	app := newApp(store)
	weblimittest.Denied(t, post(app, "192.0.2.1"), "login") // fails the test:
	// Output:
	// not denied, want it denied by "login"
	// the response: 200 OK
	//   RateLimit: "login";r=4;t=48
	//   RateLimit-Policy: "login";q=5;w=60
	//   Content-Type: text/plain; charset=utf-8
	//   welcome
}

// The same client passes when it has waited as it was told, and not a second before.
func ExampleRetryAfter() {
	store := weblimittest.New(t)
	app := newApp(store)
	store.Exhaust("login")
	response := post(app, "192.0.2.1")
	wait := weblimittest.RetryAfter(t, response)

	store.Advance(wait - time.Second)
	weblimittest.Denied(t, post(app, "192.0.2.1"))
	store.Advance(time.Second)
	weblimittest.Allowed(t, post(app, "192.0.2.1"))
	// Output:
}

func ExampleRemaining() {
	store := weblimittest.New(t)
	app := newApp(store)
	weblimittest.Remaining(t, post(app, "192.0.2.1"), "login", 4)
	weblimittest.Remaining(t, post(app, "192.0.2.1"), "login", 3)
	// Output:
}

func ExamplePolicies() {
	store := weblimittest.New(t)
	weblimittest.Policies(t, post(newApp(store), "192.0.2.1"), "login")
	weblimittest.Policies(t, post(http.NotFoundHandler(), "192.0.2.1")) // no limit
	// Output:
}

// Jobs and consumers have decisions in place of responses.
func ExampleResponse() {
	store := weblimittest.New(t)
	limiter := core.ForLimits(store, []core.Limit{core.PerHour(100).By(keyfuncs.Everyone()).Named("mails")})
	send := func() core.Decision { return limiter.AllowKey(context.Background(), "tenant:42", 1) }

	weblimittest.Remaining(t, send(), "mails", 99)
	store.Exhaust("mails", "tenant:42")
	weblimittest.Denied(t, send(), "mails")
	// Output:
}
