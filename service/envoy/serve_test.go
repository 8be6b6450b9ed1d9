package envoy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/service/envoy"

	grpccodes "google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

func TestJSON(t *testing.T) {
	t.Parallel()
	s := newServer(t, envoy.Config{}, two)
	for _, tt := range []struct {
		method, body string
		code         int
		want         string
	}{
		{"POST", `{"domain":"edge","descriptors":[{"entries":[{"key":"path","value":"/"}]}]}`, 200, `"overallCode":"OK"`},
		{"POST", `{"domain":"edge","descriptors":[{"entries":[{"key":"path","value":"/"}]}],"hitsAddend":1}`, 200, `"requestsPerUnit":2`},
		{"POST", `{"domain":"edge","descriptors":[{"entries":[{"key":"path","value":"/"}],"isNegativeHits":false}]}`, 429, `"overallCode":"OVER_LIMIT"`},
		{"POST", `{"domain":"edge","descriptors":[{"entries":[{"key":"path","value":"/"}],"isNegativeHits":true}]}`, 200, `"requestsPerUnit":2`},
		{"POST", `{"domain":"edge","descriptors":[]}`, 400, "rate limit descriptor list must not be empty"},
		{"POST", `{"domain":"","descriptors":[{}]}`, 400, "rate limit domain must not be empty"},
		{"POST", `{"domain":"edge","descriptors":[null]}`, 400, ""},
		{"POST", `{`, 400, "Bad Request"},
		{"POST", `{"domain":"<script>","nonsense":1}`, 400, "Bad Request"},
		{"POST", strings.Repeat(" ", 5<<20), 400, "Bad Request"},
		{"GET", "", 405, "Method Not Allowed"},
	} {
		w := httptest.NewRecorder()
		s.JSON().ServeHTTP(w, httptest.NewRequest(tt.method, "/json", strings.NewReader(tt.body)))
		if got := strings.ReplaceAll(w.Body.String(), " ", ""); w.Code != tt.code || !strings.Contains(got, strings.ReplaceAll(tt.want, " ", "")) {
			t.Errorf("%.80s: %d %s, want %d with %s", tt.body, w.Code, got, tt.code, tt.want)
		}
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	s := newServer(t, envoy.Config{}, two)
	h := healthpb.NewHealthClient(connect(t, s))
	check := func(want healthpb.HealthCheckResponse_ServingStatus, code int) {
		t.Helper()
		for _, name := range []string{"", "ratelimit"} {
			if r, err := h.Check(t.Context(), &healthpb.HealthCheckRequest{Service: name}); err != nil || r.GetStatus() != want {
				t.Errorf("health of %q: %v, %v", name, r, err)
			}
		}
		w := httptest.NewRecorder()
		s.Healthcheck().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthcheck", nil))
		check.Equal(t, "/healthcheck", w.Code, code)
	}
	check(healthpb.HealthCheckResponse_SERVING, 200)
	s.Shutdown()
	check(healthpb.HealthCheckResponse_NOT_SERVING, 500)
	wantAnswers(t, direct{s}, request("edge", "user=a"), "OK, OK 4") // after Shutdown
}

// With a Redis that is frozen, answers come before Envoy's deadline, as the policy says.
func TestOutage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		outage core.OutageAction
		want   []string
	}{
		{core.Local, []string{"OK, OK 2", "OK, OK 1", "OK, OK 0", "OVER, OVER 0"}}, // 5 by 2 replicas, rounded up
		{core.Allow, []string{"OK, OK 5", "OK, OK 5", "OK, OK 5", "OK, OK 5"}},
		{core.Deny, []string{"Unavailable", "Unavailable", "Unavailable", "Unavailable"}},
	} {
		t.Run(tt.outage.String(), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			store := redisstore.New(server.Client(t), redisstore.Config{Prefix: redistest.Prefix(t)})
			store.OnEvent(func(core.Event) {})
			long := strings.ReplaceAll(two, "minute", "year") // no window is to end meanwhile
			s := newServer(t, envoy.Config{Store: store, OnOutage: tt.outage, Replicas: 2}, long)
			c := dial(t, s)
			answer := func(user string) string {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				r, err := c.ShouldRateLimit(ctx, request("edge", "user="+user))
				if err != nil {
					return status.Code(err).String()
				}
				return said(r)
			}
			n := 0
			wait.Until(t, "Redis decides in time", func() bool { n++; return answer(fmt.Sprint("before", n)) == "OK, OK 4" })
			server.Freeze(t)
			fastest := time.Hour
			for _, want := range tt.want {
				began := time.Now()
				check.Equal(t, "in an outage", answer("a"), want)
				fastest = min(fastest, time.Since(began))
			}
			if fastest > 500*time.Millisecond { // a busy machine may be late now and then
				t.Errorf("no answer came before %v", fastest)
			}
		})
	}
}

