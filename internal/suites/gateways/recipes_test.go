package gateways

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/documents"
	"github.com/weblimit/weblimit/internal/test/must"
)

// recipe is a gateway of docs/service/recipes.md and recipes-cloud.md. What of it can run here, runs: a script, a
// plugin or a function. The rest is replayed: what the gateway sends, and what it makes of the answer by its
// configuration.
type recipe struct {
	name, page string   // its folder in deploy/gateways, and the page that shows it
	files      []string // of that folder
	tells      bool     // clients get RateLimit with requests that pass
	static     bool     // a denial's body is the configuration's
	runs       bool     // asks by itself, and is not replayed
	bare       bool     // while the limiter is away, clients get no more than a status

	// start starts a limiter and the gateway in front of it, with a word for what happens while the limiter is away.
	start func(r *recipe, t *testing.T, limits, away string) (front, *limiter)
}

// front is a gateway as its clients see it.
type front interface {
	// request sends GET for a path from an address, with header lines of the client's own.
	request(t *testing.T, from, path string, header ...string) *answer
}

var recipes = []*recipe{
	{name: "kong", page: "recipes.md", files: []string{"kong.yml"}, tells: true, runs: true, start: (*recipe).startKong},
	{name: "apisix", page: "recipes.md", files: []string{"apisix.yaml"}, bare: true, start: (*recipe).startAPISIX},
	{name: "tyk", page: "recipes.md", files: []string{"weblimit.go", "api.json"}, tells: true, runs: true, start: (*recipe).startTyk},
	{name: "istio", page: "recipes.md", files: []string{"mesh.yaml", "policy.yaml"}, tells: true, bare: true, start: (*recipe).startIstio},
	{name: "apigee", page: "recipes-cloud.md", files: []string{"policies.xml", "weblimit-ask.js", "weblimit-answer.js"}, tells: true, runs: true, start: (*recipe).startApigee},
	{name: "aws", page: "recipes-cloud.md", files: []string{"authorizer.mjs", "template.yaml"}, static: true, runs: true, start: (*recipe).startLambda},
}

// few is the policy file of the tests of recipes, whose clients are denied from their third request on.
const few = `
defaults:
  bypass:
    - paths: [/healthz]
policies:
  api:
    limits:
      client: {limit: 2/day, by: ip}
`

// A client of each gateway is limited by its own address, whatever it claims, and is told so with 429. Another has its
// own limit. While the limiter is away, nobody passes, or everybody, as the configuration says.
func TestRecipes(t *testing.T) {
	t.Parallel()
	for _, r := range recipes {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			f, l := r.start(r, t, few, "closed")
			r.limits(t, f)
			if log := l.log(); strings.Contains(log, "refused") {
				t.Errorf("the limiter's log: %s", log)
			}
			l.stop()
			r.closes(t, f)
		})
		t.Run(r.name+", open", func(t *testing.T) {
			t.Parallel()
			f, l := r.start(r, t, few, "open")
			l.stop()
			for range 5 {
				if a := f.request(t, newClient(), "/things"); a.StatusCode != http.StatusOK || a.body != "served" {
					t.Errorf("while the limiter is away: got %s %q", a.Status, a.body)
				}
			}
		})
	}
}

func (r *recipe) limits(t *testing.T, f front) {
	t.Helper()
	attacker, bystander := newClient(), newClient()
	for range 2 {
		if a := f.request(t, attacker, "/things"); a.StatusCode != http.StatusOK || a.body != "served" {
			t.Fatalf("got %s %v %q", a.Status, a.Header, a.body)
		}
	}
	lies := [][]string{{}, {"X-Api-Key", "another"}}
	for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "X_forwarded_for", "X-Envoy-External-Address", "True-Client-Ip", "X-Original-Forwarded-For"} {
		lies = append(lies, []string{name, "198.51.100.9"})
	}
	lies = append(lies, []string{"Forwarded", "for=198.51.100.9"}, []string{"X-Forwarded-Uri", "/healthz", "X-Forwarded-Method", "OPTIONS"},
		[]string{"Weblimit-Status", "200"}, []string{"Weblimit-Token", token}, []string{"Connection", "X-Forwarded-For"})
	for _, lie := range lies {
		a := f.request(t, attacker, "/things", lie...)
		r.denied(t, fmt.Sprint(lie), a)
	}
	if a := f.request(t, attacker, "/healthz"); a.StatusCode != http.StatusOK {
		t.Errorf("an exempt path: got %s", a.Status)
	}
	a := f.request(t, bystander, "/things")
	if told := a.Header.Get("RateLimit"); a.StatusCode != http.StatusOK || r.tells != strings.HasPrefix(told, `"client";r=1;`) {
		t.Errorf("another client: got %s with RateLimit %q", a.Status, told)
	}
}

