package redistest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/lent"
	"github.com/weblimit/weblimit/internal/test/must"
)

// The tests of this package look at processes that it starts itself.
func TestMain(m *testing.M) {
	_ = os.Unsetenv(lent.Variable)
	os.Exit(Main(m))
}

func TestSharedIsOneServerThatAnswers(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	check.Equal(t, "PING", s.Client(t).Ping(t.Context()).Val(), "PONG")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if again := Shared(t); again != s {
				t.Errorf("another server: %s and %s", s.Addr(), again.Addr())
			}
		})
	}
	wg.Wait()
}

func TestStartGivesEachTestItsOwnServer(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a, b := Start(t), StartTCP(t)
	if a.Network() != "unix" || b.Network() != "tcp" {
		t.Errorf("networks %s and %s, want unix and tcp", a.Network(), b.Network())
	}
	must.OK(t, a.Client(t).Set(ctx, "k", "v", 0).Err())
	if err := b.Client(t).Get(ctx, "k").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("the other server's answer: %v, want redis.Nil", err)
	}
}

func TestStartArgumentsWin(t *testing.T) {
	t.Parallel()
	c := Start(t, "--maxmemory", "2mb", "--databases", "1").Client(t)
	for name, want := range map[string]string{
		"maxmemory": "2097152", "databases": "1", "save": "", "appendonly": "no",
	} {
		check.Equal(t, name, c.ConfigGet(t.Context(), name).Val()[name], want)
	}
}

func TestStartReportsTheLogOfAServerThatExits(t *testing.T) {
	t.Parallel()
	requireBinary(t)
	_, err := start(unixSocket, []string{"--no-such-option", "1"})
	if err == nil || !strings.Contains(err.Error(), "no-such-option") || !strings.Contains(err.Error(), "FATAL") {
		t.Errorf("error %v, want the server's own words", err)
	}
}

func TestServerWithPasswordCountsAsUp(t *testing.T) {
	t.Parallel()
	s := Start(t, "--requirepass", "secret")
	if err := s.Client(t).Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("PING without the password: %v, want NOAUTH", err)
	}
}

func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	requireBinary(t) // the subtest that starts a server would skip alone
	var s *Server
	t.Run("a test that ends", func(t *testing.T) {
		s = Start(t)
	})
	if err := s.cmd.Process.Signal(os.Interrupt); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal to the process: %v, want %v", err, os.ErrProcessDone)
	}
	if _, err := net.Dial(s.Network(), s.Addr()); err == nil {
		t.Error("the socket still accepts")
	}
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory: %v, want %v", err, os.ErrNotExist)
	}
	running.Lock()
	_, listed := running.servers[s]
	running.Unlock()
	if listed {
		t.Error("still listed as running")
	}
	s.Stop() // twice does nothing
}

func TestRestartComesBackEmptyAtTheSameAddress(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, s := range map[string]*Server{"unix": Start(t), "tcp": StartTCP(t)} {
		c := s.Client(t)
		must.OK(t, c.Set(ctx, "k", "v", 0).Err())
		s.Kill()
		if err := c.Ping(ctx).Err(); err == nil {
			t.Errorf("%s: a killed server answers", name)
		}
		s.Restart(t)
		// A client of its own: the pool of c may still be backing off.
		if n, err := s.Client(t).DBSize(ctx).Result(); n != 0 || err != nil {
			t.Errorf("%s: DBSIZE after Restart = %d, %v", name, n, err)
		}
	}
}

func TestFreezeSilencesUntilThaw(t *testing.T) {
	t.Parallel()
	s := Start(t)
	c := redis.NewClient(&redis.Options{
		Network: s.Network(), Addr: s.Addr(), MaxRetries: -1,
		ReadTimeout: 50 * time.Millisecond, ContextTimeoutEnabled: true,
	})
	defer c.Close()
	s.Freeze(t)
	if err := c.Ping(t.Context()).Err(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("PING while frozen: %v, want a timeout", err)
	}
	s.Thaw(t)
	if err := s.Client(t).Ping(t.Context()).Err(); err != nil {
		t.Errorf("PING after Thaw: %v", err)
	}
	s.Freeze(t) // and the cleanup stops it all the same
}

func TestStartClusterServesAllSlotsAndRefusesTwoInOneCall(t *testing.T) {
	t.Parallel()
	s := StartCluster(t)
	ctx := t.Context()
	node := s.Client(t)
	if info := node.ClusterInfo(ctx).Val(); !strings.Contains(info, "cluster_slots_ok:16384") {
		t.Errorf("CLUSTER INFO:\n%s", info)
	}
	if err := node.MSet(ctx, "{a}1", 1, "{b}1", 1).Err(); err == nil || !strings.HasPrefix(err.Error(), "CROSSSLOT") {
		t.Errorf("MSET over two slots: %v, want CROSSSLOT", err)
	}
	cluster := s.ClusterClient(t)
	for i := range 32 {
		must.OK(t, cluster.Set(ctx, fmt.Sprint("k", i), i, 0).Err())
	}
}

func TestCommandstatsCountsCalls(t *testing.T) {
	t.Parallel()
	s := Start(t)
	c := impatient(t, s) // which sends nothing twice
	ctx := t.Context()
	for range 3 {
		must.OK(t, c.Eval(ctx, "return redis.call('INCR', KEYS[1])", []string{"k"}).Err())
	}
	_ = c.Do(ctx, "incr").Err() // refused: a wrong number of arguments
	stats := s.Commandstats(t)
	if stats["eval"].Calls != 3 || stats["incr"].Calls != 3 {
		t.Errorf("eval %d, incr %d, want 3 and 3; all: %v", stats["eval"].Calls, stats["incr"].Calls, stats)
	}
	check.Equal(t, "evalsha", s.Calls(t, "evalsha"), 0)
}

