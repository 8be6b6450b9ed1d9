package client_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/stdhttp"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/service/client"
)

// Limits for outages are not asked while the service answers, so nothing is known of their keys.
func TestNoAdviceOnLimitsThatAreNotAsked(t *testing.T) {
	t.Parallel()
	var logs bytes.Buffer
	away := core.PerHour(3).By(keyfuncs.User("user")).Named("not-asked").OnMissingKey(core.SkipLimit)
	c := newClient(t, client.Config{URL: serve(t).URL, Send: client.Fields{Headers: []string{"X-Api-Key"}}, OnOutage: client.OnOutage{Limits: []core.Limit{away}}})
	l, err := c.Limiter(core.Config{Store: c.Store(), Logger: slog.New(slog.NewTextHandler(&logs, nil))}, "key")
	check.OK(t, err)
	for range 20 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		check.OK(t, err)
		r.Header.Set("X-Api-Key", "a")
		l.Allow(stdhttp.Of(r))
	}
	check.Equal(t, "the log", logs.String(), "")
}
