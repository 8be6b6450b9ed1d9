package main_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// A policy is removed and comes back under load. From then on, callers get 404 and gateways 500, and
// decisions again once it is back. Other policies don't notice.
func TestAPolicyIsRemovedUnderLoad(t *testing.T) {
	t.Parallel()
	with := onePolicy("with", 100_000_000)
	without := strings.NewReplacer("api:", "other:", `"with"`, `"without"`).Replace(with)
	file := write(t, "limits.yaml", with)
	in := start(t, nil, "--log-denials=false", "--policy", file)
	base := "http://" + in.data
	ctx, stop := context.WithCancel(t.Context())
	var statuses [600]atomic.Int64
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				time.Sleep(5 * time.Millisecond) // more than some hundred a second finds nothing more
				a, status, err := decide(context.WithoutCancel(ctx), client, base, "192.0.2.1")
				if err != nil || status == http.StatusOK && (!a.Allowed || !strings.HasPrefix(a.Version, "with#")) {
					t.Errorf("%+v %d %v", a, status, err)
					return
				}
				statuses[status].Add(1)
			}
		})
	}
	for i := range long.Rounds(8, 20) {
		for _, c := range []struct {
			text           string
			check, gateway int
		}{{without, 404, 500}, {with, 200, 200}} {
			rewrite(t, file, c.text)
			if status, body := in.do(t, http.MethodPost, "/reload", "Weblimit-Inspect", "1"); status != 200 {
				t.Fatalf("reload %d: %d %s", i, status, body)
			}
			if _, status, err := decide(t.Context(), http.DefaultClient, base, "192.0.2.2"); err != nil || status != c.check {
				t.Fatalf("reload %d: a caller gets %d %v, want %d", i, status, err, c.check)
			}
			must.Equal(t, fmt.Sprintf("reload %d: a gateway gets", i), subrequest(t, base, "192.0.2.3"), c.gateway)
		}
	}
	stop()
	load.Wait()
	for status := range statuses {
		if n := statuses[status].Load(); n > 0 && status != 200 && status != 404 {
			t.Errorf("%d answers with %d", n, status)
		}
	}
	if got := in.metric(t, `weblimit_policy_info{version="`+in.version(t)+`"}`); got == "" || got == "0" {
		t.Errorf("policy_info has %q limiters of the version that decides", got)
	}
}

// version is the version that decides, as metrics have it.
func (in *instance) version(t *testing.T) string {
	t.Helper()
	a, status, err := decide(t.Context(), http.DefaultClient, "http://"+in.data, "192.0.2.4")
	if err != nil || status != http.StatusOK {
		t.Fatal(status, err)
	}
	return a.Version
}

// A policy that gateways can't ask is no error, since others may ask it. The log says so at the start, and
// when the file changes.
func TestPoliciesThatGatewaysCanNotAsk(t *testing.T) {
	t.Parallel()
	running := "policies: {jobs: {limits: {running: {limit: concurrent 5, by: user}}}}\n"
	file := write(t, "limits.yaml", running)
	in := start(t, nil, "--policy", file)
	wants(t, in.log.String(), "gateways get an error for this policy", "jobs", "running")
	rewrite(t, file, strings.ReplaceAll(running, "jobs", "batch"))
	if status, body := in.do(t, http.MethodPost, "/reload", "Weblimit-Inspect", "1"); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	wait.Until(t, "the log names the new policy", func() bool { return strings.Contains(in.log.String(), "batch") }) // it comes through a pipe
	passes(t, "gateways get an error")(inside(nil, "--check", "--policy", file))
}

// A check, and the line with which the service begins, say which file was read and how much is in it: a
// file without limits, or the wrong one, is seen.
func TestTheStartSaysWhatWasLoaded(t *testing.T) {
	t.Parallel()
	file := write(t, "limits.yaml", "version: v7\npolicies:\n  api: {limits: {a: {limit: 1/s, by: everyone}, b: {limit: 1/s, by: user}}}\n  web: {limits: {c: {limit: 1/s, by: user}}}\n...\n")
	dir := filepath.Dir(write(t, "edge.yaml", edge+"...\n"))
	code, out := inside(nil, "--check", "--end-mark", "--policy", file, "--envoy-config", dir)
	if code != 0 {
		t.Fatal(out)
	}
	wants(t, out, "ok: policy "+file+", version v7#", ": 2 policies, 3 limits; envoy "+dir+": 1 domain, ")
	in := start(t, nil, "--policy", file)
	if loaded := in.line(t, "weblimitd: serving")["loaded"]; !strings.HasSuffix(loaded.(string), ": 2 policies, 3 limits") {
		t.Errorf("the line of the start says %q", loaded)
	}

	by := "by: ip without client_ip in api, b is the address that a gateway or caller names: where that is a proxy's, all clients behind it share one bucket"
	text := "policies:\n  api: {limits: {a: {limit: 1/s, by: ip}}}\n  b: {limits: {b: {limit: 1/s, by: [ip, route]}}}\n" +
		"  found: {client_ip: {hops: 1}, limits: {c: {limit: 1/s, by: ip}}}\n  web: {limits: {d: {limit: 1/s, by: user}}}\n"
	rewrite(t, file, text)
	if _, out := inside(nil, "--check", "--policy", file); !strings.Contains(out, by) {
		t.Errorf("a check of limits by ip without client_ip says %q", out)
	}
	if loaded := start(t, nil, "--policy", file).line(t, "weblimitd: serving")["loaded"]; !strings.Contains(loaded.(string), by) {
		t.Errorf("the line of the start says %q", loaded)
	}
	rewrite(t, file, "defaults: {client_ip: {hops: 1}}\n"+text)
	if _, out := inside(nil, "--check", "--policy", file); strings.Contains(out, "client_ip") {
		t.Errorf("a check of limits by ip with client_ip in the defaults says %q", out)
	}

	rewrite(t, file, onePolicy("v8", 1))
	fails(t, `does not end with the line "..."`)(inside(nil, "--check", "--end-mark", "--policy", file))
	fails(t, `does not end with the line "..."`)(inside(nil, "--check", "--end-mark", "--envoy-config", envoyFolder(t)))
}
