package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/textproto"
	"regexp"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/testclock"
	"github.com/weblimit/weblimit/keyfuncs"
)

// The format of tables of requests.

var names = &named{of: &text{what: "text", most: 4096}, name: anyText, most: 100}

var requestObject = &object{
	like: "as in {method: POST, route: /login, ip: 192.0.2.1, expect: allowed}",
	fields: []field{
		{name: "after", of: duration(time.Microsecond, 3650*24*time.Hour), doc: "How long after the request before. Defaults to none."},
		{name: "times", of: &integer{1, 100_000}, doc: "How many such requests there are, of which each is as expected. Defaults to 1."},
		{name: "method", of: &text{what: "a method in capitals", pattern: regexp.MustCompile(`^[A-Z][A-Z-]*$`), most: 32}, doc: "Defaults to GET."},
		{name: "route", of: anyText, doc: "The template of the route. Defaults to a route that is not known."},
		{name: "path", of: longText, doc: "Defaults to /."},
		{name: "ip", of: &text{what: "an IP address", pattern: regexp.MustCompile(`^[0-9A-Fa-f:.]+$`), valid: func(s string) error {
			_, err := netip.ParseAddr(s)
			return err
		}}, doc: "The peer. Defaults to 192.0.2.1."},
		{name: "headers", of: names, doc: "Headers."},
		{name: "cookies", of: names, doc: "Cookies."},
		{name: "query", of: names, doc: "Query parameters."},
		{name: "params", of: names, doc: "Parameters of the route."},
		{name: "stored", of: names, doc: "What middleware has stored, such as the user, and the values that the application gives: {user: ann, plan: pro}."},
		{name: "expect", of: &text{words: []string{"allowed", "denied", "bypassed"}, what: "an outcome"}, required: true, doc: "allowed, denied or bypassed."},
		{name: "by", of: limitName, doc: "The limit that denies, or of an allowed request the one that it is nearest to."},
		{name: "remaining", of: &integer{0, 1 << 51}, doc: "What is left of that limit."},
	},
}

var tableObject = &object{
	like: "with tests",
	fields: []field{{name: "tests", of: &list{of: &object{
		like: "with name, policy and requests",
		fields: []field{
			{name: "name", of: anyText, required: true, doc: "What the test shows."},
			{name: "policy", of: policyName, required: true, doc: "The policy that decides."},
			{name: "requests", of: &list{of: requestObject, most: 10_000}, required: true, doc: "The requests, in their order."},
		},
	}, most: 10_000}, required: true, doc: "The tests, each on an empty store."}},
}

// Trial is a test of a table, after it has run.
type Trial struct {
	Name     string
	Failures []Problem // requests that were not decided as expected; none if the test has passed
}

