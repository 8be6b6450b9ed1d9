package service_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/testclock"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/service"
	"github.com/weblimit/weblimit/service/client"
)

// One file, one table of requests, three ways to ask: in the process, by the service's client, and over HTTP. The answers are
// the same, and so is what is left after each request.

const sameFile = `
policies:
  api:
    limits:
      requests: {limit: 40/hour fixed, by: {header: X-User}, warn_at: [0.1, 0.2]}
      tokens: {limit: 1000/hour fixed, by: {header: X-User}, when: {routes: [/chat]}, estimate: 300, refund_on: [server_errors]}
      output: {limit: 500/hour fixed, by: {header: X-User}, when: {routes: [/chat]}, estimate: 100}
      running: {limit: concurrent 2 lease 1h, by: {header: X-User}, when: {routes: [/slow]}}
      login:
        limit: 2/minute fixed
        by: {header: X-User}
        when: {routes: [/login]}
        refund_on: [successes]
        penalty: {after: 2, within: 10m, for: 15m}
      fetch: {limit: 3/hour fixed, by: {header: X-User}, when: {routes: [/fetch]}, refund_on: [canceled]}
      queue: {limit: 10/minute burst 1 wait 30s, by: {header: X-User}, when: {routes: [/queue]}}
      plan: {limit: 10/hour fixed, by: {header: X-User}, when: {routes: [/plan]}, keep_free: {share: 0.5, for: {methods: [POST]}}}
  jobs:
    limits:
      jobs: {limit: 20/hour fixed, by: {header: X-User}, warn_at: [0.5, 1], refund_on: [server_errors], penalty: {after: 2, within: 10m, for: 90m}}
      workers: {limit: concurrent 8 lease 1h, by: {header: X-User}}
      estimated: {limit: 100/hour burst 60, by: {header: X-User}, estimate: 5}
`

// step is a request of the table, and what its handler does.
type step struct {
	what   string
	path   string // and its route
	method string // GET by default
	user   string // ann by default; "-" for none
	header [2]string
	batch  int64 // units of policy jobs, in place of a request
	after  time.Duration

	spend  [][]any // units and names of limits, as for core.Spend
	status int     // 200 by default
	gone   bool    // the client hangs up while the handler runs
	left   bool    // it has hung up before
	open   bool    // the handler goes on until a step that closes
	close  bool
	denied bool
}

var sameSteps = []step{
	{what: "an estimate that stays", path: "/chat"},
	{what: "an estimate that was too high", path: "/chat", spend: [][]any{{120}}},
	{what: "one that was too low, in two reports", path: "/chat", spend: [][]any{{200, "tokens"}, {250, "tokens"}, {20, "output"}}},
	{what: "no room for another", denied: true, path: "/chat"},
	{what: "of another client", path: "/chat", user: "bea", status: 502},
	{what: "a failure of the server is not charged", path: "/chat", user: "bea", status: 500},
	{what: "but for what was told", path: "/chat", user: "bea", status: 500, spend: [][]any{{70, "tokens"}}},
	{what: "nor one that its client may have caused", path: "/chat", user: "bea", status: 500, gone: true},
	{what: "a failure of the client is", path: "/chat", user: "bea", status: 404},

	{what: "a slot", path: "/slow", open: true},
	{what: "another", path: "/slow", open: true},
	{what: "and no third", denied: true, path: "/slow"},
	{what: "a slot of another client", path: "/slow", user: "bea"},
	{what: "both are freed", close: true},
	{what: "by which a third has one", path: "/slow"},
	{what: "a client that hangs up frees its slot", path: "/slow", gone: true},
	{what: "a slot again", path: "/slow", open: true},
	{what: "and another, still", path: "/slow", open: true},
	{what: "all are freed", close: true},

	{what: "a login that fails", path: "/login", status: 401},
	{what: "one that succeeds", path: "/login"},
	{what: "one that fails again", path: "/login", status: 401},
	{what: "too many", denied: true, path: "/login"},
	{what: "now blocked", denied: true, path: "/login"},
	{what: "not blocked elsewhere", path: "/fetch"},
	{what: "still blocked", denied: true, path: "/login", after: 14 * time.Minute},
	{what: "no longer blocked", path: "/login", after: 2 * time.Minute},

	{what: "a client that hangs up has it for nothing", path: "/fetch", gone: true},
	{what: "one that does not pays", path: "/fetch"},
	{what: "the last", path: "/fetch"},
	{what: "none is left", denied: true, path: "/fetch"},

	{what: "a turn at once", path: "/queue"},
	{what: "one that leaves while it waits gives its place back", denied: true, path: "/queue", left: true},
	{what: "so does the next, whose place is the same", denied: true, path: "/queue", left: true},

	{what: "a batch that fits", batch: 7},
	{what: "one that fits in part, by its slots", batch: 9007199254740992, spend: [][]any{{3, "estimated"}}},
	{what: "one of which the server has failed", batch: 9, status: 500},
	{what: "what is left of the window", batch: 50},
	{what: "nothing", denied: true, batch: 50},
	{what: "nothing again", denied: true, batch: 1},
	{what: "now blocked", denied: true, batch: 1},
	{what: "a batch of another client", batch: 3, user: "bea"},
	{what: "a batch without a key, which is one of all that have none", batch: 3, user: "-"},

	{what: "no key", path: "/fetch", user: "-"},
	{what: "of the class that may not use all", path: "/plan"},
	{what: "of the class that may", path: "/plan", method: "POST"},
	{what: "in the next window", path: "/chat", after: 2 * time.Hour, spend: [][]any{{5}}},
}

