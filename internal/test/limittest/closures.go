package limittest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/stdhttp"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

// Closures are keys and conditions over the framework's own request, by the adapter's Key and
// Matches.
type Closures struct {
	Param  func(kind, name string) keyfuncs.Func  // a parameter of the path
	Header func(kind, name string) keyfuncs.Func  // a header
	Has    func(header string) keyfuncs.Condition // whether there is a header

	NoHTTP bool // the framework has no *http.Request
}

// RunClosures runs the scenarios about an adapter's Key and Matches, over memory.
func RunClosures(t *testing.T, build Build, c Closures) {
	for _, s := range closures {
		t.Run(s.name, func(t *testing.T) { s.run(inMemory(t, "", build), c) })
	}
}

var closures = []struct {
	name string
	run  func(*env, Closures)
}{
	{"a closure over the framework's request makes the key, which outlives the request", func(e *env, c Closures) {
		var mu sync.Mutex
		var keys []string
		layer := e.configured(core.Config{
			Limits: []core.Limit{core.PerHour(2).By(c.Param("item", "id")).Named("item").WarnAt(0.5)},
			OnWarning: func(_ context.Context, w core.Warning) {
				mu.Lock()
				defer mu.Unlock()
				keys = append(keys, w.Key)
			},
		})
		s := e.serve(App{Routes: []Route{{Method: "GET", Path: "/items/{id}", Layers: layer, Handle: hello}}})
		base, client := s.server.Listen(e), e.client()
		for range 2 {
			for i := range 20 { // over one connection, whose buffers the framework may reuse
				e.passes("item", e.fetch(client, "GET", fmt.Sprintf("%s/items/item-%d", base, i)))
			}
		}
		e.denied("a third", e.fetch(client, "GET", base+"/items/item-7"))
		mu.Lock()
		defer mu.Unlock()
		equal(e, "warnings", len(keys), 20)
		for i, key := range keys {
			equal(e, "key", key, fmt.Sprintf("item:item-%d", i))
		}
	}},
	{"a closure that returns nothing makes no key", func(e *env, c Closures) {
		key := c.Header("tenant", "X-Tenant")
		s := e.serve(App{Layers: e.layer(core.PerHour(1).By(key).Named("shared"))})
		e.passes("first", s.get("/"))
		e.denied("second", s.get("/"))
		e.passes("with a key", s.get("/", with("X-Tenant", "a")))
		s = e.serve(App{Layers: e.layer(core.PerHour(9).By(key, keyfuncs.ClientIP()).Named("denied").OnMissingKey(core.DenyRequest))})
		equal(e, "allowed without a key", s.get("/").status < 400, false)
		e.passes("with a key", s.get("/", with("X-Tenant", "a")))
	}},
	{"what wraps a request by embedding it is the same request", func(e *env, c Closures) {
		item, routes := c.Param("item", "id"), keyfuncs.Routes("/items/:id", "/items/{id}")
		same := keyfuncs.Matches(func(r keyfuncs.Request) bool {
			wrapped := struct{ keyfuncs.Request }{r}
			var keys [2]string
			for i, r := range []keyfuncs.Request{r, wrapped} {
				key, _ := item.Append(nil, r)
				addr, _ := keyfuncs.Framework().Addr(r)
				keys[i] = fmt.Sprint(string(key), keyfuncs.ParamOf(r, "id"), routes.Ask(r), addr, has[keyfuncs.Router](r),
					has[keyfuncs.Forks](r), has[keyfuncs.RouteAdvice](r), has[keyfuncs.PlaceAdvice](r), has[keyfuncs.FrameworkAdvice](r))
			}
			equal(e, "a wrapped request", keys[1], keys[0])
			return keys[0] == keys[1] && strings.HasPrefix(keys[0], "item:7")
		})
		s := e.serve(App{Routes: []Route{{Method: "GET", Path: "/items/{id}", Layers: e.layer(all("same", 1).When(same)), Handle: hello}}})
		e.passes("first", s.get("/items/7"))
		e.denied("second", s.get("/items/7"))
	}},
	{"a closure over the framework's request is a condition", func(e *env, c Closures) {
		store := e.counting()
		s := e.serve(App{Layers: e.configured(core.Config{
			Store:  store,
			Limits: []core.Limit{all("batch", 1).When(keyfuncs.All(c.Has("X-Batch"), keyfuncs.Not(c.Has("X-Free"))))},
			Bypass: []keyfuncs.Condition{c.Has("X-Internal")},
		})})
		for range 2 {
			e.silent("no batch", s.get("/"))
			e.silent("a free batch", s.get("/", with("X-Batch", "1"), with("X-Free", "1")))
			e.silent("bypassed", s.get("/", with("X-Batch", "1"), with("X-Internal", "1")))
		}
		equal(e, "round trips", store.asked(), 0)
		e.passes("a batch", s.get("/", with("X-Batch", "1")))
		e.denied("a batch", s.get("/", with("X-Batch", "1")))
	}},
	{"a key or condition of another framework panics at start-up", func(e *env, c Closures) {
		type other struct{}
		native := func(keyfuncs.Request) (*other, bool) { return nil, false }
		key := adapter.Key("other", native, func(*other) string { return "x" })
		condition := adapter.Matches(native, func(*other) bool { return true })
		everyone := core.PerHour(1).By(keyfuncs.Everyone()).Named("mine")
		for what, config := range map[string]core.Config{
			"key":       {Limits: []core.Limit{core.PerHour(1).By(key).Named("mine")}},
			"joined":    {Limits: []core.Limit{core.PerHour(1).By(keyfuncs.ClientIP(), keyfuncs.First(key, keyfuncs.ClientIP())).Named("mine")}},
			"operation": {Limits: []core.Limit{everyone.OncePer(key, 3600e9)}},
			"When":      {Limits: []core.Limit{everyone.When(keyfuncs.Any(condition, keyfuncs.Methods("GET")))}},
			"Unless":    {Limits: []core.Limit{everyone.Unless(condition)}},
			"KeepFree":  {Limits: []core.Limit{core.PerHour(10).By(keyfuncs.Everyone()).Named("mine").KeepFree(0.5, keyfuncs.All(condition))}},
			"Bypass":    {Limits: []core.Limit{everyone}, Bypass: []keyfuncs.Condition{condition}},
			"fallback":  {Limits: []core.Limit{everyone}, Fallback: core.Fallback{Limits: []core.Limit{core.PerHour(1).By(key).Named("mine")}}},
		} {
			func() {
				defer func() {
					message := fmt.Sprint(recover())
					contains(e, what, message, "reads a *limittest.other, which requests of the adapter")
					equal(e, what+": says whose", strings.Contains(message, `limit "mine"`) || strings.Contains(message, "Config.Bypass"), true)
				}()
				e.serve(App{Layers: e.configured(config)})
			}()
		}
	}},
	{"without an adapter a closure has no key, and its condition takes the safe side", func(e *env, c Closures) {
		r := outside{stdhttp.Of(httptest.NewRequestWithContext(e.Context(), "GET", "/", nil))}
		everyone := core.PerHour(9).By(keyfuncs.Everyone()).Named("limit")
		keyed := core.PerHour(9).By(c.Header("tenant", "X-Tenant")).Named("limit").OnMissingKey(core.DenyRequest)
		d := core.Must(core.New(core.Config{Store: e.newStore(e), Limits: []core.Limit{keyed}})).Allow(r)
		equal(e, "without the key", d.Reason, core.ReasonMissingKey)
		for what, config := range map[string]core.Config{
			"When":   {Limits: []core.Limit{everyone.When(c.Has("X-Batch"))}},
			"Unless": {Limits: []core.Limit{everyone.Unless(c.Has("X-Batch"))}},
			"Bypass": {Limits: []core.Limit{everyone}, Bypass: []keyfuncs.Condition{c.Has("X-Batch")}},
		} {
			config.Store = e.newStore(e)
			d := core.Must(core.New(config)).Allow(r)
			equal(e, what+": limits that apply", len(d.Results()), 1)
		}
	}},
	{"a key over an *http.Request serves all adapters over net/http", func(e *env, c Closures) {
		defer func() { equal(e, "panics", recover() != nil, c.NoHTTP) }()
		key := nethttp.Key("tenant", func(r *http.Request) string { return r.Header.Get("X-Tenant") })
		is := nethttp.Matches(func(r *http.Request) bool { return r.Method == "GET" })
		s := e.serve(App{Layers: e.layer(core.PerHour(1).By(key).When(is).Named("tenant"))})
		e.passes("first", s.get("/", with("X-Tenant", "a")))
		e.denied("second", s.get("/", with("X-Tenant", "a")))
		e.passes("another", s.get("/", with("X-Tenant", "b")))
	}},
	{"a closure cannot take a kind that means something else", func(e *env, c Closures) {
		for _, kind := range []string{"ip", "route", "", "A", "a:b"} {
			_, err := core.New(core.Config{Store: e.newStore(e), Limits: []core.Limit{core.PerHour(1).By(c.Header(kind, "X"))}})
			if err == nil {
				e.Errorf("kind %q: no error", kind)
			}
		}
	}},
}

// outside is a request of no adapter.
type outside struct{ keyfuncs.Request }

// Value returns nothing: no adapter has made the request.
func (outside) Value(any) any { return nil }

// StdClosures returns the closures of an adapter whose Key and Matches take an *http.Request.
func StdClosures(
	key func(string, func(*http.Request) string) keyfuncs.Func, matches func(func(*http.Request) bool) keyfuncs.Condition,
	param func(*http.Request, string) string,
) Closures {
	return Closures{
		Param: func(kind, name string) keyfuncs.Func {
			return key(kind, func(r *http.Request) string { return param(r, name) })
		},
		Header: func(kind, name string) keyfuncs.Func {
			return key(kind, func(r *http.Request) string { return r.Header.Get(name) })
		},
		Has: func(name string) keyfuncs.Condition {
			return matches(func(r *http.Request) bool { return r.Header.Get(name) != "" })
		},
	}
}

// has reports whether a request is a T.
func has[T any](r keyfuncs.Request) bool {
	_, ok := keyfuncs.As[T](r)
	return ok
}
