package keyfuncs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

const xff = "X-Forwarded-For"

func TestTrustedProxies(t *testing.T) {
	t.Parallel()
	s := keyfuncs.TrustedProxies("10.0.0.0/8", "2001:db8:ffff::/48")
	trusted := func(n int) string { return strings.TrimSuffix(strings.Repeat("10.0.0.2,", n), ",") }
	for _, tt := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"one proxy", []string{"192.0.2.7"}, "192.0.2.7"},
		{"three proxies", []string{"192.0.2.7, 10.0.0.3, 10.0.0.2"}, "192.0.2.7"},
		{"without blanks", []string{"192.0.2.7,10.0.0.3,10.0.0.2"}, "192.0.2.7"},
		{"with tabs", []string{"\t192.0.2.7\t,\t10.0.0.2\t"}, "192.0.2.7"},
		{"proxies of both families", []string{"192.0.2.7, 2001:db8:ffff::1, ::ffff:10.0.0.2"}, "192.0.2.7"},
		{"IPv6 with brackets and ports", []string{"[2001:db8::7]:5000, 10.0.0.2:80"}, "2001:db8::7"},
		{"the rightmost that is not trusted", []string{"198.51.100.1, 192.0.2.7, 10.0.0.2"}, "192.0.2.7"},
		{"a line for each proxy", []string{"192.0.2.7", "10.0.0.3", "10.0.0.2"}, "192.0.2.7"},
		{"no header: the proxy itself", nil, "10.0.0.1"},
		{"all trusted: the leftmost", []string{"10.0.0.9, 10.0.0.2"}, "10.0.0.9"},
		{"all trusted over lines: the leftmost", []string{"10.0.0.9", "10.0.0.3, 10.0.0.2"}, "10.0.0.9"},
		{"garbage to the left of the client is not looked at", []string{"garbage, , \x00, 192.0.2.7"}, "192.0.2.7"},
		{"a client that claims to be a proxy", []string{"10.0.0.5, 192.0.2.7"}, "192.0.2.7"},
		{"32 entries", []string{"10.0.0.9," + trusted(31)}, "10.0.0.9"},
		{"32 entries, the last the client's", []string{"192.0.2.7," + trusted(31)}, "192.0.2.7"},

		{"33 entries", []string{"10.0.0.9," + trusted(32)}, ""},
		{"33 entries, the last the client's", []string{"192.0.2.7," + trusted(32)}, ""},
		{"33 entries over lines", []string{"192.0.2.7", trusted(16), trusted(16)}, ""},
		{"garbage", []string{"garbage"}, ""},
		{"garbage behind a proxy", []string{"192.0.2.7, garbage, 10.0.0.2"}, ""},
		{"unknown behind a proxy", []string{"192.0.2.7, unknown, 10.0.0.2"}, ""},
		{"an empty header", []string{""}, ""},
		{"blanks", []string{" \t"}, ""},
		{"a comma", []string{","}, ""},
		{"an empty entry on the way", []string{"192.0.2.7, , 10.0.0.2"}, ""},
		{"an empty entry at the end", []string{"192.0.2.7, "}, ""},
		{"an empty line on the way", []string{"192.0.2.7", "", "10.0.0.2"}, ""},
		{"semicolons", []string{"192.0.2.7; 10.0.0.2"}, ""},
		{"quotes", []string{`"192.0.2.7"`}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantAddr(t, s, from("10.0.0.1", xff, tt.lines...), tt.want)
		})
	}
}

