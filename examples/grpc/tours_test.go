// Package grpc_test runs the programs below it as their readers do.
package grpc_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/program"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

func TestTours(t *testing.T) {
	t.Parallel()
	program.NeedCurl(t)
	dir, redis := t.TempDir(), redistest.StartTCP(t)
	must.OK(t, program.Build(dir, ".", "./server", "./client", "./gateway"))
	start := func(t *testing.T, name string, commands int, env ...string) (tour []string) {
		t.Helper()
		tour = program.Start(t, program.Command(dir+"/"+name, env...)).Tour(commands)
		for i := range tour {
			tour[i] = strings.NewReplacer("go run ./client", dir+"/client", "localhost", "127.0.0.1").Replace(tour[i])
		}
		return tour
	}
	for name, test := range map[string]func(t *testing.T){
		"the server's in memory": func(t *testing.T) { program.Follow(t, start(t, "server", 4)) },
		"the server's in Redis": func(t *testing.T) {
			program.Follow(t, start(t, "server", 4, "REDIS_URL=redis://"+redis.Addr()+"/0"))
			keys, err := redis.Client(t).Keys(t.Context(), "weblimit:*").Result()
			if err != nil || len(keys) == 0 {
				t.Errorf("keys in Redis: %v, %v", keys, err)
			}
		},
		// The limits of the server are those of HTTP clients, and headers that look like metadata do not
		// make somebody another client.
		"the gateway's": func(t *testing.T) {
			server := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(start(t, "server", 4, "PROXY=127.0.0.1")[0])
			program.Follow(t, start(t, "gateway", 3, "SERVER="+server))
		},
		"a REDIS_URL that is none is an error": func(t *testing.T) {
			out, err := program.Command(dir+"/server", "REDIS_URL=localhost 6379").CombinedOutput()
			if err == nil || !strings.Contains(string(out), "REDIS_URL must be like redis://") {
				t.Errorf("%v, %s", err, out)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}
