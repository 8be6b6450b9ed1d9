// Package examples_test runs the example programs as their readers do.
package examples_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/program"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

func TestMain(m *testing.M) {
	wait.Beside(8)
	gin.SetMode(gin.TestMode) // for the whole process: tests that run beside each other must not set it
	os.Exit(redistest.Main(m))
}

// build builds all programs but those in the folder grpc, and returns the folder that has them.
func build(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	programs := []string{"./hello"}
	for _, name := range slices.Concat(frameworks, slices.Collect(maps.Keys(others)), slices.Collect(maps.Keys(larger))) {
		programs = append(programs, "./"+name)
	}
	must.OK(t, program.Build(dir, ".", programs...))
	return dir
}

// frameworks are the programs that show one framework each. They have the same limits.
var frameworks = []string{"nethttp", "chi", "gin", "echo", "echo5", "fiber", "fiber3"}

// others are the other servers, with a request and its answer. Their own tests reach their limits.
var others = map[string]struct {
	request string
	status  int
	policy  string
	limit   string // X-RateLimit-Limit
}{
	"api":     {"GET /articles", 200, `"reads";q=1000;w=10`, "1000"},
	"llm":     {"POST /v1/messages", 401, `"address";q=600;w=60`, ""},
	"login":   {"POST /login", 400, `"login";q=5;w=900`, ""},
	"payouts": {"GET /payouts/1", 404, `"requests";q=30;w=60`, ""},
	"exports": {"POST /export", 200, `"exports";q=2;qu="concurrent-requests"`, ""},
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	program.NeedCurl(t)
	dir, server := build(t), redistest.StartTCP(t)
	run := func(name, what string, test func(t *testing.T, file string)) {
		t.Run(name+"/"+what, func(t *testing.T) {
			t.Parallel()
			test(t, filepath.Join(dir, name))
		})
	}
	for name, want := range others {
		run(name, "tour", func(t *testing.T, file string) { followTour(t, name, program.Start(t, program.Command(file))) })
		run(name, "first answer", func(t *testing.T, file string) {
			method, path, _ := strings.Cut(want.request, " ")
			status, header, body := request(t, method, start(t, file)+path)
			got := fmt.Sprint(status, " ", header.Get("RateLimit-Policy"), " ", header.Get("X-RateLimit-Limit"))
			check.Equal(t, body, got, fmt.Sprint(want.status, " ", want.policy, " ", want.limit))
		})
	}
	for i, name := range frameworks {
		run(name, "tour", func(t *testing.T, file string) { followTour(t, name, program.Start(t, program.Command(file))) })
		run(name, "in memory", func(t *testing.T, file string) { reachLimits(t, start(t, file)) })
		run(name, "in Redis", func(t *testing.T, file string) {
			reachLimits(t, start(t, file, fmt.Sprintf("REDIS_URL=redis://%s/%d", server.Addr(), i)))
			keys, err := server.ClientWith(t, &redis.Options{DB: i}).Keys(t.Context(), "weblimit:*").Result()
			if err != nil || len(keys) == 0 {
				t.Errorf("keys in Redis: %v, %v", keys, err)
			}
		})
		run(name, "a REDIS_URL that is none is an error", func(t *testing.T, file string) {
			out, err := program.Command(file, "REDIS_URL=localhost 6379").CombinedOutput()
			if err == nil || !strings.Contains(string(out), "REDIS_URL must be like redis://") {
				t.Errorf("%v, %s", err, out)
			}
		})
	}
	for name, want := range larger {
		run(name, "first answer", func(t *testing.T, file string) { endsByItself(t, name, file, want) })
	}
	run("hello", "README", saysWhatREADMEShows)
}

// followTour follows the tour that a program prints, and that its source has.
func followTour(t *testing.T, folder string, running *program.Running) {
	t.Helper()
	source := must.Get(os.ReadFile(filepath.Join(folder, "main.go")))(t)
	program.Follow(t, running.Tour(strings.Count(string(source), "\n  "))) // code is indented by tabs
}

func TestProgramsAreShort(t *testing.T) {
	t.Parallel()
	for _, name := range frameworks {
		source := must.Get(os.ReadFile(filepath.Join(name, "main.go")))(t)
		if lines := strings.Count(string(source), "\n"); lines >= 60 {
			t.Errorf("%s has %d lines, want fewer than 60", name, lines)
		}
	}
}

// start starts a program and returns its URL, which is in what it prints.
func start(t *testing.T, file string, env ...string) string {
	t.Helper()
	return strings.Replace(program.Start(t, program.Command(file, env...)).URL("curl "), "localhost", "127.0.0.1", 1)
}

// reachLimits does what the program prints.
func reachLimits(t *testing.T, url string) {
	t.Helper()
	status, header, body := request(t, "GET", url+"/")
	if status != 200 || body != "hello\n" || header.Get("RateLimit-Policy") != `"client";q=5;w=10` || header.Get("RateLimit") != `"client";r=4;t=8` {
		t.Errorf("first: %d %q, headers %v", status, body, header)
	}
	// Both limits of the route, before the first one is reached. The first has
	// refilled by what time has passed.
	_, header, body = request(t, "POST", url+"/export")
	if body != "exported\n" || !strings.HasSuffix(header.Get("RateLimit"), `, "export";r=1;t=30`) {
		t.Errorf("export: %q, headers %v", body, header)
	}
	until429(t, "POST", url+"/export", "export")
	until429(t, "GET", url+"/", "client")
}

// until429 asks until it is denied by a limit. That may take some requests more
// than its quota: a slow machine refills buckets, and a Redis on it that takes
// longer than the limiter waits is stood in for by a bucket in the process.
func until429(t *testing.T, method, url, limit string) {
	t.Helper()
	for range 50 {
		status, header, body := request(t, method, url)
		if status == 200 {
			continue
		}
		if status != 429 || !strings.Contains(body, `"violated-policies":["`+limit+`"]`) ||
			header.Get("Content-Type") != "application/problem+json" || header.Get("Retry-After") == "" {
			t.Errorf("%s %s: %d %s, headers %v", method, url, status, body, header)
		}
		return
	}
	t.Errorf("%s %s: never denied", method, url)
}

func request(t *testing.T, method, url string) (status int, header http.Header, body string) {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), method, url, http.NoBody))(t)
	res := must.Get(http.DefaultClient.Do(r))(t)
	defer res.Body.Close()
	return res.StatusCode, res.Header, string(must.Get(io.ReadAll(res.Body))(t))
}
