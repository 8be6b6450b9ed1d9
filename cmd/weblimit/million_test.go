package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

const (
	slowMicros  = 1000 // from which on SLOWLOG notes a command
	publishers  = 20   // instances whose snapshots are read
	attempts    = 20
	yardsticks  = 10
	blockedKeys = 50
)

// keysInRedis is how many clients the test has. MILLION=1 makes it a million; see docs/run/command.md.
func keysInRedis() int {
	if os.Getenv("MILLION") != "" {
		return 1_000_000
	}
	return 100_000
}

// Over a Redis that is full of keys, no command holds Redis up for a millisecond, by its own SLOWLOG. How long top and explain
// take is printed.
//
// SLOWLOG counts the time by the clock, and so also the time in which the machine did
// something else. Therefore a command is slow that takes longer than a millisecond and than each of some yardsticks,
// and all is repeated while there is one that was slow each time: one that does hold Redis up always is, and the machine's
// other work seldom hits the same one of thousands again.
func TestMillionKeys(t *testing.T) {
	server := redistest.Start(t, "--slowlog-log-slower-than", strconv.Itoa(slowMicros), "--slowlog-max-len", "10000")
	rdb := clientOf(t, server)
	a := startOn(t, rdb, "weblimit:", "unix://"+server.Addr())
	a.ask(t, "user:0000000", 20)
	a.published(t, "user:0000000", 20)
	snapshot := a.keep(t)
	n := keysInRedis()
	start := time.Now()
	fill(t, rdb, server.Addr(), n)
	t.Logf("%d keys written in %v", n, time.Since(start).Round(time.Millisecond))
	for i := range blockedKeys {
		must.OK(t, a.limiter.Block(t.Context(), "login", fmt.Sprintf("user:%07d", i*n/blockedKeys), time.Hour))
	}
	for _, args := range [][]string{
		{"top"},
		{"explain", "user:0000000"},
		{"peek", fmt.Sprintf("user:%07d", n/2+1)},
		{"block", fmt.Sprintf("user:%07d", n-2), "--for", "1h", "--limit", "login"},
		{"unblock", fmt.Sprintf("user:%07d", n-2)},
		{"reset", fmt.Sprintf("user:%07d", n-3)},
		{"blocks", "--json"},
	} {
		var slow map[string]string // in each attempt so far
		for attempt := range attempts {
			for i := range publishers {
				must.OK(t, (longLived{a.store.Exchange()}).Publish(t.Context(), "instance-"+strconv.Itoa(i), snapshot, time.Minute))
			}
			before := server.Commandstats(t)
			must.OK(t, rdb.Do(t.Context(), "slowlog", "reset").Err())
			begin := time.Now()
			r := a.onRedis.run(t, args...)
			took := time.Since(begin)
			if r.code != exitOK && r.code != exitDenied {
				t.Fatalf("%s: exit code %d, %s%s", args, r.code, r.err, r.out)
			}
			if blocked := strings.Count(r.out, `"until"`); args[0] == "blocks" && blocked != blockedKeys {
				t.Errorf("blocks lists %d, want %d", blocked, blockedKeys)
			}
			for range yardsticks {
				must.OK(t, rdb.Eval(t.Context(), yardstick, nil).Err())
			}
			now := slowCommands(t, rdb)
			if attempt == 0 {
				slow = now
			}
			maps.DeleteFunc(slow, func(command, _ string) bool { _, again := now[command]; return !again })
			if after := server.Commandstats(t); len(slow) == 0 {
				t.Logf("%-8s %v, attempt %d; by commandstats: %s", args[0], took.Round(time.Millisecond), attempt+1, difference(before, after))
				break
			}
		}
		if len(slow) > 0 {
			t.Errorf("%s: Redis was held up in each of %d attempts, the last time by %v", args, attempts, slow)
		}
	}
}

// keep ends the application's own publishing, and returns its last snapshot with as many clients as
// it may have.
func (a *application) keep(t *testing.T) []byte {
	t.Helper()
	for i := range 3000 {
		a.ask(t, "ip:2001:db8:"+strconv.FormatInt(int64(i), 16)+"::/64", 3)
	}
	var snapshot []byte
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // without which Redis has a second
	defer cancel()
	wait.Until(t, "a large snapshot is published", func() bool {
		snapshots := must.Get(a.store.Exchange().Collect(ctx))(t)
		if len(snapshots) == 1 {
			snapshot = snapshots[0]
		}
		return len(snapshot) > 20<<10
	})
	a.heavy.Close()
	return snapshot
}

// fill writes n clients as the store does: the record of one, copied under the keys of the others,
// through one connection that does not wait for answers.
func fill(t *testing.T, rdb *redis.Client, socket string, n int) {
	t.Helper()
	key := "weblimit:{user:0000000}"
	value, err := rdb.Get(t.Context(), key).Result()
	if err != nil {
		keys, _ := rdb.Keys(context.Background(), "*0000000*").Result()
		t.Fatalf("%v; there are %q", err, keys)
	}
	conn := must.Get(net.Dial("unix", socket))(t)
	defer conn.Close()
	read := make(chan error, 1)
	go func() {
		_, err := io.CopyN(io.Discard, conn, int64(n*len("+OK\r\n")))
		read <- err
	}()
	w := bufio.NewWriterSize(conn, 1<<20)
	for i := range n {
		fmt.Fprintf(w, "*5\r\n$3\r\nSET\r\n$%d\r\nweblimit:{user:%07d}\r\n$%d\r\n%s\r\n$2\r\nPX\r\n$7\r\n3600000\r\n", len(key), i, len(value), value)
	}
	must.OK(t, w.Flush())
	must.OK(t, <-read)
}

// yardstick takes about a millisecond on the machines of today, and longer on one that is slower or has other work.
const yardstick = "local n = 0; for i = 1, 100000 do n = n + i % 7 end; return n"

// slowCommands returns what SLOWLOG has that took longer than each yardstick, by command. SCANs and GETs are told apart, since there are
// thousands of them: SCAN has the same cursors each time while no keys come and go.
func slowCommands(t *testing.T, rdb *redis.Client) map[string]string {
	t.Helper()
	entries := must.Get(rdb.SlowLogGet(t.Context(), -1).Result())(t)
	slow, longest := make(map[string]string), time.Duration(0)
	isYardstick := func(e redis.SlowLog) bool { return len(e.Args) > 1 && e.Args[1] == yardstick }
	for _, e := range entries {
		if isYardstick(e) {
			longest = max(longest, e.Duration)
		}
	}
	for _, e := range entries {
		if e.Duration <= longest {
			continue // a yardstick, or no longer than one
		}
		text := strings.Join(e.Args, " ")
		switch name := strings.ToLower(e.Args[0]); name {
		case "slowlog", "info": // of the test
		case "time": // there are thousands of them, too, and each does nothing but read the clock
		case "scan", "get":
			slow[text] = e.Duration.String()
		default:
			slow[name] = fmt.Sprintf("%.80s: %v", text, e.Duration)
		}
	}
	return slow
}

// difference says which commands ran, and how many microseconds each took on average.
func difference(before, after map[string]redistest.Commandstat) string {
	var all []string
	for name, a := range after {
		b := before[name]
		if calls := a.Calls - b.Calls; calls > 0 && name != "info" && !strings.HasPrefix(name, "slowlog") {
			all = append(all, fmt.Sprintf("%s %d × %d µs", name, calls, (a.Micros-b.Micros)/calls))
		}
	}
	return strings.Join(all, ", ")
}
