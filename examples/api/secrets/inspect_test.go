package secrets

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/inspect"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/metrics/top"
)

// password is the operator's.
const password = "0perator-" + marker

// openInspect has operators look clients up and act on them, and emits the log, with what strangers are
// answered. Operators are shown keys: that is what the page is for.
func openInspect(t *testing.T, store core.Store) *sink {
	heavy := top.New(top.Config{})
	t.Cleanup(heavy.Close)
	return &sink{observer: heavy, emitted: func() string {
		log := new(child.Output)
		page := must.Get(inspect.New(inspect.Config{
			Store: store, Top: heavy, Logger: slog.New(slog.NewJSONHandler(log, nil)),
			Users: []inspect.User{{Name: "olga", Password: password, May: inspect.Act}, {Name: "vic", Password: "vic-" + password, May: inspect.Read}},
		}))(t)
		defer page.Close()
		statuses := map[int]int{}
		ask := func(name, with, method, path, body string) {
			r, w := httptest.NewRequest(method, "http://localhost/"+path, strings.NewReader(body)), httptest.NewRecorder()
			r.Header.Set("Weblimit-Inspect", "1")
			r.Header.Set("Content-Type", "application/json")
			if name != "" {
				r.SetBasicAuth(name, with)
			}
			page.ServeHTTP(w, r)
			statuses[w.Code]++
			if w.Code == http.StatusUnauthorized || w.Code == http.StatusForbidden {
				fmt.Fprintln(log, w.Header(), w.Body)
			}
		}
		for _, who := range [][2]string{{"olga", password}, {"vic", "vic-" + password}, {"olga", marker + "-another-password"}, {marker, password}, {"", ""}} {
			for _, secret := range []string{user, goodKey, badKey, address, address6, "user:" + user, "ip:" + address, "user:" + marker, marker + "\n"} {
				ask(who[0], who[1], "POST", "api/v1/explain", fmt.Sprintf(`{"query":%q}`, secret))
				ask(who[0], who[1], "POST", "api/v1/reset", fmt.Sprintf(`{"key":%q,"limit":"login"}`, secret))
				ask(who[0], who[1], "POST", "api/v1/block", fmt.Sprintf(`{"key":%q,"limit":"login","seconds":60}`, secret))
				ask(who[0], who[1], "POST", "api/v1/block", fmt.Sprintf(`{"key":"k","limit":%q,"seconds":60}`, secret))
				ask(who[0], who[1], "POST", "api/v1/unblock", fmt.Sprintf(`{"key":%q}`, secret))
				ask(who[0], who[1], "POST", "api/v1/explain", fmt.Sprintf(`{%q:1}`, secret))
			}
			for _, path := range []string{"", "api/v1/overview", "api/v1/blocks", "api/v1/health", "api/v1/clients?limit=" + marker} {
				ask(who[0], who[1], "GET", path, "")
			}
		}
		for _, status := range []int{200, 400, 401, 403, 404} {
			if statuses[status] == 0 {
				t.Errorf("no request to the page was answered with %d: %v", status, statuses)
			}
		}
		return log.String()
	}}
}
