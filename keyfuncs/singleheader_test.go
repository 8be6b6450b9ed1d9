package keyfuncs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestSingleHeader(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"an address", []string{"192.0.2.7"}, "192.0.2.7"},
		{"the last of several lines", []string{"198.51.100.1", "203.0.113.9", "192.0.2.7"}, "192.0.2.7"},
		{"no header is not the proxy", nil, ""},
		{"an empty header", []string{""}, ""},
		{"garbage on the last line", []string{"192.0.2.7", "garbage"}, ""},
		{"an empty last line", []string{"192.0.2.7", ""}, ""},
		{"a list", []string{"198.51.100.1, 192.0.2.7"}, ""},
		{"ten thousand lines", append(slices.Repeat([]string{"198.51.100.1"}, 10_000), "192.0.2.7"), "192.0.2.7"},
		{"ten thousand entries", []string{strings.Repeat("192.0.2.7,", 10_000)}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantAddr(t, keyfuncs.XRealIP("10.0.0.0/8"), from("10.0.0.1", "X-Real-Ip", tt.lines...), tt.want)
			wantAddr(t, keyfuncs.SingleHeader("x-real-ip", "10.0.0.0/8"), from("10.0.0.1", "X-Real-Ip", tt.lines...), tt.want)
			wantAddr(t, keyfuncs.SingleHeader("FASTLY-CLIENT-IP", "0.0.0.0/0"), from("10.0.0.1", "Fastly-Client-Ip", tt.lines...), tt.want)
		})
	}
}

func TestHeadersThatHoldAListAreNoSingleHeaders(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"X-Forwarded-For": `weblimit: keyfuncs.SingleHeader: X-Forwarded-For holds a list, and clients can write its first entries; use keyfuncs.TrustedProxies(proxies...)`,
		"x-forwarded-for": `weblimit: keyfuncs.SingleHeader: x-forwarded-for holds a list, and clients can write its first entries; use keyfuncs.TrustedProxies(proxies...)`,
		"Forwarded":       `weblimit: keyfuncs.SingleHeader: Forwarded holds a list, and clients can write its first entries; use keyfuncs.Forwarded(proxies...)`,
	} {
		check.Equal(t, name, fmt.Sprint(keyfuncs.SingleHeader(name, keyfuncs.Private).Err()), want)
	}
	for _, name := range []string{"X-Real-IP", "CF-Connecting-IP", "True-Client-IP", "Fastly-Client-IP"} {
		check.OK(t, keyfuncs.SingleHeader(name, keyfuncs.Private).Err())
	}
}

func TestTrap35XRealIPWithUnderscoresIsAnotherHeader(t *testing.T) {
	t.Parallel()
	s := keyfuncs.XRealIP("10.0.0.0/8")
	for _, name := range []string{"X_Real_IP", "X_Real_Ip", "X-Real_Ip", "X-Real-Ip ", "Xrealip"} {
		wantAddr(t, s, from("10.0.0.1", name, "198.51.100.1"), "")
		r := from("10.0.0.1", name, "198.51.100.1")
		r.headers["X-Real-Ip"] = []string{"192.0.2.7"}
		wantAddr(t, s, r, "192.0.2.7")
	}
}

// A client that sends "Connection: X-Real-Ip" makes a proxy drop the header, and
// then has neither the proxy's address nor one from another header.
func TestTrap35AStrippedHeaderLeavesTheAddressUnknown(t *testing.T) {
	t.Parallel()
	r := from("10.0.0.1", "Connection", "X-Real-Ip")
	r.headers["X-Forwarded-For"] = []string{"198.51.100.1"}
	wantAddr(t, keyfuncs.XRealIP("10.0.0.0/8"), r, "")
}
