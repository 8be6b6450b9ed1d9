package keyfuncs_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestHeaderOfAndItsKindNoteWhatIsThereTwice(t *testing.T) {
	t.Parallel()
	r := &request{
		headers: http.Header{"X-Plan": {" premium "}, "X-Two": {"a", "b"}, "X-Empty": {""}},
		query:   url.Values{"q": {"books"}, "two": {"a", "a"}, `"`: {"a", "b"}},
		cookies: map[string][]string{"sid": {"abc", "abc"}, "two": {"a", "b"}},
	}
	for _, tt := range []struct {
		of             func(keyfuncs.Request, string) string
		name           string
		want, repeated string
	}{
		{keyfuncs.HeaderOf, "X-Plan", "premium", ""},
		{keyfuncs.HeaderOf, "x-plan", "premium", ""},
		{keyfuncs.HeaderOf, "X-Empty", "", ""},
		{keyfuncs.HeaderOf, "X-None", "", ""},
		{keyfuncs.HeaderOf, "X-Two", "", "X-Two header"},
		{keyfuncs.QueryOf, "q", "books", ""},
		{keyfuncs.QueryOf, "two", "", "two query parameter"},
		{keyfuncs.QueryOf, `"`, "", "named query parameter"},
		{keyfuncs.CookieOf, "sid", "abc", ""},
		{keyfuncs.CookieOf, "two", "", "two cookie"},
		{keyfuncs.ParamOf, "id", "", ""},
	} {
		reading := &keyfuncs.Reading{Request: r}
		check.Equal(t, tt.name+", and what is repeated", [2]string{tt.of(reading, tt.name), reading.Repeated()}, [2]string{tt.want, tt.repeated})
		check.Equal(t, tt.name+" without a Reading", tt.of(r, tt.name), tt.want)
	}
}

func TestMatchesOfARepeatedHeaderIsUnknown(t *testing.T) {
	t.Parallel()
	premium := keyfuncs.Matches(func(r keyfuncs.Request) bool { return keyfuncs.HeaderOf(r, "X-Plan") == "premium" })
	two := withHeader("X-Plan", "premium", "free")
	wantAnswer(t, "two", premium, two, keyfuncs.Unknown)
	wantAnswer(t, "not two", keyfuncs.Not(premium), two, keyfuncs.Unknown)
	reading := &keyfuncs.Reading{Request: two}
	wantAnswer(t, "two, noted", keyfuncs.Any(keyfuncs.Methods("POST"), premium), reading, keyfuncs.Unknown)
	check.Equal(t, "repeated", reading.Repeated(), "X-Plan header")
	wantAnswer(t, "another condition", keyfuncs.Matches(func(keyfuncs.Request) bool { return true }), reading, keyfuncs.Yes)
	wantAnswer(t, "one", premium, withHeader("X-Plan", "premium"), keyfuncs.Yes)
}

func TestParametersHaveKeysThatEncodeKnows(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		f    keyfuncs.Func
		r    keyfuncs.Request
		kind string
		from string
	}{
		{keyfuncs.Query("q"), &request{query: url.Values{"q": {" a|b "}}}, "query.q", " a|b "},
		{keyfuncs.Query("access_token"), &request{query: url.Values{"access_token": {"x"}}}, "query.access_token", "x"},
		{keyfuncs.Param("id"), keyfuncs.Values{"id": "42"}, "param.id", "42"},
		{keyfuncs.Param("Id"), keyfuncs.Values{"Id": " ü "}, "param.Id", " ü "},
		{keyfuncs.Host(), withHeader("Host", "Shop.Example.:80"), "host", "Shop.Example.:80"},
		{keyfuncs.Host(), withHeader("Host", "[2001:DB8::1]:80"), "host", "[2001:db8::1]"},
		{keyfuncs.BasicAuthUser(), withHeader("Authorization", "basic YWxpY2U6c2VjcmV0"), "basic", "alice"},
	} {
		wantKey(t, tt.f, tt.r, keyfuncs.Encode(tt.kind, tt.from))
		check.Equal(t, "kind", tt.f.Kind(), tt.kind)
	}
	wantErr(t, keyfuncs.Query(""), `weblimit: keyfuncs.Query: "" is not a query parameter name`)
	wantErr(t, keyfuncs.Param("a:b"), `weblimit: keyfuncs.Param: "a:b" is not a path parameter name`)
	wantErr(t, keyfuncs.Param("a|b"), `weblimit: keyfuncs.Param: "a|b" contains # or |, which separate the parts of a key`)
}
