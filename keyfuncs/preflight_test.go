package keyfuncs_test

import (
	"net/http"
	"testing"

	"github.com/weblimit/weblimit/keyfuncs"
)

func TestPreflight(t *testing.T) {
	t.Parallel()
	const origin, method = "Origin", "Access-Control-Request-Method"
	both := http.Header{origin: {"https://example.com"}, method: {"PUT"}}
	for _, tt := range []struct {
		name    string
		method  string
		headers http.Header
		want    bool
	}{
		{"a preflight", "OPTIONS", both, true},
		{"a preflight of a file", "OPTIONS", http.Header{origin: {"null"}, method: {"PUT"}}, true},
		{"another method", "POST", both, false},
		{"lower case", "options", both, false},
		{"OPTIONS alone", "OPTIONS", nil, false},
		{"without an origin", "OPTIONS", http.Header{method: {"PUT"}}, false},
		{"without a method", "OPTIONS", http.Header{origin: {"https://example.com"}}, false},
		{"with an empty origin", "OPTIONS", http.Header{origin: {""}, method: {"PUT"}}, false},
		{"with an empty method", "OPTIONS", http.Header{origin: {"https://example.com"}, method: {""}}, false},
		{"with two methods", "OPTIONS", http.Header{origin: {"https://example.com"}, method: {"PUT", "GET"}}, false},
		{"with a method override", "POST", http.Header{origin: both[origin], method: both[method], "X-Http-Method-Override": {"OPTIONS"}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantMatch(t, keyfuncs.Preflight(), &request{method: tt.method, headers: tt.headers}, tt.want)
		})
	}
}

// Trap 48.
func TestPreflightIsOfNoRoute(t *testing.T) {
	t.Parallel()
	headers := http.Header{"Origin": {"https://example.com"}, "Access-Control-Request-Method": {"PUT"}}
	c := keyfuncs.Preflight()
	for _, route := range []string{"/rpc", "/*", "*"} {
		wantMatch(t, c, &request{method: "OPTIONS", route: route, headers: headers}, false)
	}
	r := &request{method: "OPTIONS", unknown: true, headers: headers}
	wantAnswer(t, "where routes are not known", c, r, keyfuncs.Unknown)
	r.method = "POST"
	wantAnswer(t, "another method, where routes are not known", c, r, keyfuncs.No)
}