// Test decides the requests of a table by a policy file, each test on an empty store whose clock stands
// still between requests:
//
//	tests:
//	  - name: the sixth attempt is denied, and fifteen minutes later there are others
//	    policy: api
//	    requests:
//	      - {method: POST, route: /login, ip: 192.0.2.7, times: 5, expect: allowed}
//	      - {method: POST, route: /login, ip: 192.0.2.7, expect: denied, by: login}
//	      - {method: POST, route: /login, ip: 192.0.2.7, after: 15m, expect: allowed}
//
// The Options are as for [Load]; with AnyName, and with an Env that knows test values of the secrets,
// a table runs without the application. The error is that of the file or of the table.
func Test(file, table File, options ...Options) ([]Trial, error) {
	o, err := single(options)
	if err != nil {
		return nil, err
	}
	p := &problems{file: table.Name}
	root := read(table.Text, p)
	if root != nil {
		tableObject.check(root, p)
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	d, err := compile(context.Background(), file.Name, file.Text, &o)
	if err != nil {
		return nil, err
	}
	if o.WithoutSecrets {
		return nil, errors.New("weblimit: policy: a test needs the secrets: give it an Env that knows test values")
	}
	var trials []Trial
	for _, n := range root.get("tests").items {
		failures := &problems{file: table.Name}
		d.try(n, failures)
		trials = append(trials, Trial{n.get("name").string(), failures.All()})
	}
	return trials, nil
}

// try runs one test.
func (d *document) try(n *node, failures *problems) {
	store := core.NewMemory()
	// A Monday at noon, far from the edges of days and months, and the same for all runs.
	now := time.Date(2026, time.January, 5, 12, 0, 0, 0, time.UTC).UnixMicro()
	testclock.Set(store, func() int64 { return now })
	config, err := d.config(core.Config{Store: store, Logger: slog.New(slog.DiscardHandler)}, n.get("policy").string())
	if err != nil {
		failures.add(n.get("policy"), "%s", unprefixed(err))
		return
	}
	limiter, err := core.New(config)
	if err != nil {
		failures.add(n, "%s", unprefixed(err))
		return
	}
	for _, written := range n.get("requests").items {
		now += span(written.get("after")).Microseconds()
		r := requestOf(written)
		for i := range max(written.get("times").integer(), 1) {
			decision := limiter.Allow(r)
			if wrong := differs(written, &decision); wrong != "" {
				if i > 0 {
					wrong = fmt.Sprintf("number %d: %s", i+1, wrong)
				}
				failures.add(written, "%s", wrong)
				break
			}
			decision.Settle(core.Outcome{Status: 200}) // slots are free again for the next request
		}
	}
}

// differs says how a decision differs from what a table expects, or "".
func differs(written *node, d *core.Decision) string {
	got := "denied"
	switch {
	case d.Reason == core.ReasonBypassed:
		got = "bypassed"
	case d.Allowed:
		got = "allowed"
	}
	by, remaining := "", int64(-1)
	if b, ok := d.Binding(); ok {
		by, remaining = b.Rule.Name, b.Remaining
	}
	described := got
	if by != "" {
		described = fmt.Sprintf("%s, by limit %s with %d left", got, by, remaining)
	}
	if got == "denied" {
		described += fmt.Sprintf(" (%v)", d.Reason)
	}
	switch {
	case got != written.get("expect").string():
		return fmt.Sprintf("want %s, got %s", written.get("expect").string(), described)
	case written.get("by") != nil && written.get("by").text != by:
		return fmt.Sprintf("want it by limit %s, got %s", written.get("by").text, described)
	case written.get("remaining") != nil && written.get("remaining").integer() != remaining:
		return fmt.Sprintf("want %s left, got %s", written.get("remaining").text, described)
	}
	return ""
}

// tableRequest is a request of a table.
type tableRequest struct {
	method, route, path             string
	known                           bool // the route is
	peer                            netip.Addr
	headers, cookies, query, params map[string]string
	stored                          map[string]string
}

func requestOf(n *node) *tableRequest {
	r := &tableRequest{method: "GET", path: "/", peer: netip.MustParseAddr("192.0.2.1")}
	if method := n.get("method"); method != nil {
		r.method = method.text
	}
	if route := n.get("route"); route != nil {
		r.route, r.known = route.text, true
	}
	if path := n.get("path"); path != nil {
		r.path = path.text
	}
	if ip := n.get("ip"); ip != nil {
		r.peer, _ = netip.ParseAddr(ip.text) // the shape has checked it
	}
	r.headers, r.cookies, r.query = n.get("headers").pairs(), n.get("cookies").pairs(), n.get("query").pairs()
	r.params, r.stored = n.get("params").pairs(), n.get("stored").pairs()
	return r
}

// pairs returns the fields of an object of texts.
func (n *node) pairs() map[string]string {
	if n == nil {
		return nil
	}
	all := make(map[string]string, len(n.fields))
	for _, f := range n.fields {
		all[f.key.text] = f.value.text
	}
	return all
}

func (r *tableRequest) Context() context.Context { return context.Background() }
func (r *tableRequest) Method() string           { return r.method }
func (r *tableRequest) Path() string             { return r.path }
func (r *tableRequest) Route() (string, bool)    { return r.route, r.known }
func (r *tableRequest) Peer() netip.Addr         { return r.peer }

func (r *tableRequest) Header(name string, i int) (string, bool) {
	for written, value := range r.headers {
		if i == 0 && textproto.CanonicalMIMEHeaderKey(written) == name {
			return value, true
		}
	}
	return "", false
}

func (r *tableRequest) Cookie(name string, i int) (string, bool) { return first(r.cookies, name, i) }
func (r *tableRequest) Query(name string, i int) (string, bool)  { return first(r.query, name, i) }
func (r *tableRequest) Param(name string) (string, bool)         { return first(r.params, name, 0) }

func (r *tableRequest) Value(key any) any {
	if key == (keyfuncs.RequestKey{}) {
		return r
	}
	name, ok := key.(string)
	if !ok {
		return nil
	}
	if value, ok := r.stored[name]; ok {
		return value
	}
	return nil
}

func first(of map[string]string, name string, i int) (string, bool) {
	value, ok := of[name]
	return value, ok && i == 0
}
