package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/weblimit/weblimit/keyfuncs"
)

// clients are some that behave alike.
type clients struct {
	number  int                       // of clients, which take turns
	every   time.Duration             // how often each of them sends a request
	pace    pace                      // whether they pause
	request func(n int) *http.Request // the n-th request, of client n % number
}

type pace bool

const (
	steady pace = false
	inRuns pace = true // for 20 seconds, and not for the next ten
)

// everybody is who uses the shop, some 200 requests a second. Requests go to the handlers without
// a connection, from addresses that are reserved for documents and benchmarks.
var everybody = []clients{
	// Customers.
	{600, 8 * time.Second, steady, func(n int) *http.Request { return by(n%600, fmt.Sprint("/v1/items/", n%1000)) }},
	// Twenty of them ask more often, within the limit. The one on trial would deny them.
	{20, 1250 * time.Millisecond, steady, func(n int) *http.Request { return by(n%20, "/v1/search") }},
	// Visitors, and customers who log in.
	{100, 10 * time.Second, steady, func(n int) *http.Request {
		return get(fmt.Sprint("192.0.2.", n%100), fmt.Sprint("/catalog/", n%50))
	}},
	{50, 25 * time.Second, steady, func(n int) *http.Request { return logIn("192.0.2.", 100+n%50, "opensesame") }},

	// Two customers scrape, and from many addresses, so that the limit by address does not help.
	{2, 50 * time.Millisecond, inRuns, func(n int) *http.Request {
		r := get(fmt.Sprint("198.19.0.", n%200), "/v1/search")
		r.Header.Set("X-API-Key", fmt.Sprint("scraper-", n%2))
		return r
	}},
	// A script claims another address with each request. The limit reads no such header.
	{1, 33 * time.Millisecond, steady, func(n int) *http.Request {
		r := get("203.0.113.66", fmt.Sprint("/catalog/", n%50))
		r.Header.Set("X-Forwarded-For", fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255))
		return r
	}},
	// Three guess passwords.
	{3, 500 * time.Millisecond, steady, func(n int) *http.Request { return logIn("203.0.113.", 7+n%3, "guess") }},
}

// by returns a request of a customer.
func by(customer int, path string) *http.Request {
	r := get(fmt.Sprintf("198.18.%d.%d", customer/250, customer%250), path)
	r.Header.Set("X-API-Key", fmt.Sprint("customer-", customer))
	return r
}

func get(from, path string) *http.Request { return request(http.MethodGet, from, path, "") }

func logIn(network string, host int, password string) *http.Request {
	r := request(http.MethodPost, fmt.Sprint(network, host), "/login", url.Values{"password": {password}}.Encode())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

func request(method, from, path, body string) *http.Request {
	r, err := http.NewRequest(method, "http://shop.example"+path, strings.NewReader(body)) //nolint:noctx // load sets it
	if err != nil {
		panic(err) // the paths above are valid
	}
	r.RemoteAddr = from + ":4711"
	return r
}

// labels returns the customers' names by the keys of their limits, for the page: the API key itself
// is not in the key of a limit.
func labels() func(key string) string {
	names := map[string]string{}
	for i := range 600 {
		names[keyfuncs.Encode("apikey", fmt.Sprint("customer-", i))] = fmt.Sprint("Customer ", i)
	}
	for i := range 2 {
		names[keyfuncs.Encode("apikey", fmt.Sprint("scraper-", i))] = fmt.Sprint("Price Hunter, account ", i+1)
	}
	return func(key string) string { return names[key] }
}

// load sends the requests of everybody, to each instance in turn, until ctx ends.
func load(ctx context.Context, instances []*instance) {
	var all sync.WaitGroup
	for _, c := range everybody {
		all.Go(func() { c.send(ctx, instances) })
	}
	all.Wait()
}

// send has the clients take turns. A slow answer delays the next request.
func (c clients) send(ctx context.Context, instances []*instance) {
	tick := time.NewTicker(c.every / time.Duration(c.number))
	defer tick.Stop()
	began := time.Now()
	for n := 0; ; {
		if c.pace == steady || time.Since(began)%(30*time.Second) < 20*time.Second {
			// Each client goes to the instances in turn.
			in := instances[(n%c.number+n/c.number)%len(instances)]
			in.handler.ServeHTTP(&nobody{header: http.Header{}}, c.request(n).WithContext(ctx))
			n++
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// nobody receives responses and drops them.
type nobody struct{ header http.Header }

func (w *nobody) Header() http.Header         { return w.header }
func (w *nobody) Write(b []byte) (int, error) { return len(b), nil }
func (w *nobody) WriteHeader(int)             {}
