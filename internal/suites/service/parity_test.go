package service_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/regions"
	"github.com/weblimit/weblimit/service"
	"github.com/weblimit/weblimit/service/client"
)

// inCode are policies in code.
type inCode map[string][]core.Limit

func (p inCode) Limiter(config core.Config, name string) (*core.Limiter, error) {
	limits, ok := p[name]
	if !ok {
		return nil, core.ErrNoPolicy
	}
	config.Limits, config.Version = limits, "v1"
	return core.New(config)
}

// rowsOf returns the rows of a table of docs/service/parity.md, without the first column, by the name in it.
func rowsOf(t *testing.T, heading string) map[string]string {
	t.Helper()
	_, section, found := strings.Cut(string(must.Get(os.ReadFile("../../../docs/service/parity.md"))(t)), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("the page has no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	rows := make(map[string]string)
	for line := range strings.Lines(section) {
		names, rest, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		for _, name := range strings.Split(names, ", ") {
			if strings.HasPrefix(line, "| `") {
				rows[strings.Trim(name, "`")] = rest
			}
		}
	}
	return rows
}

// wantRows wants a row for each name, and no others.
func wantRows(t *testing.T, rows map[string]string, names []string) {
	t.Helper()
	for _, name := range names {
		if _, ok := rows[name]; !ok {
			t.Errorf("docs/service/parity.md has no row for %s", name)
		}
	}
	if len(rows) != len(names) {
		t.Errorf("docs/service/parity.md has %d rows for %d names", len(rows), len(names))
	}
}

// fieldCase is what a field of core.Config does by the client: it is refused, or run shows what it does.
type fieldCase struct {
	set     func(*core.Config)
	refused string
	run     func(*testing.T)
}

// remoteProcess is a process whose limiter decides by a service, and what it hears.
type remoteProcess struct {
	core.NopObserver

	limiter   *core.Limiter
	away      atomic.Bool // the service
	log       strings.Builder
	decisions int
	warnings  []core.Warning
}

// Decided implements [core.Observer].
func (p *remoteProcess) Decided(context.Context, *core.Observation) { p.decisions++ }

func (p *remoteProcess) warn(_ context.Context, w core.Warning) { p.warnings = append(p.warnings, w) }

func (p *remoteProcess) allow() core.Decision {
	return p.limiter.Allow(keyfuncs.Values{"X-User": "ann", "method": "GET"})
}

func (p *remoteProcess) logger() *slog.Logger { return slog.New(slog.NewTextHandler(&p.log, nil)) }

// inOutage returns what wants a number of nine requests allowed while the service is away.
func (p *remoteProcess) inOutage(want int) func(*testing.T) {
	return func(t *testing.T) {
		p.away.Store(true)
		allowed := 0
		for range 9 {
			d := p.allow()
			check.Equal(t, "the reason", d.Reason, core.ReasonOutageLocal)
			if d.Allowed {
				allowed++
			}
		}
		check.Equal(t, "allowed while the service is away", allowed, want)
	}
}

var (
	sameKey = keyfuncs.Header("X-User")
	standIn = core.PerHour(4).By(sameKey).Named("stand-in")
	onRoute = []keyfuncs.Condition{keyfuncs.Routes("GET /healthz")} // which can't be answered where the route is not known
)

// fieldCases are by the names of core.Config's fields.
func fieldCases(p *remoteProcess) map[string]fieldCase {
	return map[string]fieldCase{
		"Store":  {set: func(c *core.Config) { c.Store = core.NewMemory() }, refused: "core.Config.Store must be Store() of the client"},
		"Limits": {set: func(c *core.Config) { c.Limits = []core.Limit{standIn} }, refused: "Config.Limits must be empty"},
		"Bypass": {set: func(c *core.Config) { c.Bypass = []keyfuncs.Condition{keyfuncs.Methods("GET")} }, run: func(t *testing.T) {
			p.away.Store(true) // nobody is asked
			check.Equal(t, "the reason", p.allow().Reason, core.ReasonBypassed)
		}},
		"Timeout":          {set: func(c *core.Config) { c.Timeout = time.Hour }, refused: "no request to the service takes longer than client.Config.Timeout"},
		"Replicas":         {set: func(c *core.Config) { c.Replicas = 2 }, run: p.inOutage(2)},
		"Fallback":         {set: func(c *core.Config) { c.Fallback.Store = core.NewMemory() }, run: p.inOutage(4)},
		"MaxWaiting":       {set: func(c *core.Config) { c.MaxWaiting = 5 }, refused: "Config.MaxWaiting and MaxWaitingPerKey must be 0"},
		"MaxWaitingPerKey": {set: func(c *core.Config) { c.MaxWaitingPerKey = 5 }, refused: "Config.MaxWaiting and MaxWaitingPerKey must be 0"},
		"Headers": {set: func(c *core.Config) { c.Headers = core.XRateLimitDelta }, run: func(t *testing.T) {
			check.Equal(t, "X-RateLimit-Remaining", headersOf(p.allow()).Get("X-Ratelimit-Remaining"), "1")
		}},
		"HeadersWhen": {set: func(c *core.Config) { c.HeadersWhen = core.OnDenial }, run: func(t *testing.T) {
			check.Equal(t, "RateLimit", headersOf(p.allow()).Get("Ratelimit"), "")
		}},
		"MissingKey": {set: func(c *core.Config) { c.MissingKey.Status = 404 }, refused: "Config.MissingKey.Status must be 0"},
		"Details": {set: func(c *core.Config) {
			c.Details = map[string]func(core.Decision) string{"de": func(core.Decision) string { return "Zu viele." }}
		}, run: func(t *testing.T) {
			p.allow()
			p.allow()
			d := p.allow()
			if body, _ := d.AppendProblem(nil, "de"); !strings.Contains(string(body), "Zu viele.") {
				t.Errorf("body %s", body)
			}
		}},
		"OnWarning": {set: func(c *core.Config) { c.OnWarning = p.warn }, run: func(t *testing.T) {
			p.allow()
			check.Equal(t, "warnings", fmt.Sprintf("%+v", p.warnings), "[{Limit:user Level:0.5 Used:1 Burst:2 Key:header.x-user:ann Soft:false Shadow:false}]")
		}},
		"Observe": {set: func(c *core.Config) { c.Observe = p }, run: func(t *testing.T) {
			p.allow()
			check.Equal(t, "decisions", p.decisions, 1)
		}},
		"Logger": {set: func(c *core.Config) { c.Bypass, c.Logger = onRoute, p.logger() }, run: func(t *testing.T) {
			if p.allow(); !strings.Contains(p.log.String(), "WL008") {
				t.Errorf("the log has %q", p.log.String())
			}
		}},
		"Silence": {set: func(c *core.Config) { c.Bypass, c.Logger, c.Silence = onRoute, p.logger(), []core.Advice{"WL008"} }, run: func(t *testing.T) {
			p.allow()
			check.Equal(t, "the log", p.log.String(), "")
		}},
		"Version": {set: func(c *core.Config) { c.Version = "here" }, run: func(t *testing.T) {
			d := p.allow()
			check.Equal(t, "the version of an answer", d.Version(), "v1")
			p.away.Store(true)
			d = p.allow()
			check.Equal(t, "the version in an outage", d.Version(), "here")
		}},
		"MayEnd": {set: func(c *core.Config) { c.MayEnd = true }, run: func(t *testing.T) {
			check.Equal(t, "ended", p.limiter.Ended(), false)
		}},
	}
}

func headersOf(d core.Decision) http.Header {
	h := http.Header{}
	d.SetHeaders(h)
	return h
}

func TestTheFieldsOfAConfigByTheClient(t *testing.T) {
	t.Parallel()
	rows := rowsOf(t, "Fields of core.Config")
	var names []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[core.Config]()) {
		if field.IsExported() {
			names = append(names, field.Name)
		}
	}
	wantRows(t, rows, names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := new(remoteProcess)
			of, ok := fieldCases(p)[name]
			if !ok {
				t.Fatal("no case")
			}
			err := p.start(t, of.set)
			if of.refused != "" {
				check.Fails(t, "made", err, of.refused)
			} else {
				must.OK(t, err)
				of.run(t)
			}
			if refuses := strings.Contains(rows[name], "`"+of.refused+"`"); of.refused != "" && !refuses || of.refused == "" && strings.Contains(rows[name], "refused: `") {
				t.Errorf("the page says %s", rows[name])
			}
		})
	}
}

