package limittest

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// lie makes up headers that claim to come from the i-th address.
type lie struct {
	name string
	tell func(i int) []option
}

// claimed is the i-th address of a range that no request comes from.
func claimed(i int) string { return fmt.Sprintf("198.51.%d.%d", i>>8, i&0xff) }

var lies = func() []lie {
	all := []lie{
		{"Forwarded", func(i int) []option { return []option{with("Forwarded", "for="+claimed(i)+";proto=https")} }},
		{"an IPv6 address in Forwarded", func(i int) []option {
			return []option{with("Forwarded", fmt.Sprintf(`for="[2001:db8:%x::1]:443"`, i))}
		}},
		{"an IPv6 address in X-Forwarded-For", func(i int) []option {
			return []option{with("X-Forwarded-For", fmt.Sprintf("2001:db8:%x::1", i))}
		}},
		{"several lines", func(i int) []option {
			return []option{
				with("X-Forwarded-For", claimed(i)), with("X-Forwarded-For", claimed(i+1)+", 10.0.0.1"), with("X-Forwarded-For", ""),
				with("X-Real-Ip", claimed(i)), with("X-Real-Ip", claimed(i+1)),
			}
		}},
		{"the peer's own address first", func(i int) []option {
			return []option{with("X-Forwarded-For", "192.0.2.1, "+claimed(i))}
		}},
		{"no address", func(i int) []option { return []option{with("X-Forwarded-For", fmt.Sprint("client-", i))} }},
		{"Connection: X-Real-Ip", func(i int) []option {
			return []option{with("Connection", "X-Real-Ip, X-Forwarded-For"), with("X-Real-Ip", claimed(i))}
		}},
		{"underscores", func(i int) []option {
			return []option{with("X_Real_IP", claimed(i)), with("X_Forwarded_For", claimed(i))}
		}},
	}
	for _, name := range []string{
		"X-Forwarded-For", "X-Real-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "Cf-Connecting-Ipv6", "Client-Ip",
		"X-Client-Ip", "X-Cluster-Client-Ip", "Fastly-Client-Ip", "X-Azure-Clientip", "X-Forwarded", "Forwarded-For",
	} {
		all = append(all, lie{name, func(i int) []option { return []option{with(name, claimed(i))} }})
	}
	return append(all, lie{"all at once", func(i int) []option {
		var options []option
		for _, l := range all {
			options = append(options, l.tell(i)...)
		}
		return options
	}})
}()

// gain sends requests with each of the lies in turn from one peer and fails the test
// unless exactly the quota passes.
func (e *env) gain(s *site, requests, quota int, options ...option) {
	e.Helper()
	passed := 0
	for i := range requests {
		l := lies[i%len(lies)]
		if s.get("/", append(l.tell(i), options...)...).status == http.StatusOK {
			if passed++; passed > quota {
				e.Errorf("request %d passed with %s", i+1, l.name)
			}
		}
	}
	equal(e, fmt.Sprintf("passed of %d", requests), passed, quota)
}

// warned returns a layer that allows one request per hour and key, and a function that
// returns the keys charged since its last call, as OnWarning reports them. A request
// without the key is denied, and its response says so.
func (e *env) warned(key keyfuncs.Func) (layers []Layer, keys func() string) {
	e.Helper()
	var mu sync.Mutex
	var seen []string
	layers = e.configured(core.Config{
		Limits: []core.Limit{core.PerHour(1).By(key).WarnAt(1).OnMissingKey(core.DenyRequest)},
		OnWarning: func(_ context.Context, w core.Warning) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, w.Key)
		},
	})
	return layers, func() string {
		mu.Lock()
		defer mu.Unlock()
		keys := strings.Join(seen, " ")
		seen = nil
		return keys
	}
}

// missing is part of the body of a request that was denied because it has no key.
const missing = "The request has no client address."

// proxied is a request from a trusted proxy whose client has the key. The key is "" if
// the client is unknown.
type proxied struct {
	what    string
	key     string
	options []option
}

