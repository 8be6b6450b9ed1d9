package inspect_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/inspect"
	"github.com/weblimit/weblimit/internal/test/check"
)

type explanation struct {
	Keys []struct {
		Key, Label, State, Summary, Error string
		Unused                            []string
		Limits                            []struct {
			Limit, State, Why string
			Used, Remaining   int64
			LastDenial        *struct{ Why string } `json:"last_denial"`
		}
	}
}

type blockList struct {
	Blocks []struct{ Limit, Key, Label string }
}

// within waits until a user's request is answered with a status, at most a second: as many pauses as
// that has, however late a busy machine ends each. The last request comes a little later, when no denial of
// before is repeated any more, even if the message that ends it is late.
func (in *instance) within(t *testing.T, user string, status int) {
	t.Helper()
	const pause, most = 20 * time.Millisecond, 1200 * time.Millisecond
	for range most / pause {
		if in.request(user) == status {
			return
		}
		time.Sleep(pause) // Redis tells the other instance by a message, which nobody can wait for
	}
	if in.request(user) == status {
		return
	}
	t.Fatalf("a second later, the request of %s is not answered with %d", user, status)
}

// tenMinutes are what is left of ten minutes, some time later.
var tenMinutes = regexp.MustCompile(`^Denied by per-user\. Blocked for another (10m|9m\d+s)\.`)

func TestABlockIsInForceOnAllInstancesWithinASecond(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, a, b core.Store) {
		one, other := start(t, a), start(t, b)
		other.within(t, "mallory", http.StatusOK)

		var done struct {
			Limits []string
			Until  time.Time
		}
		one.must(t, "POST", "api/v1/block", `{"key":"header.x-user:mallory","limit":"per-user","seconds":600}`, &done)
		if left := time.Until(done.Until); left < 9*time.Minute || left > 10*time.Minute {
			t.Errorf("blocked until %v, in %v", done.Until, left)
		}
		other.within(t, "mallory", http.StatusTooManyRequests)
		other.within(t, "alice", http.StatusOK)

		var list blockList
		other.must(t, "GET", "api/v1/blocks", "", &list)
		if len(list.Blocks) != 1 || list.Blocks[0].Key != "header.x-user:mallory" || !strings.Contains(list.Blocks[0].Label, "Mallory") {
			t.Errorf("the other instance lists %+v", list.Blocks)
		}
		var e explanation
		other.must(t, "POST", "api/v1/explain", `{"query":"mallory"}`, &e)
		if len(e.Keys) != 1 || e.Keys[0].State != "blocked" || !tenMinutes.MatchString(e.Keys[0].Summary) {
			t.Errorf("the other instance explains %+v", e.Keys)
		}

		one.must(t, "POST", "api/v1/unblock", `{"key":"header.x-user:mallory"}`, &done)
		other.within(t, "mallory", http.StatusOK)
		one.must(t, "GET", "api/v1/blocks", "", &list)
		check.Equal(t, "blocks after the end of the block", len(list.Blocks), 0)
	})
}

func TestAResetIsInForceOnAllInstancesWithinASecond(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, a, b core.Store) {
		one, other := start(t, a), start(t, b)
		for range 5 {
			other.request("eve")
		}
		other.within(t, "eve", http.StatusTooManyRequests)
		one.must(t, "POST", "api/v1/reset", `{"key":"header.x-user:eve","limit":"per-user"}`, nil)
		other.within(t, "eve", http.StatusOK)
	})
}

func TestTheListOfBlocksShowsActionsAtOnce(t *testing.T) {
	t.Parallel()
	in := start(t, memstore.New())
	var list blockList
	for _, user := range []string{"a", "b"} {
		in.must(t, "GET", "api/v1/blocks", "", &list) // kept for some seconds
		in.must(t, "POST", "api/v1/block", `{"key":"header.x-user:`+user+`","limit":"per-user","seconds":60}`, nil)
	}
	in.must(t, "POST", "api/v1/unblock", `{"key":"header.x-user:a","limit":"per-user"}`, nil)
	in.must(t, "GET", "api/v1/blocks", "", &list)
	check.Equal(t, "blocks, b alone", fmt.Sprint(list.Blocks), "[{per-user header.x-user:b }]")
}

