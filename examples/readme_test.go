package examples_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/internal/test/documents"
	"github.com/weblimit/weblimit/keyfuncs"
)

// The code of the README comes from the functions below, that of docs from other files
// beside this one, and from packages that have what a page imports: TestBlocksAreCompiled looks for
// each block in these files, which are compiled.

func readmeStore() core.Store {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	store := redisstore.New(rdb, redisstore.Config{Prefix: "shop:"}) // another one for each application
	return store
}

func readmeLimits(r *gin.Engine, store core.Store, monitoring string, authenticate, export gin.HandlerFunc) *gin.RouterGroup {
	limits := ginlimit.With(core.Config{
		Store:   store,
		Headers: core.Draft11 | core.XRateLimit,
		Bypass: []keyfuncs.Condition{
			keyfuncs.Routes("GET /healthz", "GET /readyz"),
			keyfuncs.Tokens("X-Bypass-Token", monitoring),
		},
	})

	// All requests.
	r.Use(limits.Limit(core.PerSecond(100).By(keyfuncs.ClientIP()).Named("address")))

	// A group.
	api := r.Group("/api", authenticate, limits.Limit(
		core.PerSecond(60).Burst(120).By(keyfuncs.User("customer")).Named("customer"),
		core.PerDay(100_000).FixedWindow().By(keyfuncs.User("customer")).Named("daily"),
		core.PerSecond(5000).By(keyfuncs.Everyone()).Named("global"),
	))

	// One route, where a request costs ten units.
	api.POST("/export", limits.Limit(
		core.PerSecond(20).By(keyfuncs.User("customer")).Cost(10).Named("export")), export)
	return api
}

func itemID(c *gin.Context) string { return c.Param("id") }

func readmeKeys() []core.Limit {
	perUser := core.PerMinute(300).By(keyfuncs.User("user")).Named("user")
	perRoute := core.PerMinute(60).By(keyfuncs.ClientIP(), keyfuncs.Route()).Named("route")
	either := core.PerMinute(100).By(keyfuncs.First(keyfuncs.User("user"), keyfuncs.ClientIP())).Named("client")
	perItem := core.PerMinute(60).By(ginlimit.Key("item", itemID)).Named("item") // of a *gin.Context
	return []core.Limit{perUser, perRoute, either, perItem}
}

// The limits of the README work together, on one store, as they stand there.
func TestReadmeCodeRuns(t *testing.T) {
	t.Parallel()
	_ = readmeStore() // talks to no server yet
	readmeLimits(gin.New(), core.NewMemory(), "monitoring-0123456789", func(*gin.Context) {}, func(*gin.Context) {})
	core.ForLimits(core.NewMemory(), readmeKeys())
}

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// Each block of Go in the README, docs and all other pages is in a file that is compiled.
func TestBlocksAreCompiled(t *testing.T) {
	t.Parallel()
	var compiled []string
	for _, pattern := range []string{
		"*_test.go", "*/main.go", "*/docs_test.go", "api/secrets/operations_test.go", "../quota/*_test.go", "../quota/*/*_test.go", "../core/pgstore/example_test.go",
		"../bench/migrate/*_test.go", "../deploy/gateways/tyk/*.go",
		"../internal/suites/service/docs_test.go", "../internal/suites/service/pages_test.go", "../internal/suites/service/where_test.go", "../service/envoy/docs_test.go", "../grpclimit/grpclimittest/*_test.go", "../llmlimit/*_test.go", "../llmlimit/mcp/*_test.go", "llm/*.go",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			compiled = append(compiled, flat(string(source)))
		}
	}
	blocks := 0
	documents.Pages(t, "..", func(page, text string) {
		for _, block := range goBlock.FindAllStringSubmatch(text, -1) {
			blocks++
			code := flat(block[1])
			if !slices.ContainsFunc(compiled, func(source string) bool { return strings.Contains(source, code) }) {
				t.Errorf("this block of %s is in no file that is compiled:\n%s", page, block[1])
			}
		}
	})
	if blocks < 10 {
		t.Errorf("only %d blocks of Go in the README and docs", blocks)
	}
}

// flat returns source without indentation and blank lines.
func flat(source string) string {
	var b strings.Builder
	for line := range strings.Lines(source) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}