// denied fails the test unless an answer is a denial.
func (r *recipe) denied(t *testing.T, what string, a *answer) {
	t.Helper()
	h := a.Header
	if a.StatusCode != http.StatusTooManyRequests || !strings.HasPrefix(h.Get("RateLimit"), `"client";r=0;t=`) || h.Get("RateLimit-Policy") != `"client";q=2;w=86400` ||
		h.Get("Retry-After") == "" || h.Get("Retry-After") == "0" || h.Get("Content-Type") != "application/problem+json" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("%s: got %s %v", what, a.Status, h)
	}
	if !strings.Contains(a.body, `"status":429`) || !r.static && !strings.Contains(a.body, `"violated-policies":["client"]`) {
		t.Errorf("%s: the body is %q", what, a.body)
	}
	for name := range h {
		if strings.HasPrefix(name, "Weblimit") {
			t.Errorf("%s: the client gets %s", what, name)
		}
	}
}

// closes fails the test unless nobody passes while the limiter is away.
func (r *recipe) closes(t *testing.T, f front) {
	t.Helper()
	for range 5 {
		a := f.request(t, newClient(), "/things")
		if a.StatusCode != http.StatusServiceUnavailable || !r.bare && a.Header.Get("Retry-After") != "1" {
			t.Errorf("while the limiter is away: got %s %v", a.Status, a.Header)
		}
	}
}

// What runs here asks with exactly the request that the page shows, and that the others are replayed with.
func TestRecipesAskAsDocumented(t *testing.T) {
	t.Parallel()
	for _, r := range recipes {
		if !r.runs {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			f, l := r.start(r, t, few, "closed")
			l.stop()
			asked := make(chan string, 1)
			listener := must.Get(net.Listen(l.network, l.listenAddr()))(t)
			server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
				select {
				case asked <- written(t, q):
				default: // sent once more, since nobody answers with a decision
				}
			})}
			go func() { _ = server.Serve(listener) }()
			t.Cleanup(func() { _ = server.Close() })
			from := newClient()
			f.request(t, from, "/things?page=2", "User-Agent", "curl/8.14.1", "Accept", "*/*", "X-Api-Key", "alpha", "X-Forwarded-For", "198.51.100.9")
			want := must.Get(http.ReadRequest(bufio.NewReader(strings.NewReader(r.exchange(t)))))(t)
			got := strings.NewReplacer(from, shown, token, "TOKEN").Replace(<-asked)
			if want := written(t, want); got != want {
				t.Errorf("asked\n%s\nand the page has\n%s", got, want)
			}
		})
	}
}

// shown is the address of the client in testdata.
const shown = "203.0.113.7"

// exchange returns the request by which the gateway asks, as bytes.
func (r *recipe) exchange(t *testing.T) string {
	t.Helper()
	text := string(must.Get(os.ReadFile(filepath.Join("testdata/recipes", r.name+".http")))(t))
	head, body, _ := strings.Cut(text, "\n\n")
	return strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n" + strings.TrimSuffix(body, "\n")
}

// written writes a request in one order, without where it was sent to and what depends on the connection.
func written(t *testing.T, q *http.Request) string {
	t.Helper()
	lines := []string{q.Method + " " + q.RequestURI}
	if _, _, err := net.SplitHostPort(q.Host); err != nil {
		lines = append(lines, "Host: "+q.Host)
	}
	for _, name := range slices.Sorted(maps.Keys(q.Header)) {
		if !slices.Contains([]string{"Connection", "Content-Length", "Accept-Encoding"}, name) {
			lines = append(lines, name+": "+strings.Join(q.Header[name], ", "))
		}
	}
	body, err := io.ReadAll(q.Body)
	if err != nil {
		t.Error(err)
	}
	return strings.Join(append(lines, "", string(body)), "\n")
}

// The pages show the files of deploy/gateways, and what each gateway asks, as they are.
func TestRecipesAreDocumented(t *testing.T) {
	t.Parallel()
	for _, r := range recipes {
		page := documents.Read(t, "service/"+r.page)
		for _, name := range r.files {
			if !strings.Contains(page, "\n"+r.read(t, name)+"```\n") {
				t.Errorf("docs/service/%s does not have deploy/gateways/%s/%s as it is", r.page, r.name, name)
			}
		}
		if asks := strings.TrimSpace(strings.ReplaceAll(r.exchange(t), "\r\n", "\n")); !strings.Contains(page, "\n```http\n"+asks+"\n```\n") {
			t.Errorf("docs/service/%s does not have testdata/recipes/%s.http as it is", r.page, r.name)
		}
	}
}

// read returns a file of the recipe.
func (r *recipe) read(t testing.TB, name string) string {
	t.Helper()
	return string(must.Get(os.ReadFile(filepath.Join(documents.Root, "deploy/gateways", r.name, name)))(t))
}

// startFor starts a limiter that is asked over TCP, with a token, by gateways that name one address.
func startFor(t *testing.T, limits string) *limiter {
	t.Helper()
	return startLimiter(t, "tcp4", child.Dir(t), limits)
}

// responded returns what a client gets, where no gateway runs that could send it.
func responded(status int, body string, header http.Header) *answer {
	if header == nil {
		header = http.Header{}
	}
	return &answer{&http.Response{StatusCode: status, Status: fmt.Sprint(status, " ", http.StatusText(status)), Header: header}, body}
}
