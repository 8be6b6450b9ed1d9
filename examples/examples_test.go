// Package examples_test runs the example programs as their readers do.
package examples_test

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/internal/test/redistest"
)

var programs = []string{"nethttp", "chi", "gin", "echo", "echo5", "fiber", "fiber3"}

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode) // for the whole process: tests that run beside each other must not set it
	os.Exit(redistest.Main(m))
}

func TestExamples(t *testing.T) {
	t.Parallel()
	for _, name := range programs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := build(t, name)
			t.Run("in memory", func(t *testing.T) {
				t.Parallel()
				reachLimits(t, start(t, program, ""))
			})
			t.Run("in Redis", func(t *testing.T) {
				t.Parallel()
				server := redistest.StartTCP(t)
				reachLimits(t, start(t, program, "redis://"+server.Addr()+"/0"))
				keys, err := server.Client(t).Keys(t.Context(), "weblimit:*").Result()
				if err != nil || len(keys) == 0 {
					t.Errorf("keys in Redis: %v, %v", keys, err)
				}
			})
			t.Run("a REDIS_URL that is none is an error", func(t *testing.T) {
				t.Parallel()
				cmd := command(t, program, "localhost 6379")
				out, err := cmd.CombinedOutput()
				if err == nil || !strings.Contains(string(out), "REDIS_URL must be like redis://") {
					t.Errorf("%v, %s", err, out)
				}
			})
		})
	}
}

// The API's own tests reach its limits; this one runs it as a program.
func TestTheAPIStarts(t *testing.T) {
	t.Parallel()
	url := start(t, build(t, "api"), "")
	status, header, body := request(t, "GET", url+"/articles")
	if status != 200 || body != "done\n" || header.Get("X-RateLimit-Limit") != "1000" || header.Get("RateLimit-Policy") != `"reads";q=1000;w=10` {
		t.Errorf("%d %q, headers %v", status, body, header)
	}
	for range 5 {
		if status, _, _ := request(t, "POST", url+"/login"); status != 200 {
			t.Errorf("one of five logins: %d", status)
		}
	}
	if status, _, _ := request(t, "POST", url+"/login"); status != 429 {
		t.Errorf("the sixth login: %d", status)
	}
}

// The other programs start, too; their own tests reach their limits.
func TestTheOthersStart(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		path   string
		status int
		policy string
	}{
		"llm":     {"/generate", 401, `"address";q=600;w=60`},
		"login":   {"/login", 400, `"login";q=5;w=900`},
		"exports": {"/export", 200, `"exports";q=2;qu="concurrent-requests"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t, build(t, name), "")
			status, header, body := request(t, "POST", url+want.path)
			if status != want.status || header.Get("RateLimit-Policy") != want.policy {
				t.Errorf("status %d, RateLimit-Policy %q, %s; want %d and %q", status, header.Get("RateLimit-Policy"), body, want.status, want.policy)
			}
		})
	}
}

// The program at the top of the README listens where PORT says, as gin does, and answers
// what stands below it.
func TestHelloStarts(t *testing.T) {
	t.Parallel()
	program := build(t, "hello")
	responses, took := helloSays(t, program)
	for tries := 1; took > 10*time.Second && tries < 10; tries++ { // so slow that the bucket has refilled
		responses, took = helloSays(t, program)
	}
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, console, _ := strings.Cut(string(page), "```console\n$ curl")
	console, _, _ = strings.Cut(console, "\n```\n")
	first, sixth, both := strings.Cut(console, "\n$ curl")
	if !both {
		t.Fatal("README does not show two responses")
	}
	for shown, got := range map[string]string{first: responses[0], sixth: responses[5]} {
		_, shown, _ = strings.Cut(shown, "\n") // the command
		for line := range strings.Lines(shown) {
			if line = seconds.ReplaceAllString(strings.TrimSuffix(line, "\n"), "${1}N"); !strings.Contains("\n"+got+"\n", "\n"+line+"\n") {
				t.Errorf("README shows %q, which is not in\n%s", line, got)
			}
		}
	}
	if !strings.HasPrefix(responses[4], "HTTP/1.1 200 OK\n") {
		t.Errorf("the fifth request: %s", responses[4])
	}
}

// helloSays starts the program at the top of the README and returns six responses, and how long they took.
func helloSays(t *testing.T, program string) (responses []string, took time.Duration) {
	t.Helper()
	port := freePort(t)
	cmd := command(t, program, "")
	cmd.Env = append(cmd.Env, "PORT="+port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	began := time.Now()
	for range 6 {
		res, err := http.Get("http://127.0.0.1:" + port + "/") //nolint:noctx // the client of a test, on loopback
		if err != nil {
			t.Fatal(err)
		}
		dump, err := httputil.DumpResponse(res, true)
		_ = res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		responses = append(responses, seconds.ReplaceAllString(strings.ReplaceAll(string(dump), "\r\n", "\n"), "${1}N"))
	}
	return responses, time.Since(began)
}

// freePort returns a port that is free now, and below those of outgoing connections, of which one could
// take it before the program does.
func freePort(t *testing.T) string {
	t.Helper()
	for try := 1; ; try++ {
		port := strconv.Itoa(6000 + rand.IntN(2000))
		listener, err := net.Listen("tcp", ":"+port) // as gin does
		if err == nil {
			_ = listener.Close()
			return port
		}
		if try == 20 {
			t.Fatal(err)
		}
	}
}

// seconds are what a slow machine may shorten.
var seconds = regexp.MustCompile(`(;t=|Retry-After: |Retry in )\d+`)

func TestProgramsAreShort(t *testing.T) {
	t.Parallel()
	for _, name := range programs {
		source, err := os.ReadFile(filepath.Join(name, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(string(source), "\n"); lines >= 60 {
			t.Errorf("%s has %d lines, want fewer than 60", name, lines)
		}
	}
}

func build(t *testing.T, name string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), filepath.Base(name))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, ".")
	cmd.Dir = name // which may be a module of its own
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

// command runs program on a free port until the test ends.
func command(t *testing.T, program, redisURL string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), "ADDR=127.0.0.1:0", "REDIS_URL="+redisURL)
	return cmd
}

var curl = regexp.MustCompile(`curl .*http://(?:localhost|127\.0\.0\.1)(:\d+)/`)

// start starts program and returns its URL, which is in what it prints.
func start(t *testing.T, program, redisURL string) string {
	t.Helper()
	first, _ := startAndRead(t, program, redisURL)
	return "http://127.0.0.1" + curl.FindStringSubmatch(first)[1]
}

// startAndRead starts program and returns the first line with a curl command that it
// prints, and a scanner over what it prints behind it.
func startAndRead(t *testing.T, program, redisURL string) (first string, rest *bufio.Scanner) {
	t.Helper()
	cmd := command(t, program, redisURL)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if curl.MatchString(lines.Text()) {
			return lines.Text(), lines
		}
	}
	t.Fatalf("the program does not say where it listens: %v", lines.Err())
	return "", nil
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
	r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	content, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(content)
}
