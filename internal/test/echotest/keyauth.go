package echotest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Echo's KeyAuth tries every line of a header, every cookie and every parameter
// of a name. Whichever holds the right key, the limit counts it or refuses the request.
func (s suite[C, M]) keyAuth(t *testing.T) {
	const quota, tries = 10, 200
	for _, tt := range []struct {
		lookup string
		key    keyfuncs.Func
		send   func(values ...string) (path string, header []string)
	}{
		{"header:X-API-Key", keyfuncs.APIKey("X-API-Key"), lines("X-API-Key", "")},
		{"header:Authorization:Bearer ", keyfuncs.APIKey("Authorization"), lines("Authorization", "Bearer ")},
		{"query:key", keyfuncs.APIKey("?key"), func(values ...string) (string, []string) { return "/?key=" + strings.Join(values, "&key="), nil }},
		{"cookie:sid", keyfuncs.Cookie("sid"), func(values ...string) (string, []string) {
			return "/", []string{"Cookie", "sid=" + strings.Join(values, "; sid=")}
		}},
	} {
		for _, limit := range []core.Limit{
			core.PerDay(quota).By(tt.key),
			core.PerDay(quota).By(tt.key).OnMissingKey(core.SkipLimit),
			core.PerDay(quota).By(keyfuncs.First(keyfuncs.User("user"), tt.key, keyfuncs.ClientIP())),
		} {
			for _, inFront := range []bool{true, false} {
				auth := s.f.KeyAuth(tt.lookup, func(key string) bool { return key == "s3cret" })
				e, ran := s.app(), 0
				if inFront {
					e.Use(s.f.Limit(core.NewMemory(), limit), auth)
				} else {
					e.Use(auth, s.f.Limit(core.NewMemory(), limit))
				}
				e.Route("GET", "/", func(c C) error {
					ran++
					return c.NoContent(http.StatusNoContent)
				})
				for i := range tries {
					other := fmt.Sprint("other", i)
					path, header := tt.send([][]string{
						{"s3cret"}, {"s3cret", other}, {other, "s3cret"}, {"s3cret", "s3cret", other}, {"", "s3cret"},
					}[i%5]...)
					ask(e, "GET", path, header...)
				}
				if ran > quota || ran == 0 {
					t.Errorf("%s, limiter in front %v: %d of %d passed, want %d", tt.lookup, inFront, ran, tries, quota)
				}
			}
		}
	}
}

// lines puts each value on a line of its own.
func lines(name, prefix string) func(values ...string) (string, []string) {
	return func(values ...string) (string, []string) {
		var header []string
		for _, value := range values {
			header = append(header, name, prefix+value)
		}
		return "/", header
	}
}