// start starts a service, and a process whose limiter asks it.
func (p *remoteProcess) start(t *testing.T, set func(*core.Config)) (err error) {
	t.Helper()
	policies := inCode{"api": {core.PerHour(2).FixedWindow().By(sameKey).Named("user").WarnAt(0.5).OnMissingKey(core.DenyRequest)}}
	s := must.Get(service.New(service.Config{Policies: policies, Store: core.NewMemory()}))(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.away.Load() {
			panic(http.ErrAbortHandler)
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	c := must.Get(client.New(client.Config{URL: server.URL, Timeout: time.Minute, Send: client.Fields{Headers: []string{"X-User"}}, OnOutage: client.OnOutage{Limits: []core.Limit{standIn}}}))(t)
	c.OnEvent(func(core.Event) {})
	config := core.Config{Store: c.Store()}
	set(&config)
	p.limiter, err = c.Limiter(config, "api")
	return err
}

// decoratorCases are limits by the decorators that they show.
var decoratorCases = map[string]core.Limit{
	"Burst":         core.PerHour(9).Burst(2).By(sameKey),
	"By":            core.PerHour(2).By(sameKey, keyfuncs.Method()),
	"Cost":          core.PerHour(7).Cost(3).By(sameKey),
	"CostBy":        core.PerHour(5).CostBy(said).By(sameKey),
	"Debt":          core.PerHour(7).FixedWindow().Estimate(3).Debt(2).By(sameKey),
	"Estimate":      core.PerHour(7).Estimate(3).By(sameKey),
	"EstimateBy":    core.PerHour(7).EstimateBy(func(r keyfuncs.Request) int64 { return 1 + said(r) }).By(sameKey),
	"Fair":          core.PerHour(6).By(keyfuncs.Everyone()).Fair(core.Shares{By: sameKey, Of: func(keyfuncs.Request) core.Share { return core.Share{Maximum: 4} }}),
	"FixedWindow":   core.PerHour(3).FixedWindow().By(sameKey),
	"FromFirstUse":  core.PerHour(3).FromFirstUse().By(sameKey),
	"Jitter":        core.PerHour(3).FixedWindow().Jitter().By(sameKey),
	"KeepFree":      core.PerHour(6).KeepFree(0.5, keyfuncs.Methods("POST")).By(sameKey),
	"LeakyBucket":   core.PerHour(3).LeakyBucket(time.Millisecond).By(sameKey),
	"Lease":         core.Concurrent(1).Lease(time.Hour).By(sameKey),
	"Named":         core.PerHour(3).By(sameKey).Named("another"),
	"OnMissingKey":  core.PerHour(3).By(sameKey).OnMissingKey(core.DenyRequest),
	"OnOutage":      core.PerHour(3).By(sameKey).OnOutage(core.Deny),
	"OncePer":       core.PerHour(3).By(sameKey).OncePer(keyfuncs.Header("X-Said"), time.Hour),
	"Overdraft":     core.PerHour(3).Overdraft(0).By(sameKey), // a larger one is for regions that lease, by clocks of their own
	"Penalty":       core.PerHour(2).By(sameKey).Penalty(core.Block{After: 2, Within: time.Hour, For: 45 * time.Minute}),
	"RefundOn":      core.PerHour(3).By(sameKey).RefundOn(core.Failures),
	"Regions":       core.PerHour(3).Regions(core.InEachRegion).By(sameKey),
	"Repeats":       core.PerHour(3).By(sameKey).OncePer(keyfuncs.Header("X-Said"), time.Hour).Repeats(1),
	"Scale":         core.PerHour(6).By(sameKey).Scale(func(context.Context) float64 { return 0.5 }),
	"Shadow":        core.PerHour(2).By(sameKey).Shadow(),
	"Classes":       core.PerHour(4).By(sameKey).Classes(core.Class{Name: "high", When: keyfuncs.Methods("POST"), Keep: 0.5}, core.Class{Name: "low"}),
	"Hidden":        core.PerHour(2).By(sameKey).Hidden(),
	"Status":        core.PerHour(2).By(sameKey).Status(402),
	"SlidingLog":    core.PerHour(3).SlidingLog().By(sameKey),
	"SlidingWindow": core.PerHour(3).SlidingWindow().By(sameKey),
	"SlowDown":      core.PerHour(4).SlowDown(0.5, time.Millisecond).By(sameKey),
	"Soft":          core.PerHour(4).Soft(2).By(sameKey),
	"SpillOver": core.First(
		core.PerHour(3).Estimate(2).SpillOver().By(sameKey).Named("first"), core.PerHour(4).Estimate(2).SpillOver().By(sameKey).Named("second"),
		core.PerHour(4).Estimate(2).By(sameKey).Named("third")),
	"Tiers": core.PerHour(2).By(sameKey).Tiers(func(r keyfuncs.Request) core.Limit {
		if said(r) > 0 {
			return core.PerHour(5)
		}
		return core.Limit{}
	}),
	"TokenBucket": core.PerHour(3).TokenBucket().By(sameKey),
	"Unless":      core.PerHour(2).By(sameKey).Unless(keyfuncs.Methods("POST")),
	"UpToBurst":   core.PerHour(7).EstimateBy(func(r keyfuncs.Request) int64 { return 8 * said(r) }).UpToBurst().By(sameKey),
	"Wait":        core.PerHour(9).Burst(2).Wait(time.Millisecond).By(sameKey),
	"WarnAt":      core.PerHour(4).By(sameKey).WarnAt(0.25, 1),
	"When":        core.PerHour(2).By(sameKey).When(keyfuncs.Methods("POST")),
}

// said returns the number that a request has in X-Said.
func said(r keyfuncs.Request) int64 {
	text, _ := r.Header("X-Said", 0)
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// decoratorSteps meet what decorators change: methods, costs, failures, time, and who asks.
func decoratorSteps(estimates bool) []step {
	steps := []step{
		{what: "a first request"},
		{what: "one that says 2", header: [2]string{"X-Said", "2"}},
		{what: "and again", header: [2]string{"X-Said", "2"}},
		{what: "a failure", status: 500},
		{what: "a failure of the client", status: 404},
		{what: "another method", method: "POST"},
		{what: "another client", user: "bea"},
		{what: "a third time", header: [2]string{"X-Said", "2"}},
		{what: "one that hangs up", gone: true, user: "bea"},
		{what: "no key", user: "-"},
		{what: "later", after: 40 * time.Minute},
		{what: "and once more", method: "POST"},
		{what: "much later", after: 3 * time.Hour},
	}
	for i := range steps {
		if steps[i].path = "/"; estimates && i%3 == 0 {
			steps[i].spend = [][]any{{i}}
		}
	}
	return steps
}

func TestTheDecoratorsMeanTheSameByTheClientAndOverHTTP(t *testing.T) {
	t.Parallel()
	var names []string
	limit := reflect.TypeFor[core.Limit]()
	for method := range limit.Methods() {
		if method.Type.NumOut() == 1 && method.Type.Out(0) == limit {
			names = append(names, method.Name)
		}
	}
	wantRows(t, rowsOf(t, "Decorators of a limit"), names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of, ok := decoratorCases[name]
			if !ok {
				t.Fatal("no case")
			}
			if name != "Named" && name != "SpillOver" {
				of = of.Named("limit")
			}
			on := func(memory core.Store) core.Store { return memory }
			if name == "Regions" {
				on = func(memory core.Store) core.Store {
					return must.Get(regions.New(memory, core.NewMemory(), regions.Config{Region: "eu", Regions: 2}))(t)
				}
			}
			shown := playedTheSameOn(t, on, inCode{"api": {of}}, decoratorSteps(strings.HasPrefix(name, "Estimate") || name == "UpToBurst" || name == "Debt" || name == "SpillOver"))
			if all := strings.Join(shown, "\n"); !strings.Contains(all, "429;") && name != "Shadow" && name != "SlowDown" && name != "Soft" && name != "WarnAt" && name != "When" && name != "Lease" && (name != "Status" || !strings.Contains(all, "402;")) {
				t.Errorf("nothing was denied:\n%s", all)
			}
		})
	}
}