func TestActionsThatCanNotBe(t *testing.T) {
	t.Parallel()
	in := start(t, memstore.New(), func(c *inspect.Config) { c.MaxBlock = time.Hour })
	for _, test := range []struct {
		name, path, body string
		status           int
	}{
		{"no key", "reset", `{}`, 400},
		{"a key with a line break", "reset", `{"key":"user:1\nuser:2"}`, 400},
		{"a key with a terminal's escape", "reset", `{"key":"user:\u001b[2J"}`, 400},
		{"a key of 1,025 bytes", "reset", `{"key":"` + strings.Repeat("k", 1025) + `"}`, 400},
		{"an unknown field", "reset", `{"key":"a","limits":"global"}`, 400},
		{"two objects", "reset", `{"key":"a"}{"key":"b"}`, 400},
		{"no JSON", "reset", `key=a`, 400},
		{"a body of 9 KB", "reset", `{"key":"` + strings.Repeat("k", 9<<10) + `"}`, 413},
		{"an unknown limit", "reset", `{"key":"a","limit":"none"}`, 404},
		{"seconds to reset", "reset", `{"key":"a","seconds":1}`, 400},
		{"a block under a limit in shadow mode", "block", `{"key":"a","limit":"trial","seconds":1}`, 422},
		{"a block for no time", "block", `{"key":"a","limit":"per-user"}`, 400},
		{"a block for a negative time", "block", `{"key":"a","limit":"per-user","seconds":-1}`, 400},
		{"a block that is too long", "block", `{"key":"a","limit":"per-user","seconds":3601}`, 400},
		{"a block whose time overflows", "block", `{"key":"a","limit":"per-user","seconds":9223372036854775807}`, 400},
		{"a block of somebody under a limit of everybody", "block", `{"key":"a","limit":"global","seconds":1}`, 422},
		{"an explanation of nothing", "explain", `{}`, 400},
		{"an explanation at a negative cost", "explain", `{"query":"a","cost":-1}`, 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			in.wantStatus(t, test.status, "POST", "api/v1/"+test.path, test.body)
		})
	}
}

func TestEachActionWritesALineWithoutTheKey(t *testing.T) {
	t.Parallel()
	in := start(t, memstore.New())
	in.must(t, "POST", "api/v1/block", `{"key":"header.x-user:mallory","limit":"per-user","seconds":600}`, nil)
	in.must(t, "POST", "api/v1/unblock", `{"key":"header.x-user:mallory"}`, nil)
	in.must(t, "POST", "api/v1/reset", `{"key":"header.x-user:mallory"}`, nil)
	text := in.log.String()
	for _, want := range []string{
		`"action":"block","actor":"olga","key":"sha256:`, `"limit":"per-user","for":600000000000,"result":"done"`,
		`"action":"unblock"`, `"action":"reset"`,
	} {
		check.Contains(t, "the log", text, want)
	}
	if strings.Contains(text, "mallory") {
		t.Errorf("the log has the key:\n%s", text)
	}
}

func TestTheApplicationSaysWhatTheLogHasOfAKey(t *testing.T) {
	t.Parallel()
	in := start(t, memstore.New(), func(c *inspect.Config) { c.LogKey = func(key string) string { return "[" + key + "]" } })
	in.must(t, "POST", "api/v1/reset", `{"key":"header.x-user:bob"}`, nil)
	check.Contains(t, "the log", in.log.String(), `"key":"[header.x-user:bob]"`)
}

func TestAnActorCanNotWriteLinesOfItsOwn(t *testing.T) {
	t.Parallel()
	in := start(t, memstore.New(), func(c *inspect.Config) {
		c.Users = nil
		c.Authorize = func(*http.Request) (string, inspect.Permission) { return "eve\n{\"action\":\"none\"}", inspect.Act }
	})
	in.must(t, "POST", "api/v1/reset", `{"key":"a"}`, nil)
	if text := in.log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "eve\uFFFD") {
		t.Errorf("got %s", text)
	}
}
