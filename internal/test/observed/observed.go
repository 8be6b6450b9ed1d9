// Package observed runs examples/observed for the tests and pictures of other modules, as its
// readers do: as a program.
package observed

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/documents"
)

// Shop is the running program.
type Shop struct {
	URLs     []string // of its instances: two on Redis
	Password string   // of the user ops
}

var (
	page  = regexp.MustCompile(`(http://\S+)/ops/limits/`)
	login = regexp.MustCompile(`ops, password (\S+)`)
	last  = regexp.MustCompile(`^Ctrl-C`)
)

// Start builds and starts the program, in memory if redisAddr is "", and stops it when the test ends.
func Start(tb testing.TB, redisAddr string) Shop {
	tb.Helper()
	program := filepath.Join(tb.TempDir(), "observed")
	folder := filepath.Join(documents.Root, "examples/observed/server")
	if out, err := exec.CommandContext(tb.Context(), "go", "-C", folder, "build", "-buildvcs=false", "-o", program, ".").CombinedOutput(); err != nil {
		tb.Fatalf("go build: %v\n%s", err, out)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "ADDR=127.0.0.1:0", "REDIS_URL=", "REDIS_ADDR="+redisAddr)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := child.Start(cmd); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill() // it fails only on a process that is gone already
		_ = cmd.Wait()
	})
	var s Shop
	for lines := bufio.NewScanner(stdout); ; {
		if !lines.Scan() {
			tb.Fatalf("the program ends before it says where it listens: %v", lines.Err())
		}
		if found := page.FindStringSubmatch(lines.Text()); found != nil && len(s.Password) == 0 {
			s.URLs = append(s.URLs, found[1])
		}
		if found := login.FindStringSubmatch(lines.Text()); found != nil {
			s.Password = found[1]
		}
		if last.MatchString(lines.Text()) {
			return s
		}
	}
}
