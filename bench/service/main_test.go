//go:build linux

package service

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/program"
	"github.com/weblimit/weblimit/internal/test/race"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

var (
	measures = flag.Bool("bench-service", false, "measure; without it, each way is only tried")
	rounds   = flag.Int("rounds", 5, "rounds of each measurement")
	length   = flag.Duration("length", time.Second, "how long each way is measured in a round")
	soak     = flag.Duration("soak", 3*time.Second, "how long the soak lasts")
	serveApp = flag.String("app", "", "be the application behind nginx, on this Redis, instead of running tests")
	least    = flag.String("least", "", "be the least services, one of which asks this Redis, instead of running tests")
)

// weblimitd and peer are programs that TestMain has built.
var weblimitd, peer string

func TestMain(m *testing.M) {
	flag.Parse()
	if *serveApp != "" {
		fmt.Fprintln(os.Stderr, runApp(*serveApp))
		os.Exit(1)
	}
	if *least != "" {
		fmt.Fprintln(os.Stderr, runLeast(*least))
		os.Exit(1)
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "where")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		weblimitd, peer = filepath.Join(dir, "weblimitd"), filepath.Join(dir, "service_cmd")
		if !race.Enabled {
			err = os.Setenv("CGO_ENABLED", "0") // as weblimitd is installed
		}
		err = errors.Join(err,
			program.Build(dir, "../../cmd/weblimitd", "."),
			program.Build(dir, ".", "github.com/envoyproxy/ratelimit/src/service_cmd"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return redistest.Main(m)
}
