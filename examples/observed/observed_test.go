package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/program"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// shop is a running example, as its reader sees it.
type shop struct {
	urls     []string // of the instances
	password string
}

var (
	pageURL  = regexp.MustCompile(`(http://127\.0\.0\.1:\d+)/ops/limits/ \(`)
	loggedIn = regexp.MustCompile(`ops, password (\S+)`)
)

// open starts the example and reads where it is. When the test ends it has to stop by itself.
func open(t *testing.T, redisAddr string) shop {
	t.Helper()
	text, _ := program.Inside(t, run, map[string]string{"REDIS_ADDR": redisAddr}, "Ctrl-C")
	s := shop{password: loggedIn.FindStringSubmatch(text)[1]}
	for _, found := range pageURL.FindAllStringSubmatch(text, -1) {
		s.urls = append(s.urls, found[1])
	}
	return s
}

// ask sends a request, with a body as an action of the page.
func (s shop) ask(t *testing.T, url, body string, headers ...string) (status int, answer string) {
	t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
		headers = append(headers, "Content-Type", "application/json", "Weblimit-Inspect", "1")
	}
	r := must.Get(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))(t)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	if s.password != "" {
		r.SetBasicAuth("ops", s.password)
	}
	response := must.Get(http.DefaultClient.Do(r))(t)
	defer response.Body.Close()
	return response.StatusCode, string(must.Get(io.ReadAll(response.Body))(t))
}

// client is one on the page.
type client struct {
	Limit, Key, Label string
	Minute            struct {
		Denied    int64 `json:"denied"`
		WouldDeny int64 `json:"would_deny"`
	}
}

type overview struct {
	Instances []struct{ Name string }
	Limits    []struct {
		Name    string
		Minute  struct{ Requests, Denied int64 }
		Suggest *struct{ Quota, Clients int64 }
	}
	Denied    []client
	WouldDeny []client `json:"would_deny"`
}

func (s shop) overview(t *testing.T, url string) (o overview) {
	t.Helper()
	status, text := s.ask(t, url+"/ops/limits/api/v1/overview", "")
	if err := json.Unmarshal([]byte(text), &o); status != http.StatusOK || err != nil {
		t.Fatalf("overview: %d, %v: %s", status, err, text)
	}
	return o
}

func isBad(c client) bool {
	return strings.HasPrefix(c.Label, "Price Hunter") || strings.HasPrefix(c.Key, "ip:203.0.113.")
}

// The page, its API and the metrics show who is denied, what the limit on trial would do, and
// which number suits the good clients.
func TestTheLoadIsSeen(t *testing.T) {
	t.Parallel()
	redis := redistest.StartTCP(t)
	for store, addr := range map[string]string{"memory": "", "redis": redis.Addr()} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			s := open(t, addr)
			if want := map[string]int{"memory": 1, "redis": 2}[store]; len(s.urls) != want {
				t.Fatalf("%d instances, want %d", len(s.urls), want)
			}
			for _, url := range s.urls {
				if status, page := s.ask(t, url+"/ops/limits/", ""); status != http.StatusOK || !strings.Contains(page, "<title>") {
					t.Errorf("the page: %d", status)
				}
				if status, _ := (shop{}).ask(t, url+"/ops/limits/", ""); status != http.StatusUnauthorized {
					t.Errorf("the page without a password: %d", status)
				}
				wait.For(t, "the page shows what goes on", func() error { return s.missing(t, url) })
				wait.For(t, "the metrics show what goes on", func() error { return s.missingInMetrics(t, url) })
			}
		})
	}
}

// missing says what the page of an instance does not show yet.
func (s shop) missing(t *testing.T, url string) error {
	t.Helper()
	o := s.overview(t, url)
	if len(o.Instances) != len(s.urls) {
		return fmt.Errorf("instances %v", o.Instances)
	}
	denied := map[string]bool{}
	for _, c := range o.Denied {
		if !isBad(c) {
			t.Errorf("a good client was denied: %+v", c)
		}
		denied[c.Limit] = true
	}
	for _, limit := range []string{"address", "customer", "login"} {
		if !denied[limit] {
			return fmt.Errorf("a denied client under %s in %v", limit, o.Denied)
		}
	}
	if !slices.ContainsFunc(o.WouldDeny, func(c client) bool {
		return c.Limit == "trial" && strings.HasPrefix(c.Label, "Customer ") && c.Minute.WouldDeny > 0
	}) {
		return fmt.Errorf("a good client that the trial would deny in %v", o.WouldDeny)
	}
	for _, l := range o.Limits {
		// A busy customer sends nine in ten seconds, and the two scrapers are fewer than 0.5 %.
		if l.Name == "trial" && l.Suggest != nil && l.Suggest.Clients >= 600 && l.Suggest.Quota > 5 {
			if l.Suggest.Quota > 30 {
				t.Errorf("the number suggested for the trial is %d", l.Suggest.Quota)
			}
			return nil
		}
	}
	return fmt.Errorf("a suggestion in %+v", o.Limits)
}

