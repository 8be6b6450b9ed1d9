package browser

import (
	"net/http"
	"strings"
	"testing"
)

func TestHosts(t *testing.T) {
	t.Parallel()
	for host, local := range map[string]bool{
		"localhost": true, "LOCALHOST:80": true, "localhost.": true, "app.localhost": true, "127.0.0.1:8080": true, "[::1]:80": true, "::1": true,
		"": false, "evil.example": false, "localhost.evil.example": false, "127.0.0.1.evil.example:80": false, "notlocalhost": false,
	} {
		if IsLocal(host) != local {
			t.Errorf("%q: %v", host, !local)
		}
	}
	for host, can := range map[string]bool{
		"": false, "localhost": false, "app.localhost:80": false, "127.0.0.1:9180": false, "[::1]:9180": false, "weblimit": false, "weblimitd:9181": false, "weblimitd.": false,
		"evil.example": true, "evil.example.:9180": true, "127.0.0.1.evil.example": true, "a.b": true, "..": true, "[::1].evil.example": true,
	} {
		if CanRebind(host) != can {
			t.Errorf("%q: %v", host, !can)
		}
	}
	hosts := []string{"limits.internal", "::1"}
	for host, known := range map[string]bool{"limits.internal": true, "Limits.Internal.:8080": true, "[::1]:80": true, "x.limits.internal": false, "": false} {
		if Knows(hosts, host) != known {
			t.Errorf("%q: %v", host, !known)
		}
	}
}

// What an operator writes is compared with requests' hosts in one form, and what none can have is refused.
func TestHostsOfOperators(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"limits.internal": "limits.internal", "Limits.Internal.": "limits.internal", "a_b-c": "a_b-c", "127.0.0.1": "127.0.0.1", "[::1]": "::1", "FE80::1": "fe80::1",
		"": "", ".": "", "https://a": "", "a:80": "", "[::1]:80": "", "a b": "", "a,b": "", "*.a": "", "ä": "", strings.Repeat("a", 254): "",
	} {
		if got, ok := Host(host); got != want || ok != (want != "") {
			t.Errorf("%q: %q %v", host, got, ok)
		}
	}
}

func TestRequestsOfPages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		header          http.Header
		page, otherSite bool
	}{
		{http.Header{}, false, false},
		{http.Header{"Sec-Fetch-Site": {"none"}}, false, false},
		{http.Header{"Sec-Fetch-Site": {"none", "none"}}, true, false},
		{http.Header{"Sec-Fetch-Site": {"same-origin"}}, true, false},
		{http.Header{"Sec-Fetch-Site": {"same-site"}}, true, true},
		{http.Header{"Sec-Fetch-Site": {"cross-site"}}, true, true},
		{http.Header{"Origin": {"null"}}, true, false},
		{http.Header{"Origin": {""}}, true, false},
	} {
		r := &http.Request{Header: c.header}
		if FromPage(r) != c.page || FromOtherSite(r) != c.otherSite {
			t.Errorf("%v: %v and %v", c.header, FromPage(r), FromOtherSite(r))
		}
	}
}