func TestTheSameAnswersHereAndThere(t *testing.T) {
	t.Parallel()
	want := playedTheSame(t, must.Get(policy.Parse("limits.yaml", []byte(sameFile)))(t), sameSteps)
	if told := strings.Join(want, "\n"); strings.Count(told, "\n  warned: ") < 5 {
		t.Errorf("hardly anybody was warned:\n%s", told)
	}
	for i, answer := range want { // a table in which all are allowed would show nothing
		if denied := strings.HasPrefix(answer, "429") || strings.HasPrefix(answer, "503"); denied != sameSteps[i].denied {
			t.Errorf("%s: %s", sameSteps[i].what, answer)
		}
	}
}

// playedTheSame plays a table in each way to ask, and returns what it showed in the process. The others showed the same.
func playedTheSame(t *testing.T, set core.Policies, steps []step) []string {
	t.Helper()
	return playedTheSameOn(t, func(memory core.Store) core.Store { return memory }, set, steps)
}

// playedTheSameOn is playedTheSame on a store over the one in memory.
func playedTheSameOn(t *testing.T, on func(memory core.Store) core.Store, set core.Policies, steps []step) []string {
	t.Helper()
	want := playedBy(t, inProcess, on, set, steps)
	for name, way := range map[string]func(*testing.T, *stage){"the client": byClient, "HTTP": byHTTP} {
		got := playedBy(t, way, on, set, steps) // which ends the test if a step can't be played
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s, step %d, %s:\n got %s\nwant %s", name, i, steps[i].what, got[i], want[i])
			}
		}
	}
	return want
}

// stage is where one way to ask is played.
type stage struct {
	store  core.Store
	set    core.Policies
	limit  func(http.Handler) http.Handler
	batch  func(*testing.T, *step) string // of policy jobs
	settle []func(context.Context) error  // in this order

	mu     sync.Mutex
	warned []core.Warning // since the last step. Guarded by mu.
}

func (s *stage) warnAll(all []core.Warning) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warned = append(s.warned, all...)
}

func (s *stage) warn(_ context.Context, w core.Warning) { s.warnAll([]core.Warning{w}) }

// take returns the warnings since the last call.
func (s *stage) take() []core.Warning {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.warned
	s.warned = nil
	return all
}

func inProcess(t *testing.T, s *stage) { s.ask(t, core.Config{Store: s.store}, s.set) }

// ask prepares the stage for limiters of policies.
func (s *stage) ask(t *testing.T, config core.Config, by core.Policies) {
	t.Helper()
	config.OnWarning = s.warn
	limits := nethttp.With(config)
	s.limit, s.settle = limits.Policy(by, "api"), append([]func(context.Context) error{limits.Drain}, s.settle...)
	jobs, err := by.Limiter(config, "jobs")
	if errors.Is(err, core.ErrNoPolicy) {
		return
	}
	must.OK(t, err)
	s.settle = append([]func(context.Context) error{jobs.Drain}, s.settle...)
	s.batch = func(t *testing.T, st *step) string {
		values := keyfuncs.Values{}
		if st.user != "-" {
			values["X-User"] = st.name()
		}
		granted, d := jobs.AllowAtMost(values, st.batch)
		if d.Allowed {
			for _, each := range st.spend {
				must.OK(t, report(core.NewContext(t.Context(), d), each))
			}
			d.Settle(core.Outcome{Status: max(st.status, 200)})
			return saidOfBatch(granted, 200, d.RetryAfter)
		}
		return saidOfBatch(granted, d.Status(), d.RetryAfter)
	}
}

