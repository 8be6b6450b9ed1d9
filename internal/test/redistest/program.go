package redistest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
)

// programVariable is the environment variable that names the server to test with.
const programVariable = "REDIS_SERVER"

// Program returns the server that tests start: what the environment variable REDIS_SERVER
// names, a path or a name in PATH, such as valkey-server. Defaults to "redis-server".
func Program() string { return cmp.Or(os.Getenv(programVariable), "redis-server") }

// requireBinary ends the test if there is no redis-server: it skips on a developer's
// machine, and fails where CI=true. It fails everywhere if REDIS_SERVER names a program that
// can't be run. With -short it skips every test.
func requireBinary(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("redistest: -short runs nothing that needs Redis")
	}
	_, err := exec.LookPath(Program())
	switch {
	case err == nil:
	case os.Getenv(programVariable) != "":
		tb.Fatalf("redistest: %s: %v", programVariable, err)
	case errors.Is(err, exec.ErrNotFound) && os.Getenv("CI") != "true":
		tb.Skip("redistest: no " + Program() + " in PATH; `make test` installs it")
	default:
		tb.Fatalf("redistest: %v", err)
	}
}

// Since skips the test if the server is older than that version of Redis, which brought what
// the test needs:
//
//	redistest.Since(t, 6, 0, "ACLs")
//
// Valkey continues Redis 7.2 and has what that has. What weblimit itself needs has no Since.
func Since(tb testing.TB, major, minor int, feature string) {
	tb.Helper()
	if Before(tb, major, minor) {
		tb.Skipf("redistest: %s need Redis %d.%d or later, which %s is not", feature, major, minor, Program())
	}
}

// Before reports whether the server is older than that version, for what it answers in another way.
func Before(tb testing.TB, major, minor int) bool {
	tb.Helper()
	requireBinary(tb)
	v := must.Get(version())(tb)
	return v.before(major, minor)
}

// release is a version of Redis or Valkey. Their development branches are 255.255.
type release struct{ major, minor int }

func (r release) before(major, minor int) bool {
	return r.major < major || r.major == major && r.minor < minor
}

// versionOf is in what Redis and Valkey print: "Redis server v=5.0.14 sha=00000000:0 …".
var versionOf = regexp.MustCompile(` v=(\d+)\.(\d+)`)

// version asks the program once.
var version = sync.OnceValues(func() (release, error) {
	out, err := exec.Command(Program(), "--version").Output()
	if err != nil {
		return release{}, fmt.Errorf("redistest: %s --version: %w", Program(), err)
	}
	return parseVersion(string(out))
})

func parseVersion(text string) (release, error) {
	found := versionOf.FindStringSubmatch(text)
	if found == nil {
		return release{}, fmt.Errorf("redistest: no version in %q", text)
	}
	major, err1 := strconv.Atoi(found[1])
	minor, err2 := strconv.Atoi(found[2])
	return release{major, minor}, errors.Join(err1, err2)
}
