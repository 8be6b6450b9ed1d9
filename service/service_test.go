package service

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestMain(m *testing.M) {
	edge.AwayFrom(time.Hour, time.Minute) // which fixed windows end with
	m.Run()
}

// policies are policies by name, in code.
type policies map[string][]core.Limit

func (p policies) Limiter(config core.Config, name string) (*core.Limiter, error) {
	limits, ok := p[name]
	if !ok {
		return nil, core.ErrNoPolicy
	}
	config.Limits, config.Version = limits, "v1"
	return core.New(config)
}

func (p policies) Names() (all []string) {
	for name := range p {
		all = append(all, name)
	}
	return all
}

// testPolicies have one of each kind.
var testPolicies = policies{
	"api": {
		core.PerHour(5).FixedWindow().By(keyfuncs.ClientIP()).Named("ip"),
		core.PerDay(100).By(keyfuncs.User("user")).Named("user").OnMissingKey(core.SkipLimit),
	},
	"key":    {core.PerHour(3).FixedWindow().By(keyfuncs.APIKey("X-API-Key")).Named("key").OnMissingKey(core.DenyRequest)},
	"tokens": {core.PerHour(100).By(keyfuncs.User("user")).Named("requests"), core.PerHour(1000).FixedWindow().By(keyfuncs.User("user")).Named("tokens")},
	"plan": {core.PerHour(2).By(keyfuncs.Tenant("tenant")).Named("plan").Tiers(func(r keyfuncs.Request) core.Limit {
		if r.Value("plan") == "pro" {
			return core.PerHour(50)
		}
		return core.Limit{}
	})},
	"shadow":  {core.PerHour(1).By(keyfuncs.Everyone()).Named("shadow").Shadow()},
	"running": {core.Concurrent(2).By(keyfuncs.User("user")).Named("running")},
	"wait":    {core.PerMinute(1).Burst(1).Wait(time.Hour).By(keyfuncs.Everyone()).Named("queue")},
	"other":   {core.PerHour(5).FixedWindow().By(keyfuncs.ClientIP()).Named("ip"), core.PerHour(1).By(keyfuncs.ClientIP()).Named("once")},
}

func newService(t testing.TB, change ...func(*Config)) *Service {
	t.Helper()
	config := Config{Policies: testPolicies, Store: core.NewMemory()}
	for _, c := range change {
		c(&config)
	}
	return must.Get(New(config))(t)
}

// A month in the local time of the machine is the same month when it is settled: the processes of a service count together.
func TestReservationsOfALocalMonthAreSettled(t *testing.T) {
	t.Parallel()
	for _, zone := range []*time.Location{time.Local, time.UTC, must.Get(time.LoadLocation("Europe/Berlin"))(t)} {
		s := newService(t, func(c *Config) {
			c.Policies = policies{"monthly": {core.PerMonth(1000, zone).By(keyfuncs.User("user")).Named("month")}}
		})
		a := ask(t, s, "/v1/reserve", `{"policy":"monthly","key":"user:ann","cost":300}`)
		ask(t, s, "/v1/settle", `{"reservation":"`+a.Reservation+`","cost":120}`)
	}
}

// post sends a call and returns status, header and body.
func post(s http.Handler, path, body string, headers ...string) (int, http.Header, string) {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	got, _ := io.ReadAll(w.Result().Body)
	return w.Code, w.Header(), string(got)
}

// wantStatus sends a call that has to be answered with a status, and returns the answer.
func wantStatus(t *testing.T, s http.Handler, want int, path, body string, headers ...string) (http.Header, string) {
	t.Helper()
	status, h, got := post(s, path, body, headers...)
	if status != want {
		t.Errorf("%s %.200s: %d %s, want %d", path, body, status, got, want)
	}
	return h, got
}

// remaining returns what is left of the quota of 1000 of the limit "tokens" for a key.
func remaining(t *testing.T, s http.Handler, key string) int64 {
	t.Helper()
	return ask(t, s, "/v1/peek", fmt.Sprintf(`{"policy":"tokens","key":%q,"cost":0}`, key)).Limits[1].Remaining
}

// drain waits until the store knows of what was charged.
func drain(t *testing.T, s *Service) {
	t.Helper()
	must.OK(t, s.Drain(context.Background()))
}

