// Package observed runs examples/observed for the tests and pictures of other modules, as its
// readers do: as a program.
package observed

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/documents"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/program"
)

// Shop is the running program.
type Shop struct {
	URLs     []string // of its instances: two on Redis
	Password string   // of the user ops
}

var (
	page  = regexp.MustCompile(`(http://\S+)/ops/limits/|^Log in`)
	login = regexp.MustCompile(`password (\S+)`)
)

// Start builds and starts the program, in memory if redisAddr is "", and stops it when the test ends.
func Start(tb testing.TB, redisAddr string) (s Shop) {
	tb.Helper()
	dir := tb.TempDir()
	must.OK(tb, program.Build(dir, filepath.Join(documents.Root, "examples/observed"), "."))
	running := program.Start(tb, program.Command(filepath.Join(dir, "observed"), "REDIS_ADDR="+redisAddr))
	for s.Password == "" {
		line := running.Line(page)
		if strings.HasPrefix(line, "Log in") {
			s.Password = login.FindStringSubmatch(line)[1]
		} else {
			s.URLs = append(s.URLs, page.FindStringSubmatch(line)[1])
		}
	}
	running.Line(regexp.MustCompile("^Ctrl-C"))
	return s
}
