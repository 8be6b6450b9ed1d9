package keyfuncs_test

import (
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// withPath is a request for a path.
type withPath struct {
	keyfuncs.Values
	path string
}

func (r withPath) Path() string { return r.path }

func TestPaths(t *testing.T) {
	t.Parallel()
	c := keyfuncs.Paths("/healthz", "/api/*", "/")
	must.OK(t, c.Err())
	for path, want := range map[string]keyfuncs.Answer{
		"/":                  keyfuncs.Yes,
		"/healthz":           keyfuncs.Yes,
		"/api/users":         keyfuncs.Yes,
		"/api/users/1":       keyfuncs.Yes,
		"/api":               keyfuncs.No,
		"/apis/1":            keyfuncs.No,
		"/healthz2":          keyfuncs.No,
		"/login":             keyfuncs.No,
		"/caf%C3%A9":         keyfuncs.No,
		"/caf\u00e9":         keyfuncs.No,
		"/x?/healthz":        keyfuncs.No,
		"/healthz/../login":  keyfuncs.No,
		"/healthz%2f..":      keyfuncs.Unknown, // of "/"
		"/healthz/":          keyfuncs.Unknown,
		"//healthz":          keyfuncs.Unknown,
		"/HEALTHZ":           keyfuncs.Unknown,
		"/%68ealthz":         keyfuncs.Unknown,
		"/%2568ealthz":       keyfuncs.Unknown,
		"/x/../healthz":      keyfuncs.Unknown,
		"/healthz;v=1":       keyfuncs.Unknown,
		`/x\..\healthz`:      keyfuncs.Unknown,
		"/healthz%00":        keyfuncs.Unknown,
		"/healthz%00/x":      keyfuncs.Unknown,
		"/api//users":        keyfuncs.Unknown,
		"/API/users":         keyfuncs.Unknown,
		"/api/../api/users":  keyfuncs.Unknown,
		"/login/%2e%2e/api/": keyfuncs.Unknown, // as "/api/" may be
		"":                   keyfuncs.Unknown,
	} {
		check.Equal(t, path, c.Ask(withPath{path: path}), want)
	}
	for _, bad := range [][]string{nil, {""}, {"healthz"}, {"/*"}, {"/a/"}, {"/a//b"}, {"/a/../b"}, {"/%61"}, {"/a*"}, {"/*/a"}, {"/a;b"}, {"/a b"}, {"/caf\u00e9"}} {
		if keyfuncs.Paths(bad...).Err() == nil {
			t.Errorf("Paths(%q): no error", bad)
		}
	}
}

func TestPathsAllocateNothing(t *testing.T) {
	var r keyfuncs.Request = withPath{path: "/api/users"}
	c := keyfuncs.Paths("/api/*")
	if n := testing.AllocsPerRun(100, func() { c.Ask(r) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
