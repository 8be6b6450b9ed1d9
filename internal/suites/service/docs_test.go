package service_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/documents"
	windows "github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
	"github.com/weblimit/weblimit/service"
	"github.com/weblimit/weblimit/service/client"
)

// The code of docs/service/http.md.

func serve(mux *http.ServeMux, set core.Policies, store core.Store) error {
	s, err := service.New(service.Config{Policies: set, Store: store})
	if err != nil {
		return err
	}
	mux.Handle("/v1/", s.Handler())
	return nil
}

func decideRemotely(server *http.Server, mux *http.ServeMux) error {
	remote, err := client.New(client.Config{
		URL:      "unix:///run/weblimit/api.sock",
		Send:     client.Fields{Headers: []string{"X-API-Key"}, Values: []string{"user", "plan"}},
		OnOutage: client.OnOutage{Limits: []core.Limit{core.PerMinute(60).By(keyfuncs.ClientIP()).Named("stand-in")}},
	})
	if err != nil {
		return err
	}
	limits := nethttp.With(core.Config{Store: remote.Store()})
	server.Handler = limits.Policy(remote, "api")(mux)
	return nil
}

func TestTheCodeOfThePageRuns(t *testing.T) {
	t.Parallel()
	server := new(http.Server)
	if err := decideRemotely(server, http.NewServeMux()); err != nil || server.Handler == nil {
		t.Error(err)
	}
	check.OK(t, serve(http.NewServeMux(), load(t, file), core.NewMemory()))
}

// blocks returns the blocks of docs/service/http.md in a language.
func blocks(t *testing.T, language string) (all []string) {
	t.Helper()
	return blocksOf(t, "service/http.md", language)
}

// blocksOf returns those of a page.
func blocksOf(t *testing.T, page, language string) (all []string) {
	t.Helper()
	for _, found := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(documents.Read(t, page), -1) {
		all = append(all, found[1])
	}
	if len(all) == 0 {
		t.Fatalf("the page has no block of %s", language)
	}
	return all
}

// page serves the policy file of the page, and returns its address.
func page(t *testing.T) (base string) {
	t.Helper()
	windows.AwayFrom(time.Hour, 20*time.Second)
	mux := http.NewServeMux()
	must.OK(t, serve(mux, load(t, blocks(t, "yaml")[0]), core.NewMemory()))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skip(name + " is not installed")
	}
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", args[len(args)-1], err, out)
	}
	return string(out)
}

func TestTheCommandsOfThePageRun(t *testing.T) {
	t.Parallel()
	base := page(t)
	for _, block := range blocks(t, "sh") {
		var got map[string]any
		out := run(t, "sh", "-c", strings.ReplaceAll(block, "http://127.0.0.1:9180", base))
		if err := json.Unmarshal([]byte(out), &got); err != nil || got["allowed"] != true {
			t.Errorf("%s\n%s", block, out)
		}
	}
}

func TestThePythonOfThePageRuns(t *testing.T) {
	t.Parallel()
	base := page(t)
	scripts := blocks(t, "python")
	call := `
import json, urllib.request
def call(path, body):
    request = urllib.request.Request("http://127.0.0.1:9180" + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)
`
	patient := strings.Replace(scripts[0], "timeout=0.5", "timeout=60", 1) // for a busy machine
	check := strings.ReplaceAll(patient, "http://127.0.0.1:9180", base)
	for i, want := range []string{"go on, 49 left\n", "go on, 48 left\n"} {
		if out := run(t, "python3", "-c", check); out != want && !strings.HasPrefix(out, "go on, 49") { // time refills
			t.Errorf("number %d: %q, want %q", i+1, out, want)
		}
	}
	settle := strings.ReplaceAll(call+scripts[1], "http://127.0.0.1:9180", base) + `
print(call("/v1/peek", {"policy": "llm", "key": "tenant:acme"})["limits"][0]["remaining"])
`
	if out := run(t, "python3", "-c", strings.ReplaceAll(settle, "http://127.0.0.1:9180", base)); out != "99260\n" {
		t.Errorf("%q remain, want 99260", out)
	}
}

// What the page shows of an answer and of an error is what the service says, but for times.
func TestTheAnswersOfThePageAreThoseOfTheService(t *testing.T) {
	t.Parallel()
	shown := blocks(t, "json")
	var answer, problem map[string]any
	for i, to := range []*map[string]any{&answer, &problem} {
		must.OK(t, json.Unmarshal([]byte(shown[i]), to))
	}
	s := newService(t, func(c *service.Config) { c.Policies = load(t, blocks(t, "yaml")[0]) })
	_, got := post(t, s, "/v1/check", `{"policy":"api","request":{"method":"GET","route":"/items/{id}","client_ip":"192.0.2.1","values":{"tenant":"acme"}}}`)
	if want, is := shape(answer), shape(got); want != is {
		t.Errorf("the page shows\n%s\nand the service says\n%s", want, is)
	}
	if _, got = post(t, s, "/v1/check", `{"polcy":"api"}`); shape(got) != shape(problem) || got["detail"] != problem["detail"] {
		t.Errorf("the page shows\n%v\nand the service says\n%v", problem, got)
	}
}

// shape is a JSON value without times and versions.
func shape(v any) string {
	text, _ := json.Marshal(v)
	return regexp.MustCompile(`("(?:effective_window_ms|reset_ms)":|t=)\d+|"version":"[^"]*"`).ReplaceAllString(string(text), "$1")
}