// A caller that has gone is not asked for.
func TestDeadline(t *testing.T) {
	t.Parallel()
	s := newServer(t, envoy.Config{}, two)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check.Equal(t, "code", status.Code(check.ErrorOf(s.ShouldRateLimit(ctx, request("edge", "user=a")))), grpccodes.DeadlineExceeded)
	wantAnswers(t, direct{s}, request("edge", "user=a"), "OK, OK 4") // it was not charged
}

func write2(t *testing.T, name, text string) {
	t.Helper()
	must.OK(t, os.WriteFile(name, []byte(text), 0o600))
}

func perUser(n int) string {
	return fmt.Sprintf("domain: edge\ndescriptors:\n  - {key: user, rate_limit: {unit: day, requests_per_unit: %d}}\n", n)
}

func TestReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write2(t, filepath.Join(dir, "edge.yaml"), perUser(5))
	write2(t, filepath.Join(dir, "notes.txt"), "no limits")
	write2(t, filepath.Join(dir, ".hidden.yaml"), "{")
	s := newServer(t, envoy.Config{Source: envoy.Directory(dir)})
	want := func(user, answer string) {
		t.Helper()
		wantAnswers(t, direct{s}, request("edge", "user="+user), answer)
	}
	want("a", "OK, OK 4")
	first := s.Status()
	// A file that is refused changes nothing.
	write2(t, filepath.Join(dir, "other.yml"), "domain: other\ndescriptors: [{kye: a}]\n")
	err := s.Reload(t.Context())
	var wrong *envoy.Error
	if !errors.As(err, &wrong) || !strings.Contains(err.Error(), `other.yml:2:16: descriptors[0].kye: a descriptor has no field "kye"; did you mean "key"?`) {
		t.Errorf("error %v", err)
	}
	if now := s.Status(); now.Version != first.Version || now.Refused != 1 || now.Err == nil || now.Changes != 0 {
		t.Errorf("status %+v", now)
	}
	want("a", "OK, OK 3")
	// What is used stays used, and one that is lowered counts at once.
	write2(t, filepath.Join(dir, "other.yml"), "domain: other\n")
	write2(t, filepath.Join(dir, "edge.yaml"), perUser(3))
	must.OK(t, s.Reload(t.Context()))
	if now := s.Status(); now.Version == first.Version || now.Err != nil || now.Changes != 1 || now.Domains != 2 || now.Limits != 1 {
		t.Errorf("status %+v", now)
	}
	want("a", "OK, OK 0")
	want("a", "OVER, OVER 0")
	must.OK(t, os.RemoveAll(dir))
	check.Fails(t, "the directory is gone, and nobody says so", s.Reload(t.Context()), "")
	want("b", "OK, OK 2")
}

// A change is followed within some seconds, behind the links of a ConfigMap too.
func TestWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, n := range []int{5, 9} {
		data := filepath.Join(dir, fmt.Sprintf("..version%d", i))
		must.OK(t, os.Mkdir(data, 0o700))
		write2(t, filepath.Join(data, "edge.yaml"), perUser(n))
	}
	link := func(to, name string) {
		t.Helper()
		must.OK(t, errors.Join(os.Symlink(to, filepath.Join(dir, "tmp")), os.Rename(filepath.Join(dir, "tmp"), filepath.Join(dir, name))))
	}
	link("..version0", "..data")
	link(filepath.Join("..data", "edge.yaml"), "edge.yaml")
	s := newServer(t, envoy.Config{Source: envoy.Directory(dir)})
	stop := s.Watch(t.Context())
	defer stop()
	link("..version1", "..data")
	wait.Until(t, "the change is followed", func() bool { return s.Status().Changes == 1 })
	stop()
	wantAnswers(t, direct{s}, request("edge", "user=a"), "OK, OK 8")
}

// While files are reloaded as fast as they can be, no request is lost, and none is decided by half a
// version: both limits of a request have the numbers of one file.
//
// It is not parallel: the memory that others use would count.
func TestReloadUnderLoad(t *testing.T) {
	text := func(n int) string {
		return fmt.Sprintf(`
domain: edge
descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: %d}}
  - {key: path, rate_limit: {unit: day, requests_per_unit: %d}}
`, n, n)
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "edge.yaml")
	write2(t, name, text(1000))
	s := newServer(t, envoy.Config{Source: envoy.Directory(dir)})
	c := dial(t, s)
	ctx, stop := context.WithCancel(t.Context())
	var decided atomic.Int64
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				r, err := c.ShouldRateLimit(t.Context(), request("edge", fmt.Sprint("user=", i%100), "path=/"))
				if err != nil {
					t.Error(err)
					return
				}
				if a, b := r.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit(), r.GetStatuses()[1].GetCurrentLimit().GetRequestsPerUnit(); a != b {
					t.Errorf("half a version: %d and %d", a, b)
					return
				}
				decided.Add(1)
			}
		})
	}
	var memory runtime.MemStats
	var grown uint64
	for i := 0; i < 400 || decided.Load() < 100; i++ {
		written(t, name, text(1000+i%7))
		must.OK(t, s.Reload(t.Context()))
		if i == 100 || i == 399 {
			runtime.GC()
			runtime.ReadMemStats(&memory)
			grown = memory.HeapAlloc - min(grown, memory.HeapAlloc)
		}
		time.Sleep(time.Millisecond) // for the clients
	}
	stop()
	clients.Wait()
	if decided.Load() < 100 || s.Status().Changes < 300 {
		t.Errorf("%d requests, %d changes", decided.Load(), s.Status().Changes)
	}
	if grown > 50<<20 {
		t.Errorf("memory has grown by %d MB", grown>>20)
	}
	check.Equal(t, "digits of the version", len(s.Status().Version), 12)
}

