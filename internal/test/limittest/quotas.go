package limittest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// quotas are scenarios of limits that count something other than requests.
var quotas = []scenario{
	{"a cost that never fits is denied without a time to come back", func(e *env) {
		heard := new(observer)
		s := e.serve(App{Layers: e.configured(core.Config{Observe: heard, Limits: []core.Limit{
			core.PerHour(10).By(keyfuncs.ClientIP()).Named("units").CostBy(func(r keyfuncs.Request) int64 {
				n, _ := r.Query("n", 0)
				cost, _ := strconv.ParseInt(n, 10, 64)
				return cost
			}),
		}})})
		for _, path := range []string{"/?n=11", "/?n=9223372036854775807", "/?n=11"} {
			r := s.get(path)
			e.denied(path, r)
			equal(e, "Retry-After", e.only(r, "Retry-After"), "")
			equal(e, "body", r.body, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,`+
				`"detail":"The request costs more than the limit ever allows.","violated-policies":["units"]}`)
			e.remaining(path, r, "units", 10)
		}
		heard.hears(e, "GET / never fits ip:192.0.2.1*11", "GET / never fits ip:192.0.2.1*9223372036854775807", "GET / never fits ip:192.0.2.1*11")
		r := s.get("/?n=10")
		e.passes("all of it", r)
		e.remaining("all of it", r, "units", 0)
		r = s.get("/?n=11")
		equal(e, "Retry-After while the bucket is empty", e.only(r, "Retry-After"), "")
		e.wait(s.get("/?n=10"), 3600)
	}},
	{"an operation that is repeated is charged once", func(e *env) {
		const repeats = 20
		s := e.serve(App{Layers: e.layer(
			core.PerDay(2).FixedWindow().By(keyfuncs.ClientIP()).Named("payments").OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour).Repeats(repeats),
		)})
		var wg sync.WaitGroup
		for range repeats {
			wg.Go(func() { e.passes("a repeat", s.get("/", with("Idempotency-Key", "one"))) })
		}
		wg.Wait()
		r := s.get("/", with("Idempotency-Key", "two"))
		e.passes("another operation", r)
		e.remaining("after two operations", r, "payments", 0)
		e.denied("a third", s.get("/", with("Idempotency-Key", "three")))
		e.passes("a repeat when nothing is left", s.get("/", with("Idempotency-Key", "one")))
		e.denied("without an operation's key", s.get("/"))
	}},
	{"one operation's key is no pass for different requests", func(e *env) {
		const quota, others = 5, 40
		routes := []Route{}
		for _, method := range []string{"GET", "POST", "PUT"} {
			routes = append(routes, Route{Method: method, Path: "/pay/{id}", Handle: hello})
		}
		digest := keyfuncs.Custom("digest", func(r keyfuncs.Request) string { v, _ := r.Query("body", 0); return v }) // stands for a digest of the body
		key := keyfuncs.Header("Idempotency-Key")
		for name, c := range map[string]struct {
			operation keyfuncs.Func
			request   func(n int) (method, path string)
			passes    int
		}{
			"paths":                    {key, func(n int) (method, path string) { return "POST", fmt.Sprint("/pay/", n) }, quota},
			"methods":                  {key, func(n int) (method, path string) { return []string{"GET", "POST", "PUT"}[n%3], "/pay/1" }, 3 + 3*3 + 2 + 2*3},
			"spellings of a path":      {key, func(n int) (method, path string) { return "POST", "/pay/" + strings.Repeat("%31", n+1) }, quota},
			"bodies":                   {key, func(n int) (method, path string) { return "POST", "/pay/1" }, quota * (1 + 3)},
			"bodies that are digested": {keyfuncs.Join(key, digest), func(n int) (method, path string) { return "POST", fmt.Sprint("/pay/1?body=", n) }, quota},
		} {
			s := e.serve(App{Layers: e.layer(core.PerDay(quota).FixedWindow().By(keyfuncs.ClientIP()).Named("payments").OncePer(c.operation, time.Hour)), Routes: routes})
			passed := 0
			for n := range others {
				method, path := c.request(n)
				if s.do(method, path, with("Idempotency-Key", "one")).status == http.StatusOK {
					passed++
				}
			}
			equal(e, "different "+name+" that pass", passed, c.passes)
		}
	}},
	{"a quota of a month does not say how long that is", func(e *env) {
		s := e.serve(App{Layers: e.layer(core.PerMonth(100, time.UTC).By(keyfuncs.Everyone()).Named("plan"))})
		r := s.get("/")
		e.passes("the first", r)
		equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"plan";q=100`)
		e.remaining("the first", r, "plan", 99)
	}},
	{"what remains of a month is told beside what remains of a second, and when it is used up", func(e *env) {
		for began := time.Now().UTC(); ; began = time.Now().UTC() {
			end := time.Date(began.Year(), began.Month()+1, 1, 0, 0, 0, 0, time.UTC)
			config := func(limits ...core.Limit) []Layer {
				return e.configured(core.Config{Headers: core.XRateLimitDelta | core.XQuota, Limits: limits})
			}
			id := strconv.FormatInt(began.UnixNano(), 36)
			s := e.serve(App{
				Layers: config(core.PerMonth(3, time.UTC).By(keyfuncs.Tenant("tenant")).Named("plan" + id)),
				Routes: []Route{
					{Method: "GET", Path: "/", Handle: hello},
					{Method: "GET", Path: "/slow", Handle: hello, Layers: config(core.PerHour(1).By(keyfuncs.Everyone()).Named("slow" + id))},
				},
			})
			plan := func(left int) string {
				return fmt.Sprintf("\nX-Quota-Limit: 3\nX-Quota-Remaining: %d\nX-Quota-Reset: %d", left, end.Unix())
			}
			allowed, slow := s.get("/"), []response{s.get("/slow"), s.get("/slow")}
			denied := s.get("/")
			if now := time.Now().UTC(); now.Month() != began.Month() {
				continue
			}
			e.passes("the first", allowed)
			quota := func(r response) string {
				_, told, _ := strings.Cut(e.told(r), "\nX-Quota-Limit")
				return "\nX-Quota-Limit" + told
			}
			equal(e, "the first", quota(allowed), plan(2))
			equal(e, "X-RateLimit-Limit of another route", e.only(slow[0], "X-Ratelimit-Limit"), "1")
			equal(e, "another route", quota(slow[0]), plan(1))
			e.denied("by the other limit", slow[1])
			equal(e, "X-RateLimit-Limit of its denial", e.only(slow[1], "X-Ratelimit-Limit"), "1")
			equal(e, "its denial", quota(slow[1]), plan(0))
			e.denied("the month", denied)
			equal(e, "the month's denial", quota(denied), plan(0))
			detail := fmt.Sprintf(`"detail":"Your plan's 3 requests for %s are used up; the next period begins on 1 %s."`, began.Month(), end.Month())
			equal(e, "body has "+detail, strings.Contains(denied.body, detail), true)
			return
		}
	}},
	{"beyond the soft limit a client is warned, and beyond the hard one denied", func(e *env) {
		s := e.serve(App{Layers: e.layer(core.PerDay(4).FixedWindow().By(keyfuncs.Everyone()).Named("plan").Soft(2))})
		for _, want := range []string{"", "", `over soft limit; policy="plan"; used=75%`, `over soft limit; policy="plan"; used=100%`} {
			r := s.get("/")
			e.passes("below the hard limit", r)
			equal(e, "X-RateLimit-Warning", e.only(r, "X-Ratelimit-Warning"), want)
		}
		e.denied("beyond it", s.get("/"))
	}},
	{"a share that is kept free is for requests of its condition", func(e *env) {
		s := e.serve(App{
			Layers: e.layer(core.PerDay(4).FixedWindow().By(keyfuncs.Everyone()).Named("service").KeepFree(0.5, keyfuncs.Methods(http.MethodPost))),
			Routes: posts,
		})
		e.passes("one of two", s.get("/"))
		e.passes("the other", s.get("/"))
		e.denied("of what is reserved", s.get("/"))
		e.passes("for those it is reserved for", s.do("POST", "/"))
		e.passes("all of it", s.do("POST", "/"))
		e.denied("and no more", s.do("POST", "/"))
	}},
}
