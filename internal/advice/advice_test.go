package advice_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/advice"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// told is a request that has more to say than its values.
type told struct {
	keyfuncs.Values
	risk, unguarded string
	routes          []string // of the router; nil if the request knows none
}

func (r *told) Value(key any) any {
	if key == (keyfuncs.RequestKey{}) {
		return r
	}
	return r.Values.Value(key)
}

func (r *told) FrameworkRisk() string { return r.risk }
func (r *told) Unguarded() string     { return r.unguarded }
func (r *told) HasRoute(method, template string) bool {
	return slices.Contains(r.routes, method+" "+template)
}

func (r *told) EachRoute(yield func(route string) bool) {
	_ = slices.ContainsFunc(r.routes, func(s string) bool { return !yield(s) })
}

// advise makes the Advisor of one limit.
func advise(s advice.Settings, f advice.Facts) (*advice.Advisor, *advice.Limit) {
	if s.Registry == nil {
		s.Registry = new(store.Registry)
	}
	s.Rivals, s.Limits, f.Name = advice.NewRivals(s.Registry), 1, "default"
	a := advice.New(s)
	l := a.Add(f)
	a.Ready()
	return a, l
}

// looking has an Advisor look at a request n times.
func looking(n int, f advice.Facts, seen advice.Seen) func(*testing.T, advice.Settings) {
	return func(_ *testing.T, s advice.Settings) {
		a, _ := advise(s, f)
		for range n {
			a.Look(seen)
		}
	}
}

var (
	proxied   = keyfuncs.ClientIP(keyfuncs.TrustedProxies("10.0.0.0/8"))
	passedOn  = keyfuncs.Values{"ip": "10.0.0.1", "X-Forwarded-For": "198.51.100.7"}
	onARoute  = keyfuncs.Routes("POST /login")
	sometimes = "for some requests"
)

// situations has each code, and what makes an Advisor say it.
var situations = []struct {
	code    advice.Code
	problem string // the beginning of the text
	run     func(*testing.T, advice.Settings)
}{
	{advice.Forwarded, "requests have X-Forwarded-For, but limits by ClientIP use the peer's address", looking(3, advice.Facts{Key: keyfuncs.ClientIP()}, advice.Seen{Request: passedOn})},
	{advice.Framework, sometimes, looking(3, advice.Facts{Key: keyfuncs.ClientIP(keyfuncs.Framework())}, advice.Seen{Request: &told{risk: sometimes}})},
	{advice.InHandler, "a limiter is built while a request is served", inHandler},
	{advice.Twice, "one limiter decides a request twice", looking(3, advice.Facts{}, advice.Seen{Request: keyfuncs.Values{}, Twice: true})},
	{advice.Eviction, "keys are evicted", eviction},
	{advice.Tier, `limit "default": cost 3 can never fit: the tier holds at most 2`, calling(func(_ *advice.Advisor, l *advice.Limit) { l.TierTooSmall(3, 2) })},
	{advice.Scale, `limit "default": its Scale function panicked: no load`, calling(func(_ *advice.Advisor, l *advice.Limit) { l.ScalePanics("no load") })},
	{advice.Route, "limit default: its condition on routes can't be answered where the limiter stands, so the limit applies; put the limiter behind the router", calling(func(_ *advice.Advisor, l *advice.Limit) { l.ConditionUnanswered(keyfuncs.Values{}) })},
	{advice.Observer, "the observer string panics: no counter", calling(func(a *advice.Advisor, _ *advice.Limit) {
		defer a.ObserverPanics("one that counts")
		panic("no counter")
	})},
	{advice.NoClient, "a proxy named in ClientIP sends a request without X-Forwarded-For", looking(3, advice.Facts{Key: proxied}, advice.Seen{Request: keyfuncs.Values{"ip": "10.0.0.1"}})},
	{advice.Unguarded, sometimes, looking(3, advice.Facts{}, advice.Seen{Request: &told{unguarded: sometimes}})},
	{advice.Unlisted, "requests with X-Forwarded-For come through 127.0.0.1, which ClientIP does not list", looking(3, advice.Facts{Key: proxied}, advice.Seen{Request: keyfuncs.Values{"ip": "127.0.0.1", "X-Forwarded-For": "198.51.100.7"}})},
	{advice.Keyless, "limit default: none of its first 10 requests has its key (authenticated user), so they share one bucket", looking(10, advice.Facts{Key: keyfuncs.User("user")}, advice.Seen{Request: keyfuncs.Values{}, Keys: []advice.Key{advice.Lacked}})},
	{advice.Exempt, "limit default: FromCIDR exempts requests that a proxy has passed on with X-Forwarded-For", looking(3, advice.Facts{Key: proxied, When: []keyfuncs.Condition{keyfuncs.Not(keyfuncs.FromCIDR("10.0.0.0/8"))}}, advice.Seen{Request: passedOn})},
	{advice.NeverFits, "limit default: CostBy or EstimateBy returned 10, and the limit never has room for more than 9", calling(func(_ *advice.Advisor, l *advice.Limit) { l.NeverFits(10, 9) })},
	{advice.NoRoute, `limit default: the router has no route "POST /login", so a condition on it never holds; did you mean "POST /logins"?`, looking(3, advice.Facts{Upper: onARoute}, advice.Seen{Request: &told{routes: []string{"GET /", "POST /logins"}}})},
	{advice.Rival, `limit default: other processes have a limit of this name with other numbers in the same store, so both count in the same buckets: here token bucket, quota 9, window 1m0s, there "others"`, rivals},
}

