package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestWebPagesAreRefused(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *Config) { c.Hosts = []string{"Limits.Internal."} })
	body := `{"policy":"api","key":"a"}`
	for name, c := range map[string]struct {
		want    int
		headers []string
	}{
		"a program":                            {200, nil},
		"a page of another site":               {403, []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}},
		"a page under a name that was rebound": {403, []string{"Origin", "http://limits.internal", "Sec-Fetch-Site", "same-origin"}},
		"a page without an origin":             {403, []string{"Origin", "null"}},
		"a form":                               {415, []string{"Content-Type", "application/x-www-form-urlencoded"}},
		"text that needs no preflight":         {415, []string{"Content-Type", "text/plain"}},
		"another charset":                      {415, []string{"Content-Type", "application/json; charset=utf-16"}},
	} {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/v1/check", strings.NewReader(body))
		r.Host = "limits.internal:8080"
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(c.headers); i += 2 {
			r.Header.Set(c.headers[i], c.headers[i+1])
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != c.want || w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d %s, want %d", name, w.Code, w.Body, c.want)
		}
	}
	wantStatus(t, s, http.StatusMisdirectedRequest, "/v1/check", body) // of example.com
}

func TestCallersNeedAToken(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *Config) { c.Tokens = []string{"old-0123456789abcdef", "new-0123456789abcdef"} })
	body := `{"policy":"api","key":"a"}`
	for header, want := range map[string]int{
		"": 401, "Bearer ": 401, "Bearer x": 401, "Basic old-0123456789abcdef": 401, "Bearer old-0123456789abcde": 401,
		"Bearer old-0123456789abcdef": 200, "bearer new-0123456789abcdef": 200,
	} {
		if status, h, _ := post(s, "/v1/check", body, "Authorization", header); status != want || (want == 401) != (h.Get("WWW-Authenticate") == "Bearer") {
			t.Errorf("%q: %d", header, status)
		}
	}
	twice := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/check", strings.NewReader(body))
	twice.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer old-0123456789abcdef", "Bearer x"}}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, twice)
	if w.Code != http.StatusUnauthorized {
		t.Errorf("two lines: %d", w.Code)
	}
	for name, change := range map[string]func(*Config){
		"a short token":  func(c *Config) { c.Tokens = []string{"secret"} },
		"a short secret": func(c *Config) { c.Secrets = [][]byte{[]byte("secret")} },
		"no policies":    func(c *Config) { c.Policies = nil },
		"no store":       func(c *Config) { c.Store = nil },
		"too many":       func(c *Config) { c.MaxChecks = 256 },
		"negative":       func(c *Config) { c.MaxInFlight = -1 },
		"too short":      func(c *Config) { c.ReservationTTL = time.Millisecond },

		"a token with the line break of its file": func(c *Config) { c.Tokens = []string{"secret-0123456789abcdef\n"} },
		"a host with its port":                    func(c *Config) { c.Hosts = []string{"limits.internal:8080"} },
		"a host with its scheme":                  func(c *Config) { c.Hosts = []string{"https://limits.internal"} },
		"a host of nothing":                       func(c *Config) { c.Hosts = []string{""} },
	} {
		config := Config{Policies: testPolicies, Store: core.NewMemory()}
		change(&config)
		if _, err := New(config); err == nil || strings.Contains(err.Error(), "secret\"") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// stuck is a store that answers when it is released.
type stuck struct {
	core.Store
	entered, release chan struct{}
}

func (s *stuck) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	s.entered <- struct{}{}
	<-s.release
	return s.Store.Take(ctx, checks, results)
}

func TestOverloadIsShed(t *testing.T) {
	t.Parallel()
	store := &stuck{core.NewMemory(), make(chan struct{}), make(chan struct{})}
	s := newService(t, func(c *Config) { c.Store, c.MaxInFlight = store, 2 })
	body := `{"policy":"api","key":"a"}`
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() { wantStatus(t, s, 200, "/v1/check", body) })
		<-store.entered
	}
	h, _ := wantStatus(t, s, 503, "/v1/check", body)
	must.Equal(t, "Retry-After of a third call", h.Get("Retry-After"), "1")
	close(store.release)
	wait.Wait()
	go func() { <-store.entered }()
	wantStatus(t, s, 200, "/v1/check", body)
}

