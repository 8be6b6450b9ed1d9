package keyfuncs_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestAPIKey(t *testing.T) {
	t.Parallel()
	byDefault := keyfuncs.APIKey()
	withQuery := keyfuncs.APIKey("X-API-Key", "?api_key")
	s3cret := hashed("apikey", "s3cret")
	for _, tt := range []struct {
		name    string
		f       keyfuncs.Func
		headers http.Header
		query   string
		want    string
	}{
		{"X-API-Key is read by default", byDefault, http.Header{"X-Api-Key": {"s3cret"}}, "", s3cret},
		{"a bearer token is read by default", byDefault, http.Header{"Authorization": {"Bearer s3cret"}}, "", s3cret},
		{"the query is not read by default", byDefault, nil, "api_key=s3cret", ""},
		{"the query is read when asked for", withQuery, nil, "api_key=s3cret", s3cret},
		{"the bearer token is not read unless asked for", withQuery, http.Header{"Authorization": {"Bearer s3cret"}}, "", ""},
		{"the name of a header is case-insensitive", keyfuncs.APIKey("x-api-key"), http.Header{"X-Api-Key": {"s3cret"}}, "", s3cret},
		{"authorization is too", keyfuncs.APIKey("AUTHORIZATION"), http.Header{"Authorization": {"Bearer s3cret"}}, "", s3cret},
		{"the scheme is too", byDefault, http.Header{"Authorization": {"bEARER s3cret"}}, "", s3cret},
		{"spaces around the token are trimmed", byDefault, http.Header{"Authorization": {"Bearer   s3cret "}}, "", s3cret},
		{"another scheme is not a key", byDefault, http.Header{"Authorization": {"Basic s3cret"}}, "", ""},
		{"a longer scheme is not a key", byDefault, http.Header{"Authorization": {"Bearers s3cret"}}, "", ""},
		{"a scheme alone is not a key", byDefault, http.Header{"Authorization": {"Bearer"}}, "", ""},
		{"a scheme and a space is not a key", byDefault, http.Header{"Authorization": {"Bearer "}}, "", ""},
		{"a bare token is not a key", byDefault, http.Header{"Authorization": {"s3cret"}}, "", ""},
		{"two sources with the same key", byDefault, http.Header{"X-Api-Key": {"s3cret"}, "Authorization": {"Bearer s3cret"}}, "", s3cret},
		{"two sources with different keys are ambiguous", byDefault, http.Header{"X-Api-Key": {"s3cret"}, "Authorization": {"Bearer other"}}, "", ambiguous + "API key"},
		{"another scheme beside a key does no harm", byDefault, http.Header{"X-Api-Key": {"s3cret"}, "Authorization": {"Basic other"}}, "", s3cret},
		{"a header and a parameter with different keys are ambiguous", withQuery, http.Header{"X-Api-Key": {"s3cret"}}, "api_key=other", ambiguous + "API key"},
		{"a parameter that is not read does no harm", byDefault, http.Header{"X-Api-Key": {"s3cret"}}, "api_key=other", s3cret},
		{"a parameter twice is ambiguous", withQuery, nil, "api_key=a&api_key=a", ambiguous + "api_key query parameter"},
		{"two tokens are ambiguous", byDefault, http.Header{"Authorization": {"Bearer a b"}}, "", ambiguous + "Authorization header"},
		{"two lists of a proxy are ambiguous", byDefault, http.Header{"Authorization": {"Bearer a, Bearer b"}}, "", ambiguous + "Authorization header"},
		{"an empty source is passed over", byDefault, http.Header{"X-Api-Key": {""}, "Authorization": {"Bearer s3cret"}}, "", s3cret},
		{"an empty parameter is missing", withQuery, nil, "api_key=", ""},
		{"nothing at all is missing", byDefault, nil, "", ""},
		{"two lines are ambiguous", byDefault, http.Header{"X-Api-Key": {"s3cret", "other"}}, "", ambiguous + "X-API-Key header"},
		{"two lines are not passed over", byDefault, http.Header{"X-Api-Key": {"a", "b"}, "Authorization": {"Bearer s3cret"}}, "", ambiguous + "X-API-Key header"},
		{"two bearer lines are ambiguous", byDefault, http.Header{"Authorization": {"Bearer s3cret", "Bearer other"}}, "", ambiguous + "Authorization header"},
		{"two lines behind a source with a key are ambiguous", byDefault, http.Header{"X-Api-Key": {"s3cret"}, "Authorization": {"a", "b"}}, "", ambiguous + "Authorization header"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			query := must.Get(url.ParseQuery(tt.query))(t)
			wantKey(t, tt.f, &request{headers: tt.headers, query: query}, tt.want)
		})
	}
}

func TestAPIKeyNeverShowsASecret(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"a", "s3cret", "with spaces in it", strings.Repeat("x", 64), hashed("apikey", "s3cret")} {
		key, p := keyfuncs.APIKey().Key(withHeader("X-Api-Key", secret))
		check.All(t, "key of "+secret, []any{key, p}, hashed("apikey", secret), keyfuncs.Present)
	}
}

func TestAPIKeyKeepsNoSourcesOfTheCaller(t *testing.T) {
	t.Parallel()
	sources := []string{"X-A"}
	f := keyfuncs.APIKey(sources...)
	sources[0] = "X-B"
	wantKey(t, f, withHeader("X-A", "s3cret"), hashed("apikey", "s3cret"))
}