func saidOfBatch(granted int64, status int, after time.Duration) string {
	return fmt.Sprint(status, "; granted ", granted, "; more after ", (after + time.Millisecond - 1).Milliseconds(), " ms")
}

// name returns who makes the request.
func (st *step) name() string { return cmp.Or(st.user, "ann") }

func (s *stage) serve(t *testing.T) string {
	t.Helper()
	by := must.Get(service.New(service.Config{Policies: s.set, Store: s.store}))(t)
	server := httptest.NewServer(by)
	t.Cleanup(server.Close)
	s.settle = append(s.settle, by.Drain)
	return server.URL
}

func byClient(t *testing.T, s *stage) {
	url := s.serve(t)
	remote := must.Get(client.New(client.Config{URL: url, Timeout: patience, OnOutage: client.OnOutage{Action: core.Deny}, Send: client.Fields{Headers: []string{"X-User", "X-Said"}}}))(t)
	s.ask(t, core.Config{Store: remote.Store()}, remote)
}

// spentKey is the key of a context under which a caller over HTTP notes what its handler reports.
type spentKey struct{}

type spent struct {
	all   *int64
	named map[string]int64
}

// byHTTP is a caller that knows the API and nothing else: it checks, and settles what the answer holds.
func byHTTP(t *testing.T, s *stage) {
	url := s.serve(t)
	s.batch = func(t *testing.T, st *step) string {
		headers := map[string]any{}
		if st.user != "-" {
			headers["X-User"] = st.name()
		}
		var a httpAnswer
		postJSON(t, url+"/v1/check", map[string]any{
			"policy": "jobs", "hold": true, "warnings": true, "at_most": st.batch, "request": map[string]any{"headers": headers},
		}, &a)
		s.warnAll(a.Warnings)
		if a.Reservation != "" {
			costs := map[string]int64{}
			for _, each := range st.spend {
				costs[each[1].(string)] += int64(each[0].(int))
			}
			postJSON(t, url+"/v1/settle", map[string]any{"reservation": a.Reservation, "costs": costs, "outcome": map[string]any{"status": max(st.status, 200)}}, nil)
		}
		return saidOfBatch(a.Granted, a.Status, time.Duration(a.RetryAfterMS)*time.Millisecond)
	}
	s.limit = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var a httpAnswer
			call := map[string]any{"policy": "api", "hold": true, "warnings": true, "request": map[string]any{"method": r.Method, "route": r.URL.Path, "headers": r.Header}}
			postJSON(t, url+"/v1/check", call, &a)
			s.warnAll(a.Warnings)
			for name, value := range a.Headers {
				w.Header().Set(name, value)
			}
			if a.Allowed && a.DelayMS > 0 && r.Context().Err() != nil {
				w.Header().Del("X-RateLimit-Warning") // of a charge that is given back
				postJSON(t, url+"/v1/refund", map[string]any{"reservation": a.Reservation}, nil)
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			if !a.Allowed {
				w.WriteHeader(a.Status)
				return
			}
			costs := &spent{named: map[string]int64{}}
			status := &statusWriter{ResponseWriter: w, status: 200}
			next.ServeHTTP(status, r.WithContext(context.WithValue(r.Context(), spentKey{}, costs)))
			if a.Reservation == "" {
				return
			}
			settlement := map[string]any{"reservation": a.Reservation, "costs": costs.named, "outcome": map[string]any{"status": status.status, "canceled": r.Context().Err() != nil}}
			if costs.all != nil {
				settlement["cost"] = *costs.all
			}
			postJSON(t, url+"/v1/settle", settlement, nil)
		})
	}
}