func TestWhatCallersSayIsBounded(t *testing.T) {
	t.Parallel()
	s := newService(t)
	many := func(n int, each string) string { return strings.TrimSuffix(strings.Repeat(each+",", n), ",") }
	for name, c := range map[string]struct {
		body, in string
		want     int
	}{
		"a long body":           {`{"policy":"` + strings.Repeat("x", 1<<17) + `"}`, "65536 bytes", 413},
		"a long key":            {`{"policy":"api","key":"` + strings.Repeat("x", 1025) + `"}`, "/key", 400},
		"a long policy":         {`{"policy":"` + strings.Repeat("x", 129) + `"}`, "/policy", 400},
		"many checks":           {`{"together":[` + many(65, `{"policy":"api","key":"a"}`) + `]}`, "/together", 400},
		"many lines":            {`{"policy":"api","request":{"headers":{"a":[` + many(33, `"x"`) + `]}}}`, "/request/headers/a", 400},
		"deep":                  {strings.Repeat(`{"together":[`, 20), "Unknown field", 400},
		"a field twice":         {`{"policy":"api","policy":"key","key":"a"}`, "/policy", 400},
		"a header twice":        {`{"policy":"api","request":{"headers":{"x-a":"1","X-A":"2"}}}`, "/request/headers/X-A", 400},
		"a header's name":       {`{"policy":"api","request":{"headers":{"a b":"1"}}}`, "/request/headers/a b", 400},
		"a line break in route": {`{"policy":"api","request":{"route":"/a\nb"}}`, "/request/route", 400},
		"an address with port":  {`{"policy":"api","request":{"client_ip":"192.0.2.1:80"}}`, "/request/client_ip", 400},
		"something behind":      {`{"policy":"api","key":"a"}{}`, "follows", 400},
		"a large cost":          {`{"policy":"api","key":"a","cost":9007199254740993}`, "/cost", 400},
		"a number as text":      {`{"policy":"api","key":"a","cost":"1"}`, "/cost", 400},
		"half a surrogate":      {`{"policy":"api","key":"\ud800"}`, "/key", 400},
		"no UTF-8":              {"{\"policy\":\"api\",\"key\":\"\xff\"}", "/key", 400},
		"unknown policy":        {`{"policy":"nobody","key":"a"}`, `nobody`, 404},
	} {
		status, h, got := post(s, "/v1/check", c.body)
		if status != c.want || !strings.Contains(got, c.in) || h.Get("Content-Type") != core.ProblemType || len(got) > 1000 {
			t.Errorf("%s: %d %s, want %d with %q", name, status, got, c.want, c.in)
		}
		if !json.Valid([]byte(got)) {
			t.Errorf("%s: not JSON: %s", name, got)
		}
	}
	wantStatus(t, s, 400, "/v1/checks", `{"checks":[`+many(2, `{"together":[`+many(40, `{"policy":"api","key":"a"}`)+`]}`)+`]}`)
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodOptions} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), method, "/v1/check", nil))
		if w.Code != 405 || w.Header().Get("Allow") != "POST" {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
}

// watching keeps what observers see.
type watching struct {
	core.NopObserver
	mu     sync.Mutex
	routes map[string]int
	keys   []string
	from   string
}

func (o *watching) Decided(_ context.Context, seen *core.Observation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.routes[seen.Route()]++
	o.from = seen.Adapter
	for i := range seen.Decision.Results() {
		o.keys = append(o.keys, string(seen.Key(i)))
	}
}

