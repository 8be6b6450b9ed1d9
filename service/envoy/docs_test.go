package envoy_test

import (
	"context"
	"log"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"

	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/service/envoy"
)

// serve is the code of docs/service/envoy.md.
func serve(ctx context.Context, redis *redis.Client, http *http.ServeMux) {
	server, err := envoy.New(envoy.Config{
		Source:   envoy.Directory("/etc/ratelimit/config"),
		Store:    redisstore.New(redis),
		Replicas: 3, // processes that share Redis
	})
	if err != nil {
		log.Fatal(err) // everything that is wrong with the files
	}
	stop := server.Watch(ctx) // changes of the files
	defer stop()

	g := grpc.NewServer()
	server.Register(g) // and grpc.health.v1
	http.Handle("POST /json", server.JSON())
	http.Handle("GET /healthcheck", server.Healthcheck())
	http.Handle("GET /metrics", server.Metrics())
}

var _ = serve

// The code and the messages of docs/service/envoy.md are those of this package.
func TestDocs(t *testing.T) {
	t.Parallel()
	page := plainLines(t, "../../docs/service/envoy.md")
	for _, block := range []struct{ file, from, to string }{
		{"docs_test.go", "\tserver, err := envoy.New", "}"},
		{"example_test.go", "\t// weblimit: envoy: edge.yaml:4:5", "}"},
	} {
		found := false
		for _, line := range plainLines(t, block.file) {
			if strings.HasPrefix(line, block.from) {
				found = true
			}
			if found && line == block.to {
				break
			}
			if line = strings.TrimPrefix(strings.TrimPrefix(line, "\t"), "// "); found && !slices.Contains(page, line) {
				t.Errorf("docs/service/envoy.md lacks the line %q of %s", line, block.file)
			}
		}
		if !found {
			t.Errorf("%s has no line %q", block.file, block.from)
		}
	}
}

func plainLines(t *testing.T, name string) []string {
	t.Helper()
	return strings.Split(string(must.Get(os.ReadFile(name))(t)), "\n")
}