// httpAnswer is what a caller over HTTP reads of an answer.
type httpAnswer struct {
	Allowed      bool
	Status       int
	DelayMS      int64 `json:"delay_ms"`
	RetryAfterMS int64 `json:"retry_after_ms"`
	Granted      int64
	Headers      map[string]string
	Reservation  string
	Warnings     []core.Warning
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func postJSON(t *testing.T, url string, body, to any) {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(context.Background(), http.MethodPost, url, bytes.NewReader(must.Get(json.Marshal(body))(t))))(t)
	r.Header.Set("Content-Type", "application/json")
	response := must.Get(http.DefaultClient.Do(r))(t)
	defer func() { _ = response.Body.Close() }()
	var text bytes.Buffer
	must.Do(text.ReadFrom(response.Body))(t)
	if response.StatusCode != http.StatusOK {
		t.Errorf("%s: %d %s", url, response.StatusCode, &text)
		return
	}
	if to != nil {
		must.OK(t, json.Unmarshal(text.Bytes(), to))
	}
}

// playedBy plays the table by one way to ask, and returns what each step showed.
func playedBy(t *testing.T, way func(*testing.T, *stage), on func(core.Store) core.Store, set core.Policies, steps []step) (shown []string) {
	t.Helper()
	now := time.Date(2026, time.March, 2, 10, 0, 1, 0, time.UTC).UnixMicro()
	memory := core.NewMemory()
	testclock.Set(memory, func() int64 { return now })
	s := &stage{store: on(memory), set: set}
	way(t, s)
	peekers := []*core.Limiter{must.Get(set.Limiter(core.Config{Store: s.store}, "api"))(t)}
	if jobs, err := set.Limiter(core.Config{Store: s.store}, "jobs"); err == nil {
		peekers = append(peekers, jobs)
	}
	var open sync.WaitGroup
	ends := make(chan struct{})
	for i := range steps {
		st := &steps[i]
		now += st.after.Microseconds()
		answer := "closed"
		switch {
		case st.close:
			close(ends)
			open.Wait()
			ends = make(chan struct{})
		case st.open:
			entered := make(chan struct{})
			end := ends
			open.Go(func() {
				s.request(t, st, func() {
					close(entered)
					<-end
				})
			})
			<-entered
			answer = "entered"
		case st.batch > 0:
			answer = s.batch(t, st)
		default:
			answer = s.request(t, st, nil)
		}
		for _, w := range s.take() {
			answer += fmt.Sprintf("\n  warned: %+v", w)
		}
		for _, drain := range s.settle {
			must.OK(t, drain(t.Context()))
		}
		for _, user := range []string{"ann", "bea"} {
			answer += "\n  left of " + user + ":"
			for _, peeker := range peekers {
				d := must.Get(peeker.Peek(t.Context(), keyfuncs.Encode("header.x-user", user), 0))(t)
				for _, r := range d.Results() {
					answer += fmt.Sprintf(" %s %d", r.Rule.Name, r.Remaining)
				}
			}
		}
		shown = append(shown, answer)
	}
	return shown
}

// request makes a request, and returns what its client is told.
func (s *stage) request(t *testing.T, st *step, while func()) string {
	t.Helper()
	ctx, hangUp := context.WithCancel(context.Background())
	defer hangUp()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, each := range st.spend {
			if err := report(r.Context(), each); err != nil {
				t.Errorf("%s: %v", st.what, err)
			}
		}
		if while != nil {
			while()
		}
		if st.gone {
			hangUp()
		}
		w.WriteHeader(max(st.status, 200))
	})
	mux := http.NewServeMux()
	mux.Handle(st.path, s.limit(handler))
	method := st.method
	if method == "" {
		method = http.MethodGet
	}
	r := httptest.NewRequestWithContext(ctx, method, st.path, nil)
	if st.user != "-" {
		r.Header.Set("X-User", st.name())
	}
	if st.header[0] != "" {
		r.Header.Set(st.header[0], st.header[1])
	}
	if st.left {
		hangUp()
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	said := fmt.Sprint(w.Code)
	for _, name := range []string{"RateLimit", "RateLimit-Policy", "X-RateLimit-Warning", "Retry-After"} {
		said += fmt.Sprintf("; %s", w.Header().Get(name))
	}
	return said
}

// report reports a cost as a handler does: to the limiter, or to a caller that settles by itself.
func report(ctx context.Context, units []any) error {
	n := int64(units[0].(int))
	var names []string
	for _, name := range units[1:] {
		names = append(names, name.(string))
	}
	noted, ok := ctx.Value(spentKey{}).(*spent)
	if !ok {
		return core.Spend(ctx, n, names...)
	}
	for _, name := range names {
		noted.named[name] += n
	}
	if len(names) == 0 {
		if noted.all == nil {
			noted.all = new(int64)
		}
		*noted.all += n
	}
	return nil
}