func TestCallersCanNotGrowMetricsAndKeys(t *testing.T) {
	t.Parallel()
	o := &watching{routes: make(map[string]int)}
	s := newService(t, func(c *Config) { c.Observe, c.MaxRoutes = o, 10 })
	for i := range 100 {
		ask(t, s, "/v1/check", fmt.Sprintf(`{"policy":"api","request":{"route":"/r%d","client_ip":"192.0.2.1"}}`, i))
	}
	if len(o.routes) != 11 || o.routes[""] != 90 || o.from != "service" {
		t.Errorf("%d routes: %v", len(o.routes), o.routes)
	}
	o.keys = nil
	secret := "secret-" + strings.Repeat("x", 4000)
	ask(t, s, "/v1/check", `{"policy":"key","request":{"headers":{"X-API-Key":"`+secret+`"}}}`)
	ask(t, s, "/v1/check", `{"policy":"api","request":{"values":{"user":"a\r\nb|ip:1"}}}`)
	for _, key := range o.keys {
		if len(key) > 256 || strings.Contains(key, "secret") || strings.ContainsAny(key, "\r\n") || strings.Count(key, "|") > 0 {
			t.Errorf("the key %q", key)
		}
	}
}

func TestAPanicOfTheApplicationAnswersOneCheck(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *Config) {
		c.Policies = policies{"panics": {core.PerHour(1).By(keyfuncs.Custom("panics", func(keyfuncs.Request) string { panic("no") }))}, "api": testPolicies["api"]}
		c.Store = struct{ core.Store }{core.NewMemory()}
		c.Logger = slog.New(slog.DiscardHandler)
	})
	_, body := wantStatus(t, s, 200, "/v1/checks", `{"checks":[{"policy":"panics","request":{}},{"policy":"api","key":"a"}]}`)
	if !strings.Contains(body, `"status":500`) || !strings.Contains(body, `"allowed":true`) {
		t.Error(body)
	}
}

func TestReservationsExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		secrets := [][]byte{[]byte(strings.Repeat("a", 32)), []byte(strings.Repeat("b", 32))}
		store := core.NewMemory()
		start := func(secrets ...[]byte) *Service {
			return newService(t, func(c *Config) { c.Secrets, c.ReservationTTL, c.Store = secrets, time.Minute, store })
		}
		s := start(secrets...)
		reserve := func() string {
			return ask(t, s, "/v1/reserve", `{"policy":"tokens","key":"k","costs":{"tokens":100}}`).Reservation
		}
		settle := func(what string, s *Service, token string, want int) {
			t.Helper()
			status, _, _ := post(s, "/v1/settle", `{"reservation":"`+token+`","cost":0}`)
			must.Equal(t, what, status, want)
		}
		late, rotated, foreign := reserve(), reserve(), reserve()
		settle("after the secret has changed", start(secrets[1], secrets[0]), rotated, 200)
		settle("by another secret", start(secrets[1]), foreign, http.StatusUnprocessableEntity)
		settle("without the secret", start(), foreign, http.StatusUnprocessableEntity)
		time.Sleep(time.Minute + time.Second)
		settle("late", s, late, http.StatusGone)
		must.Equal(t, "remain, since what is not settled stays charged", remaining(t, s, "k"), 800)
	})
}

// A secret is changed while the service runs, without a reservation that is lost. What the caller does with its bytes
// afterwards changes nothing.
func TestSecretsAreChangedWhileServing(t *testing.T) {
	t.Parallel()
	older, newer := []byte(strings.Repeat("a", 32)), []byte(strings.Repeat("b", 32))
	store := core.NewMemory()
	with := func(secrets ...[]byte) *Service {
		return newService(t, func(c *Config) { c.Secrets, c.Store = secrets, store })
	}
	s, other := with(older), with(bytes.Clone(older))
	clear(older)
	older = bytes.Repeat([]byte("a"), 32)
	token := func(s *Service) string {
		return ask(t, s, "/v1/reserve", `{"policy":"tokens","key":"k","costs":{"tokens":10}}`).Reservation
	}
	settles := func(what string, s *Service, token string, want int) {
		t.Helper()
		status, _, _ := post(s, "/v1/settle", `{"reservation":"`+token+`","cost":0}`)
		must.Equal(t, what, status, want)
	}
	before := token(s)
	for _, step := range [][][]byte{{older, newer}, {newer, older}} { // at one process after the other
		for _, next := range []*Service{s, other} {
			must.OK(t, next.SetSecrets(step...))
			settles("of the one, at the other", other, token(s), 200)
			settles("of the other, at the one", s, token(other), 200)
		}
	}
	settles("from before", s, before, 200)
	last := token(s)
	must.OK(t, s.SetSecrets(newer))
	settles("of the new secret", s, last, 200)
	for what, wrong := range map[string][][]byte{"none": nil, "a short one": {newer, []byte("short")}} {
		if err := s.SetSecrets(wrong...); err == nil || strings.Contains(err.Error(), `"short"`) {
			t.Errorf("%s: %v", what, err)
		}
	}
	settles("after secrets that were refused", s, token(s), 200)
}