func TestHopCount(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		n     int
		lines []string
		want  string
	}{
		{"one proxy", 1, []string{"192.0.2.7"}, "192.0.2.7"},
		{"one proxy, and what the client wrote", 1, []string{"198.51.100.1, 192.0.2.7"}, "192.0.2.7"},
		{"two proxies", 2, []string{"198.51.100.1, 192.0.2.7, 203.0.113.1"}, "192.0.2.7"},
		{"two proxies, two lines", 2, []string{"198.51.100.1, 192.0.2.7", "203.0.113.1"}, "192.0.2.7"},
		{"three proxies, three lines", 3, []string{"192.0.2.7", "203.0.113.2", "203.0.113.1"}, "192.0.2.7"},
		{"garbage to the left", 1, []string{"garbage,,, 192.0.2.7"}, "192.0.2.7"},
		{"32 proxies", 32, []string{"192.0.2.7" + strings.Repeat(",203.0.113.1", 31)}, "192.0.2.7"},

		{"no header", 1, nil, ""},
		{"an empty header", 1, []string{""}, ""},
		{"too few", 3, []string{"192.0.2.7, 203.0.113.1"}, ""},
		{"garbage in its place", 2, []string{"garbage, 203.0.113.1"}, ""},
		{"garbage before its place", 2, []string{"192.0.2.7, garbage"}, ""},
		{"nothing before its place", 2, []string{"192.0.2.7,"}, ""},
		{"an empty line counts", 2, []string{"192.0.2.7", ""}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantAddr(t, keyfuncs.HopCount(tt.n), from("203.0.113.9", xff, tt.lines...), tt.want)
		})
	}
}

func TestTrap34RotatingHeadersThroughAProxyAreOneKey(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]keyfuncs.Strategy{
		"TrustedProxies": keyfuncs.TrustedProxies(keyfuncs.Private),
		"HopCount":       keyfuncs.HopCount(2),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range 200 {
				spoofed := fmt.Sprintf("203.0.113.%d, 10.0.0.%d", i, i)
				const proxies = "192.0.2.7, 10.0.0.2"
				wantAddr(t, s, from("10.0.0.1", xff, spoofed+", "+proxies), "192.0.2.7")
				wantAddr(t, s, from("10.0.0.1", xff, spoofed, proxies), "192.0.2.7")
				wantAddr(t, s, from("10.0.0.1", xff, spoofed, spoofed, "192.0.2.7", "10.0.0.2"), "192.0.2.7")
			}
		})
	}
}

func TestTrap35LinesBeforeTheProxysFoolNobody(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][]string{
		"one line":               {"198.51.100.1"},
		"two lines":              {"198.51.100.1", "10.0.0.5"},
		"an empty line":          {""},
		"blanks":                 {" \t "},
		"commas":                 {",,,,"},
		"ten thousand entries":   {strings.Repeat("10.0.0.5,", 10_000)},
		"ten thousand lines":     slices.Repeat([]string{"10.0.0.5"}, 10_000),
		"lines without anything": slices.Repeat([]string{""}, 10_001),
		"a megabyte":             {strings.Repeat("1", 1<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, s := range []keyfuncs.Strategy{keyfuncs.TrustedProxies(keyfuncs.Private), keyfuncs.HopCount(1)} {
				wantAddr(t, s, from("10.0.0.1", xff, append(slices.Clone(lines), "192.0.2.7")...), "192.0.2.7")
			}
			wantAddr(t, keyfuncs.XRealIP(keyfuncs.Private), from("10.0.0.1", "X-Real-Ip", append(slices.Clone(lines), "192.0.2.7")...), "192.0.2.7")
		})
	}
	// Nothing but trusted entries: a machine of ours, and more than 32 of them.
	wantAddr(t, keyfuncs.TrustedProxies(keyfuncs.Private), from("10.0.0.1", xff, slices.Repeat([]string{"10.0.0.5"}, 10_000)...), "")
}

// counting counts how often a header is asked for.
type counting struct {
	*request
	calls int
}

func (r *counting) Header(name string, i int) (string, bool) {
	r.calls++
	return r.request.Header(name, i)
}

func TestFewLinesOfManyAreLookedAt(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2, 3, 4, 5, 100, 10_000} {
		lines := make([]string, n)
		for i := range lines {
			lines[i] = fmt.Sprintf("192.0.2.%d", (i+1)%250)
		}
		want := "10.0.0.1"
		if n > 0 {
			want = lines[n-1]
		}
		r := &counting{request: from("10.0.0.1", xff, lines...)}
		addr, ok := keyfuncs.TrustedProxies(keyfuncs.Private).Addr(r)
		check.All(t, fmt.Sprint(n, " lines"), []any{addr, ok}, want, true)
		if r.calls > 32 {
			t.Errorf("%d lines: %d were read", n, r.calls)
		}
	}
}