// through checks how requests are keyed by a strategy, and that a second one
// with the same key is denied.
func through(name string, key keyfuncs.Func, requests ...proxied) scenario {
	return scenario{name, func(e *env) {
		layers, keys := e.warned(key)
		s := e.serve(App{Layers: layers})
		known := make(map[string]bool)
		for _, p := range requests {
			r := s.get("/", p.options...)
			switch {
			case p.key == "":
				equal(e, p.what+": status", r.status, http.StatusBadRequest)
				equal(e, p.what+": told that the key is missing", strings.Contains(r.body, missing), true)
				equal(e, p.what+": key", keys(), "")
			case known[p.key]:
				e.denied(p.what, r)
				equal(e, p.what+": told that the key is missing", strings.Contains(r.body, missing), false)
				equal(e, p.what+": key", keys(), "")
			default:
				e.passes(p.what, r)
				equal(e, p.what+": key", keys(), p.key)
				known[p.key] = true
			}
		}
	}}
}

// proxy is the peer of requests that come through the trusted proxy, and cloudflare of
// requests that come through Cloudflare.
const (
	proxy      = "10.0.0.1:4711"
	cloudflare = "173.245.48.5:4711"
)

// notations are spellings of addresses, each with its one key.
var notations = []struct {
	key  string
	also []string
}{
	{"ip:192.0.2.7", []string{
		"192.0.2.7", "192.0.2.7:1234", " 192.0.2.7\t", "::ffff:192.0.2.7", "::FFFF:192.0.2.7", "::ffff:c000:207", "::FFFF:C000:0207",
		"0:0:0:0:0:ffff:192.0.2.7", "[::ffff:192.0.2.7]", "[::ffff:192.0.2.7]:1234", "::ffff:192.0.2.7%eth0",
	}},
	{"ip:1.2.3.4", []string{"1.2.3.4", "::ffff:1.2.3.4", "::ffff:102:304"}},
	{"ip:::/64", []string{"::1.2.3.4", "::102:304", "[::1.2.3.4]:80", "::1.2.3.5"}},
	{"ip:2001:db8::/64", []string{
		"2001:db8::1.2.3.4", "2001:db8::102:304", "2001:DB8::1", "2001:0db8:0000:0000:ffff:FFFF:ffff:ffff", "[2001:db8::1]", "[2001:Db8::1]:443",
	}},
	{"ip:2001:db8:0:1::/64", []string{"2001:db8:0:1::1", "[2001:db8:0:1:8000::]:1"}},
	{"ip:64:ff9b::/64", []string{"64:ff9b::1.2.3.4", "64:ff9b::102:304", "64:FF9B::192.0.2.7"}},
	{"ip:fe80::/64", []string{"fe80::1%eth0", "fe80::1%eth1", "fe80::1", "[fe80::1%eth0]:80", "FE80::2"}},
	{"", []string{
		"", "unknown", "_hidden", "<nil>", "localhost", "1.2.3", "1.2.3.4.5", "01.2.3.4", "0x1.2.3.4", "16909060", "1.2.3.4/32", "1.2.3.4:99999",
		"1.2.3.4:", "[1.2.3.4]", "[::1", "::1]", "fe80::1%", "1.2.3.4%eth0", "1.2.3.4 5.6.7.8", "2001:db8::1::2", `"1.2.3.4"`, "\xff",
	}},
}

// spelt asks for the key of each notation that place puts into a request.
func spelt(name string, key keyfuncs.Func, place func(string) []option) scenario {
	var requests []proxied
	for _, n := range notations {
		for _, spelling := range n.also {
			requests = append(requests, proxied{fmt.Sprintf("%q", spelling), n.key, place(spelling)})
		}
	}
	return through(name, key, requests...)
}

