package inspect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/inspect"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

type limit struct {
	Name, Numbers, Keys string
	Shadow, Here        bool
	CanBlock            bool `json:"can_block"`
}

type overview struct {
	Actor     string
	MayAct    bool `json:"may_act"`
	Instances []struct{ Name string }
	Store     struct {
		State  string
		Shared bool
		Outage *struct{ Class, Node string }
		Nodes  []struct {
			Node, Breaker, Class string
			Errors               int64
		}
		Events []struct{ Kind string }
	}
	Limits []limit
	Denied []struct {
		Limit, Key, Label string
		Minute            struct{ Requests, Denied int64 }
		Denial            *struct{ Why, Reason string }
	}
}

func (in *instance) overview(t *testing.T) (o overview) {
	t.Helper()
	in.must(t, "GET", "api/v1/overview", "", &o)
	return o
}

func TestTheOverviewSaysWhoIsDeniedAndWhy(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, s, _ core.Store) {
		in := start(t, s)
		for range 12 {
			in.request("mallory")
		}
		in.request("alice")
		o := in.overview(t)
		check.All(t, "for whom, who may act", []any{o.Actor, o.MayAct}, "olga", true)
		i := slices.IndexFunc(o.Limits, func(l limit) bool { return l.Name == "per-user" })
		if i < 0 {
			t.Fatalf("per-user is missing in %+v", o.Limits)
		}
		check.Equal(t, "per-user", o.Limits[i], limit{Name: "per-user", Numbers: "5 per 1h", Keys: "header.x-user", Here: true, CanBlock: true})
		if len(o.Denied) == 0 {
			t.Fatal("nobody is denied")
		}
		d := o.Denied[0]
		check.All(t, "the first denied client", []any{d.Limit, d.Key}, "per-user", "header.x-user:mallory")
		if _, bubble := s.(*memstore.Store); bubble { // elsewhere a minute can end, and what was counted in it fades
			check.All(t, "denials and requests of the minute", []any{d.Minute.Denied, d.Minute.Requests}, 7, 12)
		}
		check.Equal(t, "label", d.Label, "Mallory <script>alert(1)</script>")
		if d.Denial == nil || !strings.HasPrefix(d.Denial.Why, "Used up: nothing left of 5 per 1h. Told to wait ") {
			t.Errorf("its denial is %+v", d.Denial)
		}
	})
}

func TestAClientIsExplainedByWhateverItIsKnownBy(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, s, _ core.Store) {
		in := start(t, s)
		for range 12 {
			in.request("mallory")
		}
		for _, query := range []string{"header.x-user:mallory", "mallory", " mallory ", "Mallory <script>alert(1)</script>"} {
			var e explanation
			text := must.Get(json.Marshal(map[string]string{"query": query}))(t)
			in.must(t, "POST", "api/v1/explain", string(text), &e)
			must.Equal(t, fmt.Sprintf("keys of %q", query), len(e.Keys), 1)
			k := e.Keys[0]
			if k.Key != "header.x-user:mallory" || k.State != "denied" || !strings.HasPrefix(k.Summary, "Denied by per-user. All 5 used, and 5 come back per 1h. A cost of 1 fits in ") {
				t.Errorf("%q: %s is %s: %s", query, k.Key, k.State, k.Summary)
			}
			if len(k.Limits) != 2 || k.Limits[0].Limit != "per-user" || k.Limits[0].Used != 5 || k.Limits[0].LastDenial == nil ||
				k.Limits[1].Limit != "trial" || k.Limits[1].State != "denied" || !slices.Equal(k.Unused, []string{"global"}) {
				t.Errorf("%q: %+v; unused %v", query, k.Limits, k.Unused)
			}
		}
		var e explanation
		in.must(t, "POST", "api/v1/explain", `{"query":"nobody"}`, &e)
		if len(e.Keys) != 1 || e.Keys[0].State != "unknown" || len(e.Keys[0].Limits) != 0 {
			t.Errorf("a stranger is %+v", e.Keys)
		}
	})
}