// calling has a limiter tell what it has seen, three times.
func calling(tell func(*advice.Advisor, *advice.Limit)) func(*testing.T, advice.Settings) {
	return func(_ *testing.T, s advice.Settings) {
		a, l := advise(s, advice.Facts{})
		for range 3 {
			tell(a, l)
		}
	}
}

// inHandler makes a limiter in a request.
func inHandler(t *testing.T, s advice.Settings) {
	a, _ := advise(s, advice.Facts{})
	build := func() { a.Built() }
	build() // at start-up nothing is wrong
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { build() }))
	defer server.Close()
	must.Get(server.Client().Get(server.URL))(t).Body.Close()
}

// eviction has a store look at its server.
func eviction(t *testing.T, s advice.Settings) {
	synctest.Test(t, func(t *testing.T) { // which waits for the look in the background
		s.Registry = new(store.Registry)
		looks := 0
		s.Registry.SetServer(store.Server{Eviction: func(context.Context) (problem string, err error) {
			looks++
			return "keys are evicted", nil
		}})
		a, _ := advise(s, advice.Facts{})
		for range 3 {
			a.StoreAnswers()
		}
		synctest.Wait()
		check.Equal(t, "looks of the store", looks, 1)
	})
}

// rivals has somebody else write other numbers again and again.
func rivals(t *testing.T, s advice.Settings) {
	synctest.Test(t, func(t *testing.T) {
		s.Registry = new(store.Registry)
		rule := must.Get(core.PerMinute(9).By(keyfuncs.Everyone()).Rule())(t)
		must.OK(t, s.Registry.Register(store.Declaration{Rule: rule}))
		s.Registry.SetServer(store.Server{Swap: func(context.Context, []string, []string, time.Duration) ([]string, error) {
			return []string{"others"}, nil
		}})
		a, _ := advise(s, advice.Facts{})
		a.StoreAnswers()
		time.Sleep(time.Hour)
		s.Registry.SetServer(store.Server{Swap: func(context.Context, []string, []string, time.Duration) ([]string, error) {
			return nil, &store.Error{Class: store.ClassClosed} // which ends the comparisons
		}})
		time.Sleep(time.Hour)
		runtime.KeepAlive(a)
	})
}

// logged returns what a situation logs. It makes the process forget what was logged before, so tests that call it are not
// parallel.
func logged(t *testing.T, run func(*testing.T, advice.Settings), silence ...advice.Code) (lines []string) {
	t.Helper()
	advice.Given.Clear()
	var out strings.Builder
	run(t, advice.Settings{Logger: slog.New(slog.NewJSONHandler(&out, nil)), Silence: silence})
	return strings.Split(strings.TrimSpace(out.String()), "\n")
}

// Each kind is said once, with its code and where to read on, and not at all if it is silenced.
func TestEachCode(t *testing.T) {
	for _, tt := range situations {
		t.Run(string(tt.code), func(t *testing.T) {
			lines := logged(t, tt.run)
			var line struct{ Level, Msg, Code, See string }
			must.OK(t, json.Unmarshal([]byte(lines[0]), &line))
			check.Equal(t, "lines", len(lines), 1)
			check.Equal(t, "level", line.Level, "WARN")
			check.Equal(t, "code", line.Code, string(tt.code))
			check.Equal(t, "where to read on", line.See, "https://github.com/weblimit/weblimit/blob/main/docs/run/advice.md#"+strings.ToLower(string(tt.code)))
			if !strings.HasPrefix(line.Msg, "weblimit: "+tt.problem) {
				t.Errorf("logged %q, want %q first", line.Msg, tt.problem)
			}
			for _, line := range logged(t, tt.run, advice.Framework, tt.code) {
				check.Equal(t, "what is logged of a kind that is silenced", line, "")
			}
		})
	}
}

// A new code has a case above, a section and a row in the page for users, and a line in core.Advice, in the words of codes.go.
func TestNoCodeIsForgotten(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		return string(must.Get(os.ReadFile(filepath.Join("..", "..", path)))(t))
	}
	page, doc := read("docs/run/advice.md"), read("core/advice.go")
	codes := regexp.MustCompile(`(?m)^\t\w+ +Code = \S+ +// (?:WL005: )?(.*)$`).FindAllStringSubmatch(read("internal/advice/codes.go"), -1)
	check.Equal(t, "codes", len(codes), len(situations))
	check.Equal(t, "the last code", advice.Last, situations[len(situations)-1].code)
	for i, tt := range situations {
		check.Contains(t, "the page", page, "\n## "+string(tt.code)+"\n")
		check.Contains(t, "the page", page, "| ["+string(tt.code)+"](#"+strings.ToLower(string(tt.code))+") |")
		check.Contains(t, "core.Advice", doc, "//   - "+string(tt.code)+": "+codes[i][1]+"\n")
		check.Equal(t, "the code is known", tt.code.Known(), true)
	}
}

func TestOneOfManyAtOnceIsLogged(t *testing.T) {
	lines := logged(t, func(_ *testing.T, s advice.Settings) {
		a, _ := advise(s, advice.Facts{})
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() { a.Look(advice.Seen{Request: keyfuncs.Values{}, Twice: true}) })
		}
		all.Wait()
	})
	check.Equal(t, "lines", len(lines), 1)
}

// The Advisor of a limiter that takes another's place goes on with its requests.
func TestLooksGoOn(t *testing.T) {
	t.Parallel()
	before, _ := advise(advice.Settings{}, advice.Facts{})
	for range advice.Looks {
		before.Look(advice.Seen{Request: keyfuncs.Values{}})
	}
	after, _ := advise(advice.Settings{}, advice.Facts{})
	check.Equal(t, "a new limiter is looking", after.Looking(), true)
	after.GoOn(before)
	check.Equal(t, "one that goes on is looking", after.Looking(), false)
}