var spoofing = []scenario{
	{"of 1,000 requests with rotating addresses in headers exactly the limit passes", func(e *env) {
		s := e.serve(App{Layers: e.configured(core.Config{Limits: []core.Limit{core.PerDay(10).By(keyfuncs.ClientIP())}})})
		e.gain(s, 1000, 10)
	}},
	{"no strategy believes a peer that it does not name", func(e *env) {
		for what, key := range map[string]keyfuncs.Func{
			"Peer":                keyfuncs.ClientIP(keyfuncs.Peer(), keyfuncs.IPv6Prefix(128)),
			"TrustedProxies":      keyfuncs.ClientIP(keyfuncs.TrustedProxies(keyfuncs.Private, keyfuncs.Loopback, keyfuncs.CloudflareRanges)),
			"Forwarded":           keyfuncs.ClientIP(keyfuncs.Forwarded(keyfuncs.Private)),
			"XRealIP":             keyfuncs.ClientIP(keyfuncs.XRealIP(keyfuncs.Private)),
			"SingleHeader":        keyfuncs.ClientIP(keyfuncs.SingleHeader("True-Client-IP", keyfuncs.Private)),
			"Cloudflare":          keyfuncs.ClientIP(keyfuncs.Cloudflare()),
			"Cloudflare, proxies": keyfuncs.ClientIP(keyfuncs.Cloudflare(keyfuncs.Private)),
			"First":               keyfuncs.First(keyfuncs.User(UserLocal), keyfuncs.ClientIP()),
			"Join":                keyfuncs.Join(keyfuncs.ClientIP(), keyfuncs.Method()),
			"WithSecret":          keyfuncs.ClientIP().WithSecret([]byte("0123456789abcdef")),
		} {
			s := e.serve(App{Layers: e.configured(core.Config{Limits: []core.Limit{core.PerDay(2).By(key).Named("x")}})})
			e.Log(what)
			e.gain(s, 2*len(lies), 2)
		}
	}},
	{"behind a proxy that appends, an attacker's own entries gain nothing", func(e *env) {
		s := e.serve(App{Layers: e.configured(core.Config{
			Limits: []core.Limit{core.PerDay(3).By(keyfuncs.ClientIP(keyfuncs.TrustedProxies("10.0.0.0/8")))},
		})})
		passed := 0
		for i := range 100 {
			options := []option{from(proxy), with("X-Forwarded-For", claimed(i)), with("X-Forwarded-For", "192.0.2.7")}
			if i%2 == 1 {
				options = []option{from(proxy), with("X-Forwarded-For", claimed(i)+", garbage, , 10.0.0.9, 192.0.2.7 , 10.0.0.2")}
			}
			if s.get("/", options...).status == http.StatusOK {
				passed++
			}
		}
		equal(e, "passed", passed, 3)
		e.denied("the same client, directly", s.get("/", from("192.0.2.7:99")))
		e.passes("another client", s.get("/", from(proxy), with("X-Forwarded-For", "192.0.2.8")))
		e.passes("the proxy itself", s.get("/", from(proxy)))
	}},
	through(
		"TrustedProxies reads X-Forwarded-For from the right", keyfuncs.ClientIP(keyfuncs.TrustedProxies("10.0.0.0/8")),
		proxied{"one entry", "ip:192.0.2.7", []option{from(proxy), with("X-Forwarded-For", "192.0.2.7")}},
		proxied{"an attacker's line first", "ip:192.0.2.7", []option{from(proxy), with("X-Forwarded-For", "198.51.100.1"), with("X-Forwarded-For", "192.0.2.7")}},
		proxied{"an attacker's line last", "ip:198.51.100.1", []option{from(proxy), with("X-Forwarded-For", "192.0.2.7"), with("X-Forwarded-For", "198.51.100.1")}},
		proxied{"a chain of proxies", "ip:192.0.2.7", []option{from(proxy), with("X-Forwarded-For", "198.51.100.1, 192.0.2.7, 10.0.0.3,10.0.0.2")}},
		proxied{"a chain of proxies, mapped", "ip:192.0.2.7", []option{from(proxy), with("X-Forwarded-For", "198.51.100.1, ::ffff:192.0.2.7, ::ffff:10.0.0.3, [::FFFF:10.0.0.2]:80")}},
		proxied{"garbage left of the client", "ip:192.0.2.7", []option{from(proxy), with("X-Forwarded-For", "x, , 192.0.2.7")}},
		proxied{"garbage on the way", "", []option{from(proxy), with("X-Forwarded-For", "192.0.2.7, x, 10.0.0.2")}},
		proxied{"an empty line last", "", []option{from(proxy), with("X-Forwarded-For", "192.0.2.7"), with("X-Forwarded-For", "")}},
		proxied{"all trusted", "ip:10.0.0.9", []option{from(proxy), with("X-Forwarded-For", "10.0.0.9, 10.0.0.2")}},
		proxied{"more than 32", "", []option{from(proxy), with("X-Forwarded-For", "192.0.2.7"+strings.Repeat(", 10.0.0.2", 33))}},
		proxied{"no header", "ip:10.0.0.1", []option{from(proxy)}},
		proxied{"other headers only", "ip:10.0.0.1", []option{from(proxy), with("X-Real-Ip", "192.0.2.8"), with("Forwarded", "for=192.0.2.8"), with("X_Forwarded_For", "192.0.2.8")}},
		proxied{"a mapped peer", "ip:192.0.2.7", []option{from("[::ffff:10.0.0.1]:1"), with("X-Forwarded-For", "192.0.2.7")}},
		proxied{"a peer that is no proxy", "ip:192.0.2.99", []option{from("192.0.2.99:1"), with("X-Forwarded-For", "192.0.2.7")}},
		proxied{"a unix socket", "", []option{from("@"), with("X-Forwarded-For", "192.0.2.7")}},
	),
	through(
		"Forwarded reads for= from the right", keyfuncs.ClientIP(keyfuncs.Forwarded("10.0.0.0/8")),
		proxied{"one element", "ip:192.0.2.7", []option{from(proxy), with("Forwarded", "for=192.0.2.7")}},
		proxied{"an attacker's line first", "ip:192.0.2.7", []option{from(proxy), with("Forwarded", "for=198.51.100.1"), with("Forwarded", `For="192.0.2.7:80";proto=http`)}},
		proxied{"an attacker's open quote", "ip:192.0.2.7", []option{from(proxy), with("Forwarded", `for="198.51.100.1, for=192.0.2.7;by=10.0.0.2`)}},
		proxied{"IPv6", "ip:2001:db8::/64", []option{from(proxy), with("Forwarded", `for=198.51.100.1, for="[2001:db8::1]:80", for=10.0.0.2`)}},
		proxied{"hidden", "", []option{from(proxy), with("Forwarded", "for=192.0.2.7, for=_gateway")}},
		proxied{"unknown", "", []option{from(proxy), with("Forwarded", "for=unknown")}},
		proxied{"X-Forwarded-For only", "ip:10.0.0.1", []option{from(proxy), with("X-Forwarded-For", "192.0.2.8")}},
	),
	through(
		"XRealIP reads the last line, which the proxy wrote", keyfuncs.ClientIP(keyfuncs.XRealIP("10.0.0.0/8")),
		proxied{"one line", "ip:192.0.2.7", []option{from(proxy), with("X-Real-Ip", "192.0.2.7")}},
		proxied{"an attacker's line first", "ip:192.0.2.7", []option{from(proxy), with("X-Real-Ip", "198.51.100.1"), with("X-Real-Ip", "192.0.2.7")}},
		proxied{"a list", "", []option{from(proxy), with("X-Real-Ip", "198.51.100.1, 192.0.2.7")}},
		proxied{"an empty line last", "", []option{from(proxy), with("X-Real-Ip", "198.51.100.1"), with("X-Real-Ip", "")}},
		proxied{"stripped by Connection: X-Real-Ip", "", []option{from(proxy), with("Connection", "X-Real-Ip"), with("X-Forwarded-For", "198.51.100.1")}},
		proxied{"an underscore", "", []option{from(proxy), with("X_Real_IP", "198.51.100.1")}},
		proxied{"an underscore beside it", "ip:192.0.2.7", []option{from(proxy), with("X-Real-Ip", "192.0.2.7"), with("X_Real_IP", "198.51.100.1")}},
		proxied{"a peer that is no proxy", "ip:192.0.2.99", []option{from("192.0.2.99:1"), with("X-Real-Ip", "192.0.2.7")}},
	),
	through(
		"Cloudflare reads CF-Connecting-IP from Cloudflare only", keyfuncs.ClientIP(keyfuncs.Cloudflare()),
		proxied{"from Cloudflare", "ip:192.0.2.7", []option{from(cloudflare), with("Cf-Connecting-Ip", "192.0.2.7")}},
		proxied{"from Cloudflare over IPv6", "ip:192.0.2.7", []option{from("[2606:4700::1]:443"), with("Cf-Connecting-Ip", "192.0.2.7")}},
		proxied{"an attacker's line first", "ip:192.0.2.7", []option{from(cloudflare), with("Cf-Connecting-Ip", "198.51.100.1"), with("Cf-Connecting-Ip", "192.0.2.7")}},
		proxied{"X-Forwarded-For beside it", "ip:192.0.2.7", []option{from(cloudflare), with("Cf-Connecting-Ip", "192.0.2.7"), with("X-Forwarded-For", "198.51.100.1")}},
		proxied{"CF-Connecting-IPv6 beside it", "ip:192.0.2.7", []option{from(cloudflare), with("Cf-Connecting-Ip", "192.0.2.7"), with("Cf-Connecting-Ipv6", "2001:db8:9::1")}},
		proxied{"Pseudo IPv4", "ip:2001:db8::/64", []option{from(cloudflare), with("Cf-Connecting-Ip", "243.1.2.3"), with("Cf-Connecting-Ipv6", "2001:db8::1")}},
		proxied{"Pseudo IPv4 without IPv6", "", []option{from(cloudflare), with("Cf-Connecting-Ip", "243.1.2.3")}},
		proxied{"no header", "", []option{from(cloudflare), with("X-Forwarded-For", "198.51.100.1"), with("True-Client-Ip", "198.51.100.1")}},
		proxied{"somebody else", "ip:192.0.2.99", []option{from("192.0.2.99:1"), with("Cf-Connecting-Ip", "192.0.2.7")}},
	),
	spelt("an address in X-Forwarded-For has one key, however it is written", keyfuncs.ClientIP(keyfuncs.TrustedProxies("10.0.0.0/8")), func(spelling string) []option {
		return []option{from(proxy), with("X-Forwarded-For", spelling)}
	}),
	spelt("an address in X-Real-IP has one key, however it is written", keyfuncs.ClientIP(keyfuncs.XRealIP("10.0.0.0/8")), func(spelling string) []option {
		return []option{from(proxy), with("X-Real-Ip", spelling)}
	}),
	spelt("an address in CF-Connecting-IP has one key, however it is written", keyfuncs.ClientIP(keyfuncs.Cloudflare()), func(spelling string) []option {
		return []option{from(cloudflare), with("Cf-Connecting-Ip", spelling)}
	}),
	{"addresses of one /64 are one bucket, and IPv4 addresses never are", func(e *env) {
		s := e.serve(App{Layers: e.configured(core.Config{
			Limits: []core.Limit{core.PerDay(1).By(keyfuncs.ClientIP(keyfuncs.TrustedProxies("10.0.0.0/8")))},
		})})
		passed, low := 0, netip.MustParseAddr("2001:db8:0:2::").As16()
		for i := range 300 {
			low[8], low[14], low[15] = byte(i*37), byte(i*219>>8), byte(i*219) // of its 2^16 last ones
			addr := netip.AddrFrom16(low).String()
			options := []option{from("[" + addr + "]:1")}
			if i%2 == 1 {
				options = []option{from(proxy), with("X-Forwarded-For", addr)}
			}
			if s.get("/", options...).status == http.StatusOK {
				passed++
			}
		}
		equal(e, "passed of 300 from one /64", passed, 1)
		passed = 0
		for i := range 300 {
			for _, options := range [][]option{
				{from("[::ffff:" + claimed(i) + "]:1")}, {from(claimed(i) + ":2")}, {from(proxy), with("X-Forwarded-For", "::ffff:"+claimed(i))},
			} {
				if s.get("/", options...).status == http.StatusOK {
					passed++
				}
			}
		}
		equal(e, "passed of 900 from 300 of IPv4", passed, 300)
	}},
}