// Ten thousand rules are found by their values. That time grows with them and not with their square is in
// TestTimeGrowsWithTheFile.
func TestManyRules(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("domain: edge\ndescriptors:\n")
	for i := range 10_000 {
		fmt.Fprintf(&text, "  - key: tenant\n    value: t%d\n    rate_limit:\n      unit: hour\n      requests_per_unit: %d\n", i, i+1)
	}
	s := newServer(t, envoy.Config{}, text.String())
	for _, i := range []int{0, 4711, 9999} {
		wantAnswers(t, direct{s}, request("edge", fmt.Sprintf("tenant=t%d", i)), fmt.Sprintf("OK, OK %d", i))
	}
}

// A domain that is misspelled in Envoy's configuration limits nothing, so it is logged: once, and not for as
// many names as callers make up.
func TestUnknownDomainsAreLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := newServer(t, envoy.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, two)
	for i := range 1000 {
		wantAnswers(t, direct{s}, request("egde", "user=a"), "OK, OK 0")
		wantAnswers(t, direct{s}, request(strings.Repeat("x", 1<<10)+fmt.Sprint(i), "user=a"), "OK, OK 0")
		wantAnswers(t, direct{s}, request(fmt.Sprint(i), "user=a"), "OK, OK 0")
	}
	check.Contains(t, "the log", log.String(), `did you mean \"edge\"?" domain=egde known=[edge]`)
	if lines := strings.Count(log.String(), "\n"); lines != 16 || log.Len() > 16<<8 {
		t.Errorf("%d lines, of %d bytes", lines, log.Len())
	}
}

func TestStatistics(t *testing.T) {
	t.Parallel()
	s := newServer(t, envoy.Config{}, `
domain: edge
descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: 10}}
  - key: route
    value_to_metric: true
    descriptors: [{key: method, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 1}, shadow_mode: true}]
  - {key: files, value: "files/*", share_threshold: true, value_to_metric: true, rate_limit: {unit: day, requests_per_unit: 10}}
  - {key: seen, value_to_metric: true, rate_limit: {unit: day, requests_per_unit: 10}}
`)
	for _, d := range []string{"user=a", "route=a\n\"b,method=GET", "route=a\n\"b,method=GET", "files=files/x", "files=files/y", "seen=192.0.2.1"} {
		for range 6 {
			r := request("edge", d)
			r.HitsAddend = 2
			must.Get(s.ShouldRateLimit(t.Context(), r))(t)
		}
	}
	must.Get(s.ShouldRateLimit(t.Context(), request("other", "user=a")))(t)
	_, _ = s.ShouldRateLimit(t.Context(), request(""))
	w := httptest.NewRecorder()
	s.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`ratelimit_service_rate_limit_total_hits{domain="edge",key1="user"} 12`,
		`ratelimit_service_rate_limit_within_limit{domain="edge",key1="user"} 10`,
		`ratelimit_service_rate_limit_near_limit{domain="edge",key1="user"} 2`,
		`ratelimit_service_rate_limit_over_limit{domain="edge",key1="user"} 2`,
		`ratelimit_service_rate_limit_shadow_mode{domain="edge",key1="route_a\n\"b",key2="method_GET"} 24`,
		`ratelimit_service_rate_limit_total_hits{domain="edge",key1="files_files/*"} 24`,
		`ratelimit_service_rate_limit_total_hits{domain="edge",key1="seen_192.0.2.1"} 12`,
		`ratelimit_service_domain_not_found 1`,
		`ratelimit_service_should_rate_limit_error{err_type="service_error"} 1`,
		`ratelimit_service_config_load_success 1`,
	} {
		check.Contains(t, "metrics", w.Body.String(), want+"\n")
	}
	check.Equal(t, "hits", s.Hits()["edge.user"], envoy.Hits{Total: 12, Within: 10, Near: 2, Over: 2})
}
