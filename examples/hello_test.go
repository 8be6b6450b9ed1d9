package examples_test

import (
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/program"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// The program at the top of the README listens where PORT says, as gin does, and answers
// what stands below it.
func saysWhatREADMEShows(t *testing.T, file string) {
	responses, took := helloSays(t, file)
	for tries := 1; took > 10*time.Second && tries < 10; tries++ { // so slow that the bucket has refilled
		responses, took = helloSays(t, file)
	}
	page := string(must.Get(os.ReadFile("../README.md"))(t))
	_, console, _ := strings.Cut(page, "```console\n$ curl")
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

// seconds are what a slow machine may shorten.
var seconds = regexp.MustCompile(`(;t=|Retry-After: |Retry in )\d+`)

// helloSays starts the program at the top of the README and returns six responses, and how long they took.
func helloSays(t *testing.T, file string) (responses []string, took time.Duration) {
	t.Helper()
	port := freePort(t)
	program.Start(t, program.Command(file, "PORT="+port))
	wait.For(t, "the program listens", func() error {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
	began := time.Now()
	for range 6 {
		res := must.Get(http.Get("http://127.0.0.1:" + port + "/"))(t) //nolint:noctx // the client of a test, on loopback
		dump, err := httputil.DumpResponse(res, true)
		_ = res.Body.Close()
		must.OK(t, err)
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