func TestParseCommandstats(t *testing.T) {
	t.Parallel()
	const info = "# Commandstats\r\ncmdstat_get:calls=2,usec=9\r\ncmdstat_client|setinfo:calls=41,usec=1\r\n"
	got, err := parseCommandstats(info)
	if err != nil || len(got) != 2 || got["get"].Calls != 2 || got["client|setinfo"].Calls != 41 {
		t.Errorf("parseCommandstats = %v, %v", got, err)
	}
	for _, bad := range []string{"cmdstat_get", "cmdstat_get:calls=x,usec=1", "cmdstat_get:usec=1"} {
		if got, err := parseCommandstats(bad); err == nil {
			t.Errorf("parseCommandstats(%q) = %v, want an error", bad, got)
		}
	}
}

func TestPrefixIsUniqueShortAndPlain(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i := range 20 {
		t.Run(fmt.Sprintf("{braces} and a long name %d", i), func(t *testing.T) {
			p := Prefix(t)
			if seen[p] {
				t.Errorf("%q twice", p)
			}
			seen[p] = true
			if len(p) > 16 || strings.Trim(p, "abcdefghijklmnopqrstuvwxyz0123456789.:") != "" || !strings.HasSuffix(p, ":") {
				t.Errorf("prefix %q", p)
			}
		})
	}
	if a, b := Prefix(t), Prefix(t); a == b {
		t.Errorf("two calls of one test both got %q", a)
	}
}

func TestFreePortHasItsBusPort(t *testing.T) {
	t.Parallel()
	for range 20 {
		p := must.Get(freePort())(t)
		if p < 1024 || p+busOffset > 65_535 {
			t.Errorf("port %d", p)
		}
	}
}

func TestAPortIsTakenOnce(t *testing.T) {
	t.Parallel()
	p := must.Get(freePort())(t)
	for _, port := range []int{p, p + busOffset} {
		if take(port) {
			t.Errorf("port %d is taken twice", port)
		}
		if runtime.GOOS != "linux" {
			continue
		}
		socket, _ := taken.LoadAndDelete(port) // another process has a list of its own
		if take(port) {
			t.Errorf("port %d is taken by two processes", port)
		}
		runtime.KeepAlive(socket)
	}
}

// Not parallel: it changes the environment.
func TestTempDirIsShortWhereTheSystemsIsNot(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no /tmp")
	}
	deep := filepath.Join(t.TempDir(), strings.Repeat("d", 100))
	must.OK(t, os.MkdirAll(deep, 0o700))
	t.Setenv("TMPDIR", deep)
	dir := must.Get(tempDir())(t)
	defer os.RemoveAll(dir)
	if n := len(filepath.Join(dir, socketName)); n > maxSocketPath {
		t.Errorf("socket path of %d bytes in %s", n, dir)
	}
	if left, err := os.ReadDir(deep); len(left) != 0 || err != nil {
		t.Errorf("left in TMPDIR: %v, %v", left, err)
	}
}

// outcome records how a test that needs redis-server ended.
type outcome struct {
	testing.TB
	skipped, failed bool
}

func (o *outcome) Helper()               {}
func (o *outcome) Skip(...any)           { o.skipped = true; runtime.Goexit() }
func (o *outcome) Fatalf(string, ...any) { o.failed = true; runtime.Goexit() }

// Not parallel: it changes the environment.
func TestWithoutRedisTestsSkipLocallyAndFailInCI(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(programVariable, "")
	for ci, want := range map[string]outcome{
		"":      {skipped: true},
		"false": {skipped: true},
		"true":  {failed: true},
	} {
		if testing.Short() {
			want = outcome{skipped: true}
		}
		t.Setenv("CI", ci)
		var got outcome
		var wg sync.WaitGroup
		wg.Go(func() { Start(&got) })
		wg.Wait()
		if got != want {
			t.Errorf("CI=%q: skipped %v, failed %v", ci, got.skipped, got.failed)
		}
	}
}

// Not parallel: it changes the environment.
func TestAServerThatIsNamedAndMissingFailsEverywhere(t *testing.T) {
	t.Setenv("CI", "")
	t.Setenv(programVariable, filepath.Join(t.TempDir(), "redis-server"))
	var got outcome
	var wg sync.WaitGroup
	wg.Go(func() { Start(&got) })
	wg.Wait()
	if want := (outcome{failed: !testing.Short(), skipped: testing.Short()}); got != want {
		t.Errorf("skipped %v, failed %v", got.skipped, got.failed)
	}
}

func TestSharedWantsMain(t *testing.T) {
	defer underMain.Store(underMain.Swap(false))
	requireBinary(t)
	var got noMain
	var wg sync.WaitGroup
	wg.Go(func() { Shared(&got) })
	wg.Wait()
	check.Contains(t, "Shared without Main said", got.message, "TestMain")
}

// noMain records what Shared says where nobody called Main.
type noMain struct {
	testing.TB
	message string
}

func (n *noMain) Helper()        {}
func (n *noMain) Fatal(v ...any) { n.message = fmt.Sprint(v...); runtime.Goexit() }