// answer is what tests read of an answer.
type answer struct {
	Allowed      bool              `json:"allowed"`
	Reason       string            `json:"reason"`
	Status       int               `json:"status"`
	Granted      int64             `json:"granted"`
	RetryAfter   int               `json:"retry_after"`
	RetryAfterMS int               `json:"retry_after_ms"`
	DelayMS      int               `json:"delay_ms"`
	Limit        string            `json:"limit"`
	Missing      string            `json:"missing"`
	Ambiguous    string            `json:"ambiguous"`
	Outage       bool              `json:"outage"`
	Version      string            `json:"version"`
	Headers      map[string]string `json:"headers"`
	Problem      map[string]any    `json:"problem"`
	Reservation  string            `json:"reservation"`
	RenewMS      int               `json:"renew_ms"`
	Checks       []answer          `json:"checks"`
	Settled      bool              `json:"settled"`
	Limits       []struct {
		Name       string  `json:"name"`
		Allowed    bool    `json:"allowed"`
		Charged    any     `json:"charged"`
		Shadow     bool    `json:"shadow"`
		Repeated   bool    `json:"repeated"`
		Remaining  int64   `json:"remaining"`
		Quota      int64   `json:"quota"`
		WindowMS   int64   `json:"window_ms"`
		Reserved   int64   `json:"reserved"`
		Warning    float64 `json:"warning"`
		Effective  int64   `json:"effective_window_ms"`
		ResetMS    int64   `json:"reset_ms"`
		Algorithm  string  `json:"algorithm"`
		RetryAfter int64   `json:"retry_after_ms"`
	} `json:"limits"`
}

// ask sends a call that has to be answered.
func ask(t testing.TB, s http.Handler, path, body string) (a answer) {
	t.Helper()
	status, _, got := post(s, path, body)
	if status != http.StatusOK {
		t.Fatalf("%s %s: %d %s", path, body, status, got)
	}
	must.OK(t, json.Unmarshal([]byte(got), &a))
	return a
}

func TestCheckDecidesByADescribedRequest(t *testing.T) {
	t.Parallel()
	s := newService(t)
	body := `{"policy":"api","request":{"method":"GET","route":"/items/{id}","client_ip":"192.0.2.1","values":{"user":"ann"}}}`
	for i := range 6 {
		a := ask(t, s, "/v1/check", body)
		must.Equal(t, fmt.Sprint("allowed, number ", i+1), a.Allowed, i < 5)
		if i == 0 && (a.Status != 200 || a.Version != "v1" || len(a.Limits) != 2 || a.Limits[0].Remaining != 4 || a.Headers["RateLimit-Policy"] != `"ip";q=5;w=3600, "user";q=100;w=86400`) {
			t.Errorf("the first: %+v", a)
		}
		if i == 5 && (a.Status != 429 || a.Reason != "limit exceeded" || a.Limit != "ip" || a.RetryAfter < 1 || a.Headers["Retry-After"] != fmt.Sprint(a.RetryAfter) || a.Problem["status"] != 429.0) {
			t.Errorf("the last: %+v", a)
		}
	}
	if a := ask(t, s, "/v1/check", strings.ReplaceAll(body, "192.0.2.1", "::ffff:192.0.2.1")); a.Allowed {
		t.Error("the same address in another spelling has a bucket of its own")
	}
	header, _ := wantStatus(t, s, 429, "/v1/check?denied=status", body)
	if header.Get("Retry-After") == "" || header.Get("RateLimit") == "" {
		t.Errorf("with denied=status: %v", header)
	}
	if header, _ = wantStatus(t, s, 200, "/v1/check", body); header.Get("RateLimit") == "" {
		t.Errorf("without: %v", header)
	}
}

func TestCheckDecidesByWhatPoliciesRead(t *testing.T) {
	t.Parallel()
	s := newService(t)
	if a := ask(t, s, "/v1/check", `{"policy":"key","request":{}}`); a.Allowed || a.Status != 401 || a.Missing != "API key" || a.Headers["WWW-Authenticate"] == "" {
		t.Errorf("without its key: %+v", a)
	}
	if a := ask(t, s, "/v1/check", `{"policy":"key","request":{"headers":{"x-api-key":["a","b"]}}}`); a.Allowed || a.Status != 400 || a.Ambiguous == "" {
		t.Errorf("with two keys: %+v", a)
	}
	if a := ask(t, s, "/v1/check", `{"policy":"key","request":{"headers":{"X-Api-Key":"a"}}}`); !a.Allowed {
		t.Errorf("with its key: %+v", a)
	}
	for plan, want := range map[string]int64{"": 1, "pro": 49} {
		a := ask(t, s, "/v1/check", `{"policy":"plan","request":{"values":{"tenant":"t`+plan+`","plan":"`+plan+`"}}}`)
		must.Equal(t, "remaining with plan "+plan, a.Limits[0].Remaining, want)
	}
	for range 2 {
		if a := ask(t, s, "/v1/check", `{"policy":"shadow","key":"k"}`); !a.Allowed || !a.Limits[0].Shadow {
			t.Errorf("in shadow mode: %+v", a)
		}
	}
	ask(t, s, "/v1/check", `{"policy":"wait","key":"k"}`)
	if a := ask(t, s, "/v1/check", `{"policy":"wait","key":"k"}`); !a.Allowed || a.DelayMS < 20_000 || a.DelayMS > 60_000 {
		t.Errorf("with a turn: %+v", a)
	}
	if a := ask(t, s, "/v1/check", `{"policy":"tokens","key":"user:ann","costs":{"tokens":600}}`); a.Limits[0].Remaining != 99 || a.Limits[1].Remaining != 400 {
		t.Errorf("with costs: %+v", a)
	}
	if a := ask(t, s, "/v1/peek", `{"policy":"tokens","request":{"values":{"user":"ann"}}, "cost": 401}`); a.Allowed || a.Limits[1].Remaining != 400 || a.Limits[0].Allowed {
		t.Errorf("a peek: %+v", a)
	}
}

