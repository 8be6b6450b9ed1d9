// Package grpc_test runs the programs below it as their readers do.
package grpc_test

import (
	"bufio"
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

func TestTheServersTour(t *testing.T) {
	t.Parallel()
	server, client := build(t, "server"), build(t, "client")
	t.Run("in memory", func(t *testing.T) {
		t.Parallel()
		follow(t, start(t, server, 4), client, "ResourceExhausted")
	})
	t.Run("in Redis", func(t *testing.T) {
		t.Parallel()
		redis := redistest.StartTCP(t)
		follow(t, start(t, server, 4, "REDIS_URL=redis://"+redis.Addr()+"/0"), client, "ResourceExhausted")
		keys, err := redis.Client(t).Keys(t.Context(), "weblimit:*").Result()
		if err != nil || len(keys) == 0 {
			t.Errorf("keys in Redis: %v, %v", keys, err)
		}
	})
	t.Run("a REDIS_URL that is none is an error", func(t *testing.T) {
		t.Parallel()
		out, err := command(t, server, "REDIS_URL=localhost 6379").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "REDIS_URL must be like redis://") {
			t.Errorf("%v, %s", err, out)
		}
	})
}

// The limits of the server are those of HTTP clients, and headers that look like metadata do not
// make somebody another client.
func TestTheGatewaysTour(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	tour := start(t, build(t, "server"), 4, "PROXY=127.0.0.1")
	addr := regexp.MustCompile(`localhost:\d+`).FindString(tour[0])
	tour = start(t, build(t, "gateway"), 3, "SERVER="+strings.Replace(addr, "localhost", "127.0.0.1", 1))
	for i := range tour {
		tour[i] = strings.ReplaceAll(tour[i], "localhost", "127.0.0.1")
	}
	follow(t, tour, "", "429")
}

func build(t *testing.T, name string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, "./"+name).CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

// command runs program on a free port until the test ends.
func command(t *testing.T, program string, env ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(append(os.Environ(), "ADDR=127.0.0.1:0", "REDIS_URL="), env...)
	return cmd
}

// start starts a program and returns the commands that it prints.
func start(t *testing.T, program string, commands int, env ...string) (tour []string) {
	t.Helper()
	cmd := command(t, program, env...)
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
	for len(tour) < commands && lines.Scan() {
		if strings.HasPrefix(lines.Text(), "  ") {
			tour = append(tour, lines.Text())
		}
	}
	if len(tour) < commands {
		t.Fatalf("the program prints %q: %v", tour, lines.Err())
	}
	return tour
}

var (
	promise = regexp.MustCompile(`^  (.*\S)\s+# (\w+)(?:, then (\w+))?(?:: (.*?))?(?: \([^)]*\))?$`)
	status  = regexp.MustCompile(`HTTP/\S+ (\d{3})|(?m)^([A-Z]\w+)(?:,.*| ".*)?$`) // of curl, and of the client
)

// follow runs the commands of a tour. "OK, then Denied: text (remark)" means these statuses in this
// order, and the text in the output. One of them must be denied.
//
// On a busy machine, buckets refill meanwhile, and a Redis that takes longer than a limiter waits for, a tenth of
// a second, is stood in for by a bucket in the process. A command that should be denied, and has taken two
// of these since the one before began, is run again if it is not, and may be denied at once from then on.
func follow(t *testing.T, tour []string, client, denied string) {
	t.Helper()
	reached, before := false, time.Now()
	for _, line := range tour {
		promised := promise.FindStringSubmatch(line)
		if promised == nil {
			t.Fatalf("%q does not say what comes back", line)
		}
		began := time.Now()
		last := cmp.Or(promised[3], promised[2])
		reached = reached || last == denied
		for tries := 1; ; tries++ {
			statuses, out, err := run(t, strings.ReplaceAll(promised[1], "go run ./client", client))
			kept := err == nil && len(statuses) > 0 && (tries > 1 || statuses[0] == promised[2]) &&
				slices.Contains(statuses, last) && strings.Contains(out, promised[4])
			if kept {
				if promised[3] == "" && tries == 1 && slices.ContainsFunc(statuses, func(s string) bool { return s == denied && s != last }) {
					t.Errorf("%s\nalso denies\n%s", line, out)
				}
				break
			}
			if err != nil || last != denied || tries == 20 || time.Since(before) < 200*time.Millisecond {
				t.Errorf("%s\nstatuses %v, %v\n%s", line, statuses, err, out)
				break
			}
		}
		before = began
	}
	if !reached {
		t.Error("the tour reaches no limit")
	}
}

// run runs a command and returns the statuses in what it prints.
func run(t *testing.T, command string) (statuses []string, out string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	text, err := exec.CommandContext(ctx, "sh", "-c", command).Output()
	for _, found := range status.FindAllStringSubmatch(string(text), -1) {
		statuses = append(statuses, found[1]+found[2])
	}
	return statuses, string(text), err
}
