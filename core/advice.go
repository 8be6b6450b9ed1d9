package core

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Advice is a kind of likely misconfiguration that a limiter notices and logs. It logs one line
// per process and kind, for those on routes and keys one per limit, with a stable code and a link to
// docs/run/advice.md. Config.Silence switches kinds off, by these codes:
//
//   - WL001: forwarded headers are seen while only the peer is used
//   - WL002: the framework's client address can be forged
//   - WL003: a limiter is built while a request is served
//   - WL004: one limiter counts a request twice
//   - WL005: Redis may evict the keys of limits
//   - WL006: a tier can never work
//   - WL007: a Scale function panics
//   - WL008: a limiter needs the route where it is not known
//   - WL009: an observer panics
//   - WL010: a trusted proxy names no client
//   - WL011: some requests reach handlers without passing the limiter
//   - WL012: forwarded headers come from a private address that is not listed
//   - WL013: no request has a limit's key
//   - WL014: FromCIDR exempts what proxies pass on
//   - WL015: a cost is above what the limit ever has room for
//   - WL016: a condition names a route that the router does not have
//   - WL017: other processes have a limit of the same name with other numbers
type Advice string

const (
	adviceForwarded Advice = "WL001"
	adviceFramework Advice = "WL002"
	adviceInHandler Advice = "WL003"
	adviceTwice     Advice = "WL004"
	adviceEviction  Advice = store.AdviceEviction
	adviceTier      Advice = "WL006"
	adviceScale     Advice = "WL007"
	adviceRoute     Advice = "WL008"
	adviceObserver  Advice = "WL009"
	adviceNoClient  Advice = "WL010"
	adviceUnguarded Advice = "WL011"
	adviceUnlisted  Advice = "WL012"
	adviceKeyless   Advice = "WL013"
	adviceExempt    Advice = "WL014"
	adviceNeverFits Advice = "WL015"
	adviceNoRoute   Advice = "WL016"
	adviceRivals    Advice = "WL017"
)

// lastAdvice is the last of the codes, which have no gaps.
const lastAdvice = adviceRivals

const adviceLink = "https://github.com/weblimit/weblimit/blob/main/docs/run/advice.md#"

// validate returns an error for a code that no advice has.
func (a Advice) validate() error {
	n, _ := strconv.Atoi(strings.TrimPrefix(string(a), "WL"))
	if n < 1 || a > lastAdvice || string(a) != fmt.Sprintf("WL%03d", n) {
		return configError("Silence", fmt.Sprintf("has %q, which is no advice: the codes are WL001 to %s", a, lastAdvice))
	}
	return nil
}

// given holds the advice that this process has logged.
var given sync.Map // of about

// about is what advice is logged once for: a kind, or a kind for one limit.
type about struct {
	kind  Advice
	limit string
}

// advisor gives the advice of one limiter.
type advisor struct {
	logger   *slog.Logger // nil for the default at the time
	silenced []Advice
	looks    atomic.Int64 // requests looked at so far
	inspects atomic.Bool  // the store has been looked at

	// Whether a key reads the peer's address, or the client address of the framework.
	readsPeer, readsFramework bool

	proxied []*limit    // limits by an address that proxies name
	byRoute []*limit    // limits whose keys contain the route
	byParam []*limit    // limits whose keys contain a parameter of the path
	bypass  atomic.Bool // adviceRoute was logged for a bypass
}

func newAdvisor(logger *slog.Logger, silence []Advice) *advisor {
	return &advisor{logger: logger, silenced: slices.Clone(silence)}
}

// advise logs a kind of advice, if nobody has yet and it is not silenced.
func (a *advisor) advise(kind Advice, problem string) { a.adviseLimit(kind, "", problem) }

// adviseLimit is advise for a kind that is logged once per limit.
func (a *advisor) adviseLimit(kind Advice, limit, problem string) {
	if slices.Contains(a.silenced, kind) {
		return
	}
	if _, before := given.LoadOrStore(about{kind, limit}, true); before {
		return
	}
	a.log(kind, problem)
}

func (a *advisor) log(kind Advice, problem string) {
	logger := a.logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.LogAttrs(context.Background(), slog.LevelWarn, "weblimit: "+problem,
		slog.String("code", string(kind)), slog.String("see", adviceLink+strings.ToLower(string(kind))))
}

// builtWhileServing looks for a server's frames below New. A limiter that is built anew for each
// request limits nobody.
func (a *advisor) builtWhileServing() {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for {
		frame, more := frames.Next()
		switch frame.Function {
		case "net/http.(*conn).serve", "net/http.serverHandler.ServeHTTP", "github.com/valyala/fasthttp.(*Server).serveConn", "google.golang.org/grpc.(*Server).handleStream":
			a.advise(adviceInHandler, "a limiter is built while a request is served; build it once, at start-up")
			return
		}
		if !more {
			return
		}
	}
}

// unrouted logs that a limit or a bypass needs the route, which is unknown at the limiter's
// place, unless advised says that this was logged. The request may know where the limiter
// belongs; it says "" while it can't tell whether anything is wrong.
func (a *advisor) unrouted(advised *atomic.Bool, r keyfuncs.Request, whose, what, so string) {
	if a.quiet(advised) {
		return
	}
	remedy := "put the limiter behind the router, or on the route"
	if adapter, ok := keyfuncs.As[keyfuncs.RouteAdvice](r); ok {
		if remedy = adapter.RouteRemedy(); remedy == "" {
			return
		}
	}
	if !advised.Swap(true) {
		a.log(adviceRoute, whose+": "+what+" where the limiter stands, so "+so+"; "+remedy)
	}
}

// quiet reports whether there is nothing to log about routes any more: it was logged, or is
// silenced.
func (a *advisor) quiet(advised *atomic.Bool) bool {
	return advised.Load() || slices.Contains(a.silenced, adviceRoute)
}

func (l *limit) unrouted(r keyfuncs.Request, what, so string) {
	if !l.advised.Load() {
		l.advisor.unrouted(&l.advised, r, "limit "+l.rule.Name, what, so)
	}
}

// inspectStore has the store check how its server is set up, once, and compare its limits with those
// of other processes from then on.
func (l *Limiter) inspectStore() {
	if l.advisor.inspects.Load() || l.advisor.inspects.Swap(true) { // a swap writes, even if it changes nothing
		return
	}
	l.shared.compareLater()
	inspect := l.store.Registry().Inspector()
	if inspect == nil {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		// An error says only that the server does not let us look.
		if kind, problem, err := inspect(ctx); err == nil && problem != "" {
			l.advisor.advise(Advice(kind), problem)
		}
	}()
}