func TestChecksTogetherAreAllOrNothing(t *testing.T) {
	t.Parallel()
	s := newService(t)
	body := `{"together":[{"policy":"api","request":{"client_ip":"192.0.2.1"}},{"policy":"other","request":{"client_ip":"192.0.2.1"}}]}`
	a := ask(t, s, "/v1/check", body)
	if !a.Allowed || len(a.Checks) != 2 || a.Checks[0].Limits[0].Remaining != 3 {
		t.Fatalf("the first: %+v", a) // both charge the address under "ip"
	}
	a = ask(t, s, "/v1/check", body)
	if a.Allowed || a.Status != 429 || a.Reason != "limit exceeded" || a.Checks[0].Reason != "denied together" || a.Checks[1].Limit != "once" || a.Headers["RateLimit"] == "" {
		t.Errorf("the second: %+v", a)
	}
	a = ask(t, s, "/v1/peek", `{"policy":"api","request":{"client_ip":"192.0.2.1"}}`)
	must.Equal(t, "remaining, since the second was not charged", a.Limits[0].Remaining, 3)
}

func TestChecksAreDecidedEachByItself(t *testing.T) {
	t.Parallel()
	s := newService(t)
	status, _, body := post(s, "/v1/checks", `{"checks":[{"policy":"api","key":"a"},{"policy":"nobody","key":"a"},{"policy":"api","key":"a","cost":6},{"together":[{"policy":"key","key":"b"}]}]}`)
	var got struct {
		Answers []struct {
			answer
			Error *struct {
				Status  int    `json:"status"`
				Pointer string `json:"pointer"`
			} `json:"error"`
		} `json:"answers"`
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || status != 200 || len(got.Answers) != 4 {
		t.Fatal(status, body, err)
	}
	if a := got.Answers; !a[0].Allowed || a[1].Error == nil || a[1].Error.Status != 404 || a[1].Error.Pointer != "/checks/1/policy" || a[2].Reason != "never fits" || !a[3].Allowed {
		t.Errorf("%s", body)
	}
}

func TestRetriesOfAnOperationAreChargedOnce(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for range 3 {
		must.Equal(t, "remaining", ask(t, s, "/v1/check", `{"policy":"api","key":"a","operation":"7f1c"}`).Limits[0].Remaining, 4)
	}
	must.Equal(t, "remaining, since another cost is another operation", ask(t, s, "/v1/check", `{"policy":"api","key":"a","operation":"7f1c","cost":2}`).Limits[0].Remaining, 2)
}

func TestReservationsAreSettledOnce(t *testing.T) {
	t.Parallel()
	s := newService(t)
	remain := func(when string, want int64) {
		t.Helper()
		must.Equal(t, "remain "+when, remaining(t, s, "user:ann"), want)
	}
	reserve := func(cost int) string {
		a := ask(t, s, "/v1/reserve", fmt.Sprintf(`{"policy":"tokens","request":{"values":{"user":"ann"}},"costs":{"tokens":%d}}`, cost))
		if !a.Allowed || a.Reservation == "" {
			t.Fatalf("%+v", a)
		}
		return a.Reservation
	}
	wantStatus(t, s, http.StatusUnprocessableEntity, "/v1/reserve", `{"policy":"tokens","key":"k","operation":"o"}`)
	token := reserve(300)
	if a := ask(t, s, "/v1/settle", `{"reservation":"`+token+`","cost":120}`); !a.Settled || len(a.Limits) != 2 || a.Limits[1].Charged != 120.0 {
		t.Errorf("%+v", a)
	}
	remain("after a settlement", 880)
	for _, path := range []string{"/v1/settle", "/v1/refund"} {
		wantStatus(t, s, http.StatusConflict, path, `{"reservation":"`+token+`"}`)
	}
	ask(t, s, "/v1/refund", `{"reservation":"`+reserve(500)+`"}`)
	remain("after a refund", 880)
	token = reserve(100)
	changed := []byte(token)
	changed[len(changed)/2] ^= 1
	for _, wrong := range []string{string(changed), token[1:], "x", token + "A"} {
		wantStatus(t, s, http.StatusUnprocessableEntity, "/v1/settle", `{"reservation":"`+wrong+`"}`)
	}
	if _, body := wantStatus(t, s, http.StatusUnprocessableEntity, "/v1/settle", `{"reservation":"`+token+`","costs":{"tokns":1}}`); !strings.Contains(body, "tokns") {
		t.Errorf("a limit that there is not: %s", body)
	}
	ask(t, s, "/v1/settle", `{"reservation":"`+token+`","costs":{"tokens":150}}`)
	remain("after one that cost more", 730)
	ask(t, s, "/v1/charge", `{"policy":"tokens","key":"user:ann","costs":{"tokens":1000},"operation":"o"}`)
	remain("after a charge", 0)
	wantStatus(t, s, http.StatusConflict, "/v1/charge", `{"policy":"tokens","key":"user:ann","costs":{"tokens":1000},"operation":"o"}`)
}

// A check that holds answers with a token only where something may change, and all tokens of a reservation are
// settled once: an old one that somebody has kept is of no use.
func TestWhatACheckHoldsIsRenewedAndSettledOnce(t *testing.T) {
	t.Parallel()
	s := newService(t)
	if a := ask(t, s, "/v1/check", `{"policy":"api","key":"user:ann","hold":true}`); !a.Allowed || a.Reservation != "" {
		t.Errorf("nothing of it can change: %+v", a)
	}
	body := `{"policy":"running","key":"user:ann","hold":true}`
	first := ask(t, s, "/v1/check", body)
	if first.Reservation == "" || first.RenewMS < 1 {
		t.Fatalf("a slot: %+v", first)
	}
	renew := func(token string) string { return `{"reservation":"` + token + `"}` }
	second := ask(t, s, "/v1/renew", renew(first.Reservation))
	if second.Reservation == "" || second.Reservation == first.Reservation || second.RenewMS != first.RenewMS {
		t.Errorf("%+v", second)
	}
	free := func() bool { return ask(t, s, "/v1/check", body).Allowed }
	if !free() || free() {
		t.Error("want one slot of two")
	}
	ask(t, s, "/v1/settle", renew(second.Reservation))
	if !free() || free() {
		t.Error("the renewed slot is not free after its settlement")
	}
	for _, token := range []string{first.Reservation, second.Reservation} {
		for _, path := range []string{"/v1/settle", "/v1/refund"} {
			wantStatus(t, s, http.StatusConflict, path, renew(token))
		}
	}
	wantStatus(t, s, http.StatusConflict, "/v1/renew", renew(second.Reservation))
	for path, body := range map[string]string{
		"/v1/check":   `{"policy":"api","key":"k","hold":true,"operation":"o"}`,
		"/v1/peek":    `{"policy":"api","key":"k","hold":true}`,
		"/v1/reserve": `{"policy":"api","key":"k","hold":true}`,
		"/v1/charge":  `{"policy":"api","key":"k","hold":true}`,
		"/v1/renew":   `{"reservation":"x"}`,
	} {
		wantStatus(t, s, http.StatusUnprocessableEntity, path, body)
	}
}

func TestSlotsAreGivenBack(t *testing.T) {
	t.Parallel()
	s := newService(t)
	body := `{"policy":"running","key":"user:ann"}`
	var tokens []string
	for range 2 {
		tokens = append(tokens, ask(t, s, "/v1/reserve", body).Reservation)
	}
	if a := ask(t, s, "/v1/reserve", body); a.Allowed || a.Reservation != "" {
		t.Errorf("a third slot: %+v", a)
	}
	ask(t, s, "/v1/settle", `{"reservation":"`+tokens[0]+`"}`)
	if a := ask(t, s, "/v1/check", body); !a.Allowed {
		t.Errorf("the slot that was given back: %+v", a)
	}
}

// Callers of different policies choose operations for themselves.
func TestAnOperationIsOfItsPolicy(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, policy := range []string{"api", "other"} {
		body := `{"policy":"` + policy + `","key":"user:ann","operation":"o"}`
		ask(t, s, "/v1/charge", body)
		wantStatus(t, s, http.StatusConflict, "/v1/charge", body)
	}
}