func (s shop) missingInMetrics(t *testing.T, url string) error {
	t.Helper()
	status, metrics := (shop{}).ask(t, url+"/metrics", "")
	if status != http.StatusOK {
		t.Fatalf("metrics: %d %s", status, metrics)
	}
	for _, want := range []string{
		`weblimit_decisions_total\{decision="denied",limit="customer",reason="limit_exceeded",route="/v1/search"\} [1-9]`,
		`weblimit_decisions_total\{decision="denied",limit="login",reason="\w+",route="/login"\} [1-9]`,
		`weblimit_limit_results_total\{limit="trial",result="would_be_denied",route="/v1/search"\} [1-9]`,
		`weblimit_top_denied_per_minute [1-9]\d\d`, // what WeblimitClientDenied asks for
	} {
		if !regexp.MustCompile(want).MatchString(metrics) {
			return errors.New(want)
		}
	}
	return nil
}

// Whom an operator blocks on the page of one instance, the other one denies within a second.
func TestABlockHoldsOnBothInstances(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.StartTCP(t).Addr())
	one, other := s.urls[0], s.urls[1]
	answers := func(url string, want int) (took time.Duration) {
		t.Helper()
		began := time.Now()
		wait.For(t, fmt.Sprint("the answer is ", want), func() error {
			status, text := s.ask(t, url+"/v1/items/1", "", "X-API-Key", "me")
			blocked := strings.Contains(text, "abnormal-usage-detected") // and not only beyond the limit, by asking again and again
			if status != want || blocked != (want == http.StatusTooManyRequests) {
				return fmt.Errorf("%d %s", status, text)
			}
			return nil
		})
		return time.Since(began)
	}
	answers(one, http.StatusOK)
	answers(other, http.StatusOK)
	status, text := s.ask(t, one+"/ops/limits/api/v1/explain", `{"query":"me"}`)
	var found struct{ Keys []struct{ Key string } }
	if err := json.Unmarshal([]byte(text), &found); status != http.StatusOK || err != nil || len(found.Keys) != 1 {
		t.Fatalf("explain: %d, %v: %s", status, err, text)
	}
	key := found.Keys[0].Key
	act := func(what, body string) {
		t.Helper()
		if status, text := s.ask(t, one+"/ops/limits/api/v1/"+what, body); status != http.StatusOK {
			t.Fatalf("%s: %d %s", what, status, text)
		}
	}
	fastest := time.Hour
	for tries := 0; tries < 10 && fastest > time.Second; tries++ { // a busy machine may take longer now and then
		act("block", fmt.Sprintf(`{"key":%q,"limit":"customer","seconds":600}`, key))
		fastest = min(fastest, answers(other, http.StatusTooManyRequests))
		act("unblock", fmt.Sprintf(`{"key":%q}`, key))
		answers(other, http.StatusOK)
	}
	if fastest > time.Second {
		t.Errorf("a block holds on the other instance %v later at the earliest", fastest)
	}
}

func TestWhatIsNotSensibleIsAnError(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"all interfaces": {map[string]string{"ADDR": ":8080"}, "on loopback"},
		"another host":   {map[string]string{"ADDR": "192.0.2.1:8080"}, "on loopback"},
		"no port":        {map[string]string{"ADDR": "127.0.0.1"}, "on loopback"},
		"last port":      {map[string]string{"ADDR": "127.0.0.1:65535", "REDIS_ADDR": "127.0.0.1:1"}, "65534"},
		"REDIS_ADDR":     {map[string]string{"REDIS_ADDR": "localhost"}, "REDIS_ADDR must be like"},
		"REDIS_URL":      {map[string]string{"REDIS_URL": "localhost 6379"}, "REDIS_URL must be like redis://"},
		"both":           {map[string]string{"REDIS_ADDR": "localhost:1", "REDIS_URL": "redis://localhost:1"}, "both"},
	} {
		err := run(t.Context(), func(name string) string { return c.env[name] }, io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
