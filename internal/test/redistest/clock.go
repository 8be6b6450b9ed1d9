package redistest

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/must"
)

//go:embed testdata/clock.c
var clockSource []byte

// Clock is the clock of a server, which a test sets.
type Clock struct {
	file *os.File
}

// StartWithClock starts a server whose clock the test sets. It skips the test where that can't be done: it needs Linux, a
// C compiler and a redis-server that takes the time from the C library.
func StartWithClock(tb testing.TB) (*Server, *Clock) {
	tb.Helper()
	compiler, err := exec.LookPath("cc")
	if runtime.GOOS != "linux" || err != nil {
		tb.Skip("no server whose clock can be set: that needs Linux and a C compiler named cc")
	}
	dir := tb.TempDir()
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	must.OK(tb, os.WriteFile(source, clockSource, 0o600))
	if out, err := exec.CommandContext(tb.Context(), compiler, "-shared", "-fPIC", "-O2", "-o", library, source).CombinedOutput(); err != nil {
		tb.Fatalf("%s: %v\n%s", compiler, err, out)
	}
	c := &Clock{file: must.Get(os.Create(filepath.Join(dir, "clock")))(tb)}
	tb.Cleanup(func() { _ = c.file.Close() })
	c.SetAhead(tb, time.Hour)
	s := Start(tb)
	s.setEnv("WEBLIMIT_CLOCK="+c.file.Name(), "LD_PRELOAD="+library)
	s.Restart(tb)
	now := must.Get(s.Client(tb).Time(tb.Context()).Result())(tb)
	if d := time.Until(now); d < 59*time.Minute || d > time.Hour {
		tb.Skipf("this redis-server takes the time from elsewhere than clock_gettime and gettimeofday: it is %v ahead, and not an hour", d)
	}
	c.SetAhead(tb, 0)
	return s, c
}

// SetAhead sets the clock to that of the machine and a duration more, for commands that begin later.
func (c *Clock) SetAhead(tb testing.TB, d time.Duration) {
	tb.Helper()
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], uint64(d.Microseconds()))
	must.Do(c.file.WriteAt(b[:], 0))(tb)
}

// setEnv sets what is added to the environment of later processes of the server.
func (s *Server) setEnv(env ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.env = env
}
