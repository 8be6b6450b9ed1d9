package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/program"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// both stops the servers of PostgreSQL and Redis after the tests.
type both struct{ m *testing.M }

func (b both) Run() int { return redistest.Main(b.m) }

func TestMain(m *testing.M) {
	patience = time.Minute // for PostgreSQL and Redis on a busy machine
	edge.AwayFromMonth(3 * time.Minute)
	os.Exit(pgtest.Main(both{m}))
}

// running is the example, as its reader sees it.
type running struct {
	url, password string
	introduction  string
	stop          func()
}

var (
	consoleURL = regexp.MustCompile(`(http://127\.0\.0\.1:\d+)/console/`)
	loggedIn   = regexp.MustCompile(`billing, password (\S+)`)
)

// start runs the example. It has to stop by itself, when the test ends at the latest.
func start(t *testing.T, env map[string]string) running {
	t.Helper()
	text, stop := program.Inside(t, run, env, "Ctrl-C")
	return running{consoleURL.FindStringSubmatch(text)[1], loggedIn.FindStringSubmatch(text)[1], text, stop}
}

// request is what a test sends beside method, path and form.
type request struct {
	header   http.Header
	host     string
	password string
}

// response is what came back.
type response struct {
	status int
	header http.Header
	body   string
}

// send sends a request. It follows no redirection.
func (r running) send(t *testing.T, method, path string, form url.Values, with request) response {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), method, r.url+path, strings.NewReader(form.Encode())))(t)
	for name, values := range with.header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if with.password != "" {
		req.SetBasicAuth("billing", with.password)
	}
	req.Host = with.host
	res := must.Get(http.DefaultTransport.RoundTrip(req))(t)
	defer res.Body.Close()
	return response{res.StatusCode, res.Header, string(must.Get(io.ReadAll(res.Body))(t))}
}

// page returns a page of the console.
func (r running) page(t *testing.T, path string) string {
	t.Helper()
	res := r.send(t, "GET", path, nil, request{password: r.password})
	if res.status != http.StatusOK {
		t.Fatalf("%s: %d", path, res.status)
	}
	return res.body
}

// tour runs the commands that the example prints.
func (r running) tour(t *testing.T) {
	t.Helper()
	program.NeedCurl(t)
	tour := regexp.MustCompile(`(?m)^  .*$`).FindAllString(r.introduction, -1)
	check.Equal(t, "commands of the tour", len(tour), 10)
	program.Follow(t, tour)
}

// eachWay runs a test on memory, and on PostgreSQL and Redis.
func eachWay(t *testing.T, f func(t *testing.T, env map[string]string)) {
	t.Run("in memory", func(t *testing.T) {
		t.Parallel()
		f(t, nil)
	})
	t.Run("on PostgreSQL and Redis", func(t *testing.T) {
		t.Parallel()
		f(t, map[string]string{"DATABASE_URL": pgtest.Shared(t).Database(t), "REDIS_ADDR": redistest.StartTCP(t).Addr()})
	})
}

func TestTourReachesWhatItPromises(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, env map[string]string) {
		r := start(t, env)
		r.tour(t)
		page := r.page(t, "/console/tenants/acme")
		for _, want := range []string{
			"<dt>Plan</dt><dd>team</dd>", "<dt>Included</dt><dd>1,000</dd>", "<dt>Credits</dt><dd>10, ", "payment-1", "<td>credit</td>", `<option value="team" selected>`,
		} {
			if !strings.Contains(page, want) {
				t.Errorf("the page of acme lacks %q:\n%s", want, page)
			}
		}
		wait.Until(t, "the notices have arrived", func() bool {
			all := r.page(t, "/console/")
			return strings.Contains(all, "80 %</td>") && strings.Contains(all, "90 %</td>") && strings.Contains(all, "100 %</td>")
		})
		if all := r.page(t, "/console/"); !strings.Contains(all, ">Globex</a>") || strings.Count(all, "<td>tenant:acme</td>") < 3 {
			t.Errorf("the list of tenants:\n%s", all)
		}
	})
}

// What was used, sold and changed is there after a restart, also if Redis has lost everything.
func TestARestartLosesNothing(t *testing.T) {
	t.Parallel()
	redis := redistest.StartTCP(t)
	env := map[string]string{"DATABASE_URL": pgtest.Shared(t).Database(t), "REDIS_ADDR": redis.Addr()}
	r := start(t, env)
	key := request{header: http.Header{"X-API-Key": {"acme-key"}}}
	for range 7 {
		if res := r.send(t, "GET", "/v1/report", nil, key); res.status != http.StatusOK {
			t.Fatalf("a report: %d", res.status)
		}
	}
	r.send(t, "POST", "/console/tenants/acme/plan", url.Values{"plan": {"team"}}, request{password: r.password})
	r.stop()
	must.OK(t, redis.Client(t).FlushAll(t.Context()).Err())
	r = start(t, env)
	var res response
	used := 7
	wait.Until(t, "the plan is known", func() bool { // which a request waits 100 ms for
		res = r.send(t, "GET", "/v1/report", nil, key)
		used++
		return res.header.Get("X-Quota-Limit") == "1200"
	})
	if left := res.header.Get("X-Quota-Remaining"); left != fmt.Sprint(1200-used) {
		t.Errorf("after the restart %s of 1200 are left, want %d", left, 1200-used)
	}
}

