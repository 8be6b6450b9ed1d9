package inspect_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/inspect"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/metrics/top"
	"github.com/weblimit/weblimit/nethttp"
)

func ExampleNew() {
	store := core.NewMemory()
	heavy := top.New(top.Config{})
	defer heavy.Close()
	limits := nethttp.With(core.Config{Store: store, Observe: heavy})
	perUser := core.PerMinute(2).By(keyfuncs.Header("X-User")).Named("per-user")

	page, err := inspect.New(inspect.Config{
		Store: store,
		Top:   heavy,
		Users: []inspect.User{{Name: "ops", Password: "from a secret store", May: inspect.Act}},
	})
	if err != nil {
		panic(err)
	}
	defer page.Close()
	mux := http.NewServeMux()
	mux.Handle("/ops/limits/", page)
	mux.Handle("/", limits.Limit(perUser)(http.NotFoundHandler()))
	server := httptest.NewServer(mux)
	defer server.Close()

	ask := func(method, path, body string) string {
		r, _ := http.NewRequest(method, server.URL+path, strings.NewReader(body))
		r.Header.Set("X-User", "42")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Weblimit-Inspect", "1")
		r.SetBasicAuth("ops", "from a secret store")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			panic(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		_, summary, _ := strings.Cut(string(text), `"summary":"`)
		summary, _, _ = strings.Cut(summary, " A cost")
		return strings.TrimSpace(fmt.Sprint(res.StatusCode, " ", summary))
	}
	for range 3 {
		fmt.Println(ask("GET", "/", ""))
	}
	fmt.Println(ask("POST", "/ops/limits/api/v1/explain", `{"query":"42"}`))
	fmt.Println(ask("POST", "/ops/limits/api/v1/reset", `{"key":"header.x-user:42"}`))
	fmt.Println(ask("GET", "/", ""))
	// Output:
	// 404
	// 404
	// 429
	// 200 Denied by per-user. All 2 used, and 2 come back per 1m.
	// 200
	// 404
}