// RunFramework runs the scenarios of keyfuncs.Framework on servers whose framework trusts
// no proxy, by configuration or by default. has says whether the framework determines a
// client address at all.
func RunFramework(t *testing.T, build Build, has bool) {
	t.Helper()
	e := &env{T: t, build: build, newStore: func(testing.TB) core.Store { return core.NewMemory() }}
	layers, keys := e.warned(keyfuncs.ClientIP(keyfuncs.Framework()))
	s := e.serve(App{Layers: layers})
	if !has {
		r := s.get("/")
		equal(e, "status without an opinion", r.status, http.StatusBadRequest)
		equal(e, "told that the key is missing", strings.Contains(r.body, missing), true)
		return
	}
	e.gain(s, 3*len(lies), 1)
	equal(e, "key", keys(), "ip:192.0.2.1")
	e.passes("another peer", s.get("/", from("[2001:db8::1]:1"), with("X-Forwarded-For", "192.0.2.1")))
	equal(e, "key", keys(), "ip:2001:db8::/64")
	e.denied("the same network", s.get("/", from("[2001:db8::2]:1")))
	r := s.get("/", from("@"))
	equal(e, "status on a unix socket", r.status, http.StatusBadRequest)
	equal(e, "told that the key is missing", strings.Contains(r.body, missing), true)
}