// The console is for who has the password, from this host and from its own pages.
func TestWhoMayUseTheConsole(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	form := url.Values{"operation": {"one"}, "units": {"5"}}
	for _, tt := range []struct {
		name   string
		with   request
		status int
	}{
		{"without a password", request{}, 401},
		{"with another password", request{password: "guess"}, 401},
		{"from a page of another site", request{password: r.password, header: http.Header{"Sec-Fetch-Site": {"cross-site"}}}, 403},
		{"from a page of another port", request{password: r.password, header: http.Header{"Sec-Fetch-Site": {"same-site"}}}, 403},
		{"from an old browser on another site", request{password: r.password, header: http.Header{"Origin": {"https://evil.example"}}}, 403},
		{"under a name that leads to this machine", request{password: r.password, host: "evil.example"}, 421},
		{"from its own page", request{password: r.password, header: http.Header{"Sec-Fetch-Site": {"same-origin"}}}, 303},
		{"by curl", request{password: r.password}, 303},
		{"under the name localhost", request{password: r.password, host: "localhost:8080"}, 303},
	} {
		if res := r.send(t, "POST", "/console/tenants/globex/top-up", form, tt.with); res.status != tt.status {
			t.Errorf("%s: %d, want %d: %s", tt.name, res.status, tt.status, res.body)
		}
	}
	if page := r.page(t, "/console/tenants/globex"); !strings.Contains(page, "<dt>Credits</dt><dd>5, ") {
		t.Errorf("all that together did not credit 5 units:\n%s", page)
	}
	res := r.send(t, "GET", "/console/", nil, request{password: r.password})
	if csp := res.header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") {
		t.Errorf("Content-Security-Policy: %q", csp)
	}
}

// What is wrong is said, and nothing changes.
func TestBadInput(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	with := request{password: r.password}
	post := func(path string, pairs ...string) int {
		form := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			form.Set(pairs[i], pairs[i+1])
		}
		res := r.send(t, "POST", path, form, with)
		return res.status
	}
	const topUp, changePlan = "/console/tenants/acme/top-up", "/console/tenants/acme/plan"
	check.Equal(t, "a top-up", post(topUp, "operation", "<script>alert(1)</script>", "units", "7"), 303)
	for name, got := range map[string][2]int{
		"a tenant that is none":          {post("/console/tenants/nobody/top-up", "operation", "x", "units", "1"), 404},
		"no units":                       {post(topUp, "operation", "x"), 422},
		"zero units":                     {post(topUp, "operation", "x", "units", "0"), 422},
		"fewer than zero units":          {post(topUp, "operation", "x", "units", "-5"), 422},
		"more units than a number holds": {post(topUp, "operation", "x", "units", "99999999999999999999"), 422},
		"no operation":                   {post(topUp, "units", "1"), 422},
		"a plan that is none":            {post(changePlan, "plan", "gold"), 422},
		"an operation of another amount": {post(topUp, "operation", "<script>alert(1)</script>", "units", "8"), 409},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %d, want %d", name, got[0], got[1])
		}
	}
	page := r.page(t, "/console/tenants/acme?done=%3Cscript%3E")
	if !strings.Contains(page, "<dt>Credits</dt><dd>7, ") || strings.Contains(page, "<script>") {
		t.Errorf("the page:\n%s", page)
	}
	if res := r.send(t, "GET", "/v1/report", nil, request{header: http.Header{"X-API-Key": {"nobody"}}}); res.status != 401 {
		t.Errorf("an API key that is none: %d", res.status)
	}
	if res := r.send(t, "POST", "/hooks/notices", url.Values{}, request{}); res.status != 401 {
		t.Errorf("a notice without a signature: %d", res.status)
	}
}

// What can't work is said at the start.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	for want, env := range map[string][2]string{
		"on loopback":               {"ADDR", "0.0.0.0:8080"},
		"REDIS_ADDR needs":          {"REDIS_ADDR", "localhost:6379"},
		"DATABASE_URL must be like": {"DATABASE_URL", "postgres://%"},
	} {
		err := run(t.Context(), func(name string) string { return map[string]string{env[0]: env[1]}[name] }, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s=%s: %v, want %q", env[0], env[1], err, want)
		}
	}
}
