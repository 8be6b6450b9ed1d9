package keyfuncs_test

import (
	"strings"
	"testing"

	"github.com/weblimit/weblimit/keyfuncs"
)

func TestForwarded(t *testing.T) {
	t.Parallel()
	s := keyfuncs.Forwarded("10.0.0.0/8")
	trusted := func(n int) string { return strings.Repeat(", for=10.0.0.2", n) }
	for _, tt := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"a token", []string{"for=192.0.2.7"}, "192.0.2.7"},
		{"a quoted address", []string{`for="192.0.2.7"`}, "192.0.2.7"},
		{"a quoted address with a port", []string{`for="192.0.2.7:4711"`}, "192.0.2.7"},
		{"a hidden port", []string{`for="192.0.2.7:_p"`}, "192.0.2.7"},
		{"an IPv6 address", []string{`for="[2001:db8:cafe::17]"`}, "2001:db8:cafe::17"},
		{"an IPv6 address with a port", []string{`For="[2001:db8:cafe::17]:4711"`}, "2001:db8:cafe::17"},
		{"an IPv6 address that should have been quoted", []string{`for=[2001:db8:cafe::17]:4711`}, "2001:db8:cafe::17"},
		{"mapped", []string{`for="[::ffff:192.0.2.7]"`}, "192.0.2.7"},
		{"names in capitals", []string{"FOR=192.0.2.7"}, "192.0.2.7"},
		{"other parameters after", []string{"for=192.0.2.60;proto=http;by=203.0.113.43"}, "192.0.2.60"},
		{"other parameters before", []string{`by=203.0.113.43;host="a.example";for=192.0.2.60`}, "192.0.2.60"},
		{"blanks around separators", []string{"for=192.0.2.7 ; proto=http ,\tfor=10.0.0.2 "}, "192.0.2.7"},
		{"two elements", []string{"for=192.0.2.7, for=10.0.0.2"}, "192.0.2.7"},
		{"two lines", []string{"for=192.0.2.7", "for=10.0.0.2;proto=https"}, "192.0.2.7"},
		{"what the client wrote", []string{"for=198.51.100.1, for=192.0.2.7, for=10.0.0.2"}, "192.0.2.7"},
		{"all trusted: the leftmost", []string{"for=10.0.0.9, for=10.0.0.2"}, "10.0.0.9"},
		{"no header: the proxy itself", nil, "10.0.0.1"},
		{"quoted separators separate nothing", []string{`for=192.0.2.7;ext="a,b;for=198.51.100.1, for=198.51.100.2"`}, "192.0.2.7"},
		{"escaped quotes end nothing", []string{`for=192.0.2.7;ext="\",for=198.51.100.1;x=\""`}, "192.0.2.7"},
		{"escaped backslashes escape nothing", []string{`for=192.0.2.7;ext="a\\";proto=http`}, "192.0.2.7"},
		{"an empty quoted value of another name", []string{`for=192.0.2.7;ext=""`}, "192.0.2.7"},
		{"a quote that the client left open", []string{`for="198.51.100.1, for=192.0.2.7`}, "192.0.2.7"},
		{"a quote that the client left open before quotes", []string{`for="198.51.100.1, for="192.0.2.7"`}, "192.0.2.7"},
		{"a quote that the client left open with a backslash", []string{`for="198.51.100.1\, for="192.0.2.7";by="[2001:db8::1]"`}, "192.0.2.7"},
		{"a quote that the client left open on another line", []string{`for="198.51.100.1`, `for="192.0.2.7"`}, "192.0.2.7"},
		{"garbage to the left of the client", []string{`;;=="",,, for=192.0.2.7`}, "192.0.2.7"},
		{"32 elements", []string{"for=192.0.2.7" + trusted(31)}, "192.0.2.7"},

		{"33 elements", []string{"for=192.0.2.7" + trusted(32)}, ""},
		{"unknown", []string{"for=192.0.2.7, for=unknown"}, ""},
		{"hidden", []string{`for=192.0.2.7, for="_gazonk"`}, ""},
		{"no for=", []string{"for=192.0.2.7, proto=https;by=10.0.0.1"}, ""},
		{"two for=", []string{"for=192.0.2.7;for=192.0.2.8"}, ""},
		{"an empty for=", []string{"for="}, ""},
		{"an empty quoted for=", []string{`for=""`}, ""},
		{"an escaped address", []string{`for="\192.0.2.7"`}, ""},
		{"an escaped closing quote", []string{`for="192.0.2.7\"`}, ""},
		{"an open quote", []string{`for="192.0.2.7`}, ""},
		{"a quote within a token", []string{`for=192"0.2.7`}, ""},
		{"a quote alone", []string{`"`}, ""},
		{"two quotes alone", []string{`""`}, ""},
		{"something between = and the quote", []string{`for= "192.0.2.7"`}, ""},
		{"something before the quote", []string{`for=x"192.0.2.7"`}, ""},
		{"a name of two words", []string{"a for=192.0.2.7"}, ""},
		{"no name", []string{"=192.0.2.7"}, ""},
		{"no =", []string{"192.0.2.7"}, ""},
		{"an X-Forwarded-For", []string{"192.0.2.7, 10.0.0.2"}, ""},
		{"an empty header", []string{""}, ""},
		{"blanks", []string{" \t"}, ""},
		{"a comma at the end", []string{"for=192.0.2.7,"}, ""},
		{"a semicolon at the end", []string{"for=192.0.2.7;"}, ""},
		{"an empty line on the way", []string{"for=192.0.2.7", ""}, ""},
		{"an address and more", []string{`for="192.0.2.7, 192.0.2.8"`}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantAddr(t, s, from("10.0.0.1", "Forwarded", tt.lines...), tt.want)
		})
	}
}
