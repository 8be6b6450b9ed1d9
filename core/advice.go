package core

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Advice is a kind of likely misconfiguration that a limiter notices and logs. It logs one line
// per process and kind, for those on routes and keys one per limit, with a stable code and a link to
// docs/run/advice.md. Config.Silence switches kinds off.
type Advice string

// The kinds of advice.
const (
	AdviceForwarded Advice = "WL001"              // forwarded headers are seen while only the peer is used
	AdviceFramework Advice = "WL002"              // the framework's client address can be forged
	AdviceInHandler Advice = "WL003"              // a limiter is built while a request is served
	AdviceTwice     Advice = "WL004"              // one limiter counts a request twice
	AdviceEviction  Advice = store.AdviceEviction // Redis may evict the keys of limits
	AdviceTier      Advice = "WL006"              // a tier can never work
	AdviceScale     Advice = "WL007"              // a Scale function panics
	AdviceRoute     Advice = "WL008"              // a limiter needs the route where it is not known
	adviceLink             = "https://github.com/weblimit/weblimit/blob/main/docs/run/advice.md#"
	AdviceObserver  Advice = "WL009" // an observer panics
	AdviceNoClient  Advice = "WL010" // a trusted proxy names no client
	AdviceUnguarded Advice = "WL011" // some requests reach handlers without passing the limiter
	AdviceUnlisted  Advice = "WL012" // forwarded headers come from a private address that is not listed
	AdviceKeyless   Advice = "WL013" // no request has a limit's key
	AdviceExempt    Advice = "WL014" // FromCIDR exempts what proxies pass on
	AdviceNeverFits Advice = "WL015" // a cost is above what the limit ever has room for
	AdviceNoRoute   Advice = "WL016" // a condition names a route that the router does not have
	AdviceRivals    Advice = "WL017" // other processes have a limit of the same name with other numbers
)

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
	bypass  atomic.Bool // AdviceRoute was logged for a bypass
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
			a.advise(AdviceInHandler, "a limiter is built while a request is served; build it once, at start-up")
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
		a.log(AdviceRoute, whose+": "+what+" where the limiter stands, so "+so+"; "+remedy)
	}
}

// quiet reports whether there is nothing to log about routes any more: it was logged, or is
// silenced.
func (a *advisor) quiet(advised *atomic.Bool) bool {
	return advised.Load() || slices.Contains(a.silenced, AdviceRoute)
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
