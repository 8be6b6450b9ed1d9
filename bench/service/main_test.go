//go:build linux

package service

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/redistest"
)

var (
	measures = flag.Bool("bench-service", false, "measure; without it, each way is only tried")
	rounds   = flag.Int("rounds", 5, "rounds of each measurement")
	length   = flag.Duration("length", time.Second, "how long each way is measured in a round")
	soak     = flag.Duration("soak", 5*time.Second, "how long the soak lasts")
	serveApp = flag.String("app", "", "be the application behind nginx, on this Redis, instead of running tests")
)

// weblimitd and peer are programs that TestMain has built.
var weblimitd, peer string

func TestMain(m *testing.M) {
	flag.Parse()
	if *serveApp != "" {
		fmt.Fprintln(os.Stderr, runApp(*serveApp))
		os.Exit(1)
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "where")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	weblimitd, peer = filepath.Join(dir, "weblimitd"), filepath.Join(dir, "ratelimit")
	here, err := os.Getwd()
	if err == nil { // as their own tests build them, so that a build is done once
		err = errors.Join(
			build(filepath.Join(here, "../../cmd/weblimitd"), []string{"CGO_ENABLED=0"}, "-trimpath", "-o", weblimitd, "."),
			build(here, nil, "-o", peer, "github.com/envoyproxy/ratelimit/src/service_cmd"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return redistest.Main(m)
}

func build(dir string, env []string, args ...string) error {
	cmd := exec.Command("go", append([]string{"build"}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building in %s: %w: %s", dir, err, out)
	}
	return nil
}