func TestWhileTheStoreIsOutTheLastDenialIsStillExplained(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	in := start(t, s, func(c *inspect.Config) { c.Store, c.Timeout = silent{s}, 50*time.Millisecond })
	for range 7 {
		in.request("mallory")
	}
	s.Registry().Report(core.Event{Kind: store.EventOutageBegan, Class: store.ClassTimeout, Node: "10.0.0.1:6379", Err: fmt.Errorf("key user:secret")})
	s.Registry().Report(core.Event{Kind: store.EventBreakerOpened, Class: store.ClassTimeout, Node: "10.0.0.1:6379"})
	s.Registry().Report(core.Event{Kind: store.EventStoreError, Class: store.ClassTimeout, Node: "10.0.0.2:6379", Count: 3})
	var e explanation
	in.must(t, "POST", "api/v1/explain", `{"query":"mallory"}`, &e)
	k := e.Keys[0]
	if !strings.Contains(k.Error, "timeout") || len(k.Limits) == 0 || k.Limits[0].LastDenial == nil || !strings.Contains(k.Summary, "The last denial was by per-user: used up: nothing left of 5 per 1h") {
		t.Errorf("got %+v", k)
	}
	o := in.overview(t).Store
	if o.State != "outage" || o.Outage == nil || o.Outage.Class != "timeout" || len(o.Nodes) != 2 || o.Nodes[0].Breaker != "open" || o.Nodes[1].Errors != 3 || len(o.Events) != 3 {
		t.Errorf("the store is %+v", o)
	}
	if _, text := in.call(t, "GET", "api/v1/health", ""); strings.Contains(text, "secret") {
		t.Errorf("an error's text is shown: %s", text)
	}
	s.Registry().Report(core.Event{Kind: store.EventBreakerClosed, Node: "10.0.0.1:6379"})
	h := in.health(t)
	check.All(t, "the store after the breaker has closed", []any{h.State, h.Nodes[0].Breaker}, "outage", "closed")
	s.Registry().Report(core.Event{Kind: store.EventOutageEnded, Duration: time.Second})
	h = in.health(t)
	check.All(t, "the store after the outage", []any{h.State, h.Outage == nil}, "ok", true)
}

// A few time-outs at once are a slow store, which is summed up, and everything else that has ended was an
// outage: the page can say how many there were.
func TestOutagesAndSlownessAreSummedUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		in := start(t, s)
		hear := func(class store.Class, errors int64, lasted time.Duration) {
			s.Registry().Report(core.Event{Kind: store.EventOutageBegan, Class: class, Node: "redis:6379"})
			s.Registry().Report(core.Event{Kind: store.EventStoreError, Class: class, Node: "redis:6379", Count: 1})
			time.Sleep(lasted)
			s.Registry().Report(core.Event{Kind: store.EventOutageEnded, Class: class, Count: errors, Duration: lasted})
		}
		hear(store.ClassReadOnly, 1, 5*time.Second)
		for range 126 {
			hear(store.ClassTimeout, 1, 2*time.Second)
		}
		h := in.health(t)
		check.Equal(t, "what has ended", fmt.Sprint(h.Ended, h.Slow), "{1 5000} {126 126}")
		check.Equal(t, "events, newest first", fmt.Sprint(h.Events), "[{slow 126} {outage ended 1} {store error 1} {outage began 0}]")
		hear(store.ClassTimeout, 400, 9*time.Second)
		h = in.health(t)
		check.Equal(t, "what has ended after a long outage", fmt.Sprint(h.Ended, h.Slow), "{2 9000} {126 126}")
	})
}

type state struct {
	State  string
	Outage *struct{ Class string }
	Nodes  []struct{ Breaker string }
	Ended  struct {
		Outages int64
		Longest int64 `json:"longest_ms"`
	}
	Slow   struct{ Times, Timeouts int64 }
	Events []struct {
		Kind  string
		Count int64
	}
}

func (in *instance) health(t *testing.T) (s state) {
	t.Helper()
	in.must(t, "GET", "api/v1/health", "", &s)
	return s
}

func TestClientsOfOneLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := start(t, memstore.New())
		for n, user := range []string{"a", "b", "c"} {
			for range 4 + n {
				in.request(user)
			}
		}
		for query, want := range map[string]string{
			"limit=per-user":             "c",
			"limit=per-user&by=denied":   "c",
			"limit=per-user&by=busy":     "c b a",
			"limit=per-user&by=near":     "c b a",
			"limit=per-user&by=near&n=1": "c",
		} {
			var list struct{ Clients []struct{ Key string } }
			in.must(t, "GET", "api/v1/clients?"+query, "", &list)
			var keys []string
			for _, c := range list.Clients {
				keys = append(keys, strings.TrimPrefix(c.Key, "header.x-user:"))
			}
			check.Equal(t, query, strings.Join(keys, " "), want)
		}
		for query, want := range map[string]int{
			"": 404, "limit=none": 404, "limit=per-user&by=name": 400, "limit=per-user&n=0": 400, "limit=per-user&n=999": 400, "limit=per-user&n=x": 400,
		} {
			in.wantStatus(t, want, "GET", "api/v1/clients?"+query, "")
		}
		var limits struct {
			Limits []struct {
				Name      string
				Penalized bool
				Suggest   *struct{ Quota, Clients int64 }
			}
		}
		in.must(t, "GET", "api/v1/limits?limit=per-user", "", &limits)
		if len(limits.Limits) != 1 || limits.Limits[0].Suggest != nil || !limits.Limits[0].Penalized {
			t.Errorf("got %+v, want no suggestion for a limit with a penalty", limits.Limits)
		}
		in.must(t, "GET", "api/v1/limits?limit=trial", "", &limits)
		if len(limits.Limits) != 1 || limits.Limits[0].Suggest == nil || limits.Limits[0].Suggest.Quota != 6 || limits.Limits[0].Suggest.Clients != 3 {
			t.Errorf("got %+v, want a suggestion of 6", limits.Limits)
		}
		in.wantStatus(t, http.StatusNotFound, "GET", "api/v1/limits?limit=none", "")
	})
}

func TestThePageIsMountedAnywhere(t *testing.T) {
	t.Parallel()
	in := start(t, memstore.New())
	for _, test := range []struct {
		path, location string
		status         int
	}{
		{"/", "", 200},
		{"/ops/limits/", "", 200},
		{"/ops/limits/app.js", "", 200},
		{"/ops/limits/api/v1/overview", "", 200},
		{"/api/v1/api/v1/overview", "", 200},
		{"/ops/limits", "./limits/", 303},
		{"/ops/a:b", "./a:b/", 303},
		{"//evil.example", "", 404},
		{"//evil/", "", 200},
		{"/%2f%2fevil", "./evil/", 303},
		{"/ops/favicon.ico", "", 404},
		{"/ops/index.html", "", 404},
		{"/ops/api/v1/", "", 404},
		{"/ops/api/v1/none", "", 404},
		{"/ops/api/v1/overview/", "", 404},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+test.path, http.NoBody)
		r.SetBasicAuth("olga", operator)
		w := httptest.NewRecorder()
		in.page.ServeHTTP(w, r)
		check.All(t, test.path, []any{w.Code, w.Header().Get("Location")}, test.status, test.location)
	}
	in.wantStatus(t, http.StatusMethodNotAllowed, "POST", "", "")
}

func TestTheWholePageIsSmall(t *testing.T) {
	t.Parallel()
	in := start(t, memstore.New())
	_, page := in.call(t, "GET", "", "")
	total := len(page)
	for _, rest := range []string{"src=\"", "href=\""} {
		for _, part := range strings.Split(page, rest)[1:] {
			name, _, _ := strings.Cut(part, `"`)
			if strings.HasPrefix(name, "#") || strings.HasPrefix(name, "https://") {
				continue // nothing that the browser loads
			}
			status, body := in.call(t, "GET", name, "")
			check.Equal(t, "the status of "+name, status, http.StatusOK)
			total += len(body)
		}
	}
	if total > 60<<10 {
		t.Errorf("it has %d bytes", total)
	}
}

// counting counts what is asked of a store.
type counting struct {
	core.Store
	lists atomic.Int64
}

func (c *counting) Blocks(ctx context.Context, rules []*core.Rule) iter.Seq2[store.Blocked, error] {
	c.lists.Add(1)
	return c.Store.Blocks(ctx, rules)
}

func TestManyPagesCostAsMuchAsOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &counting{Store: memstore.New()}
		in := start(t, s)
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				for range 5 {
					in.must(t, "GET", "api/v1/blocks", "", nil)
					in.must(t, "GET", "api/v1/overview", "", nil)
				}
			})
		}
		group.Wait()
		check.Equal(t, "lists of blocks that 200 requests cost the store", s.lists.Load(), 1)
	})
}