// lossy loses answers: the store has charged, and nobody hears of it.
type lossy struct {
	core.Store
	mu   sync.Mutex
	lose int
}

func (l *lossy) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	err := l.Store.Take(ctx, checks, results)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lose > 0 && checks[0].Rule.Name == markName {
		l.lose--
		return errors.New("the answer is lost")
	}
	return err
}

func TestASettlementSurvivesALostAnswer(t *testing.T) {
	t.Parallel()
	store := &lossy{Store: core.NewMemory()}
	s := newService(t, func(c *Config) { c.Store, c.Logger = store, slog.New(slog.DiscardHandler) })
	reserve := func() string {
		return ask(t, s, "/v1/reserve", `{"policy":"tokens","key":"k","costs":{"tokens":100}}`).Reservation
	}
	token := reserve()
	store.lose = claimTries - 1
	ask(t, s, "/v1/settle", `{"reservation":"`+token+`","cost":10}`)
	drain(t, s)
	must.Equal(t, "remain", remaining(t, s, "k"), 990)
	token = reserve()
	store.lose = claimTries
	if h, body := wantStatus(t, s, 503, "/v1/settle", `{"reservation":"`+token+`","cost":10}`); h.Get("Retry-After") == "" {
		t.Errorf("all answers lost: %s", body)
	}
	wantStatus(t, s, 409, "/v1/settle", `{"reservation":"`+token+`","cost":10}`)
	drain(t, s)
	must.Equal(t, "remain, since it stays charged", remaining(t, s, "k"), 890)
}

// slow is a body that trickles.
type slow struct{ sent bool }

func (s *slow) Read(p []byte) (int, error) {
	if s.sent {
		return 0, io.ErrUnexpectedEOF
	}
	s.sent = true
	return copy(p, `{"policy":`), nil
}

func TestABodyThatBreaksOffIsRefused(t *testing.T) {
	t.Parallel()
	s := newService(t)
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/v1/check", new(slow))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	must.Equal(t, "status", w.Code, 400)
}

func FuzzCalls(f *testing.F) {
	s := newService(f)
	for _, seed := range []string{
		`{"policy":"api","request":{"method":"GET","route":"/","client_ip":"::1","headers":{"a":["b"]},"values":{"user":"x"}}}`,
		`{"together":[{"policy":"api","key":"a"},{"policy":"other","key":"a","costs":{"ip":2}}],"operation":"o","timeout_ms":3}`,
		`{"checks":[{"policy":"api","key":"\u00e4\ud83d\ude00"}]}`, `{"reservation":"AAAA","cost":1}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{"/v1/check", "/v1/checks", "/v1/peek", "/v1/reserve", "/v1/settle", "/v1/charge"} {
			status, _, got := post(s, path, body)
			if !json.Valid([]byte(got)) || status >= 500 {
				t.Fatalf("%s: %d %s", path, status, got)
			}
			if status == 200 && !json.Valid([]byte(body)) {
				t.Fatalf("%s: answered what is not JSON: %s", path, got)
			}
		}
	})
}

// endless is a body that does not end, of which is counted what was read.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	if e.read += len(p); e.read > 1<<20 {
		return 0, errors.New("a megabyte was read")
	}
	return copy(p, strings.Repeat(" ", len(p))), nil
}

// Trap 63: a body whose length nobody has said is read until it is too long.
func TestABodyOfUnknownLengthIsBounded(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *Config) { c.MaxBody = 4 << 10 })
	body := new(endless)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/check", body)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge || body.read > 64<<10 {
		t.Errorf("%d after %d bytes: %s", w.Code, body.read, w.Body)
	}
}
