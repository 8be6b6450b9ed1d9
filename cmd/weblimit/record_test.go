package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/cmd/weblimit/internal/show"
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/pageapi"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
)

var record = flag.Bool("record", false, "record answers of a real page in testdata, for the output in docs/run/command.md; half a minute")

// recorded are the questions whose answers are in testdata, by the name of the file.
var recorded = map[string]struct{ method, path, body string }{
	"overview": {http.MethodGet, "overview", ""},
	"limits":   {http.MethodGet, "limits", ""},
	"explain":  {http.MethodPost, "explain", `{"query":"ip:192.0.2.7"}`},
	"block":    {http.MethodPost, "block", `{"key":"ip:192.0.2.7","limit":"login","seconds":600}`},
	"blocks":   {http.MethodGet, "blocks", ""},
	"unblock":  {http.MethodPost, "unblock", `{"key":"ip:192.0.2.7"}`},
	"reset":    {http.MethodPost, "reset", `{"key":"user:42"}`},
}

// TestRecord records what the page of an application under load answers.
func TestRecord(t *testing.T) {
	if !*record {
		t.Skip("records with -record only")
	}
	server := redistest.Start(t)
	a := startOn(t, server.Client(t), "weblimit:", "unix://"+server.Addr(),
		core.PerMinute(300).By(keyfuncs.ClientIP()).Named("api"),
		core.PerMinute(10).By(keyfuncs.ClientIP()).Named("login").Penalty(core.Block{After: 1000, Within: time.Hour, For: time.Minute}),
		core.PerMinute(60).By(keyfuncs.ClientIP()).Named("search").Shadow())
	const api, login, search = 0, 1, 2
	one := func(limit int, key string) {
		if d := a.only[limit].AllowKey(t.Context(), key, 1); d.Err != nil {
			t.Fatal(d.Err)
		}
	}
	for range 22 { // seconds
		for i := range 400 {
			one(search, fmt.Sprintf("user:%d", 1000+i*i%397))
		}
		for range 20 {
			one(api, "user:42")
			one(search, "user:7")
			one(api, "ip:192.0.2.7")
		}
		for i := range 12 {
			one(api, fmt.Sprintf("user:%d", 100+i))
		}
		one(login, "ip:192.0.2.7")
		time.Sleep(900 * time.Millisecond) // the page shows rates per second
	}
	time.Sleep(1100 * time.Millisecond) // until the last second is published
	for _, name := range []string{"overview", "limits", "explain", "block", "blocks", "unblock", "reset"} {
		q := recorded[name]
		r := must.Get(http.NewRequestWithContext(t.Context(), q.method, a.onPage.env["WEBLIMIT_URL"]+"/api/v1/"+q.path, strings.NewReader(q.body)))(t)
		r.SetBasicAuth("ops", password)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Weblimit-Inspect", "1")
		res := must.Get(http.DefaultClient.Do(r))(t)
		answer := make([]byte, 0, 1<<20)
		for buf := make([]byte, 1<<16); ; {
			n, err := res.Body.Read(buf)
			answer = append(answer, buf[:n]...)
			if err != nil {
				break
			}
		}
		res.Body.Close()
		text, err := show.JSON(regexp.MustCompile(`"(seconds|minutes)":\{[^}]*\},?`).ReplaceAll(answer, nil))
		if err != nil {
			t.Fatalf("%v in %s", err, answer)
		}
		must.OK(t, os.WriteFile(filepath.Join("testdata", name+".json"), text, 0o600))
	}
}

// replay serves what was recorded.
func replay(t *testing.T) call {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := os.ReadFile(filepath.Join("testdata", filepath.Base(r.URL.Path)+".json"))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text)
	}))
	t.Cleanup(server.Close)
	return call{env: map[string]string{"WEBLIMIT_URL": server.URL}}
}

// Every field that a page answers is one of the types by which the command reads it.
func TestAnswersHaveNoOtherFields(t *testing.T) {
	t.Parallel()
	a := startShared(t)
	a.ask(t, "user:42", 20)
	a.published(t, "user:42", 20)
	for path, to := range map[string]any{
		"overview": new(pageapi.Session), "limits": new(pageapi.Limits), "explain": new(pageapi.Explanation), "blocks": new(pageapi.Blocks), "block": new(pageapi.Done),
	} {
		method, body := http.MethodGet, ""
		switch path {
		case "explain":
			method, body = http.MethodPost, `{"query":"user:42"}`
		case "block":
			method, body = http.MethodPost, `{"key":"user:7","limit":"login","seconds":600}`
		}
		r := must.Get(http.NewRequestWithContext(t.Context(), method, a.onPage.env["WEBLIMIT_URL"]+"/api/v1/"+path, strings.NewReader(body)))(t)
		r.SetBasicAuth("ops", password)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Weblimit-Inspect", "1")
		res := must.Get(http.DefaultClient.Do(r))(t)
		strict := json.NewDecoder(res.Body)
		strict.DisallowUnknownFields()
		if err := strict.Decode(to); err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("%s: %d, %v", path, res.StatusCode, err)
		}
		_ = res.Body.Close()
	}
}
