package gateways

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
)

// replay is a gateway of which no part runs here. It sends the bytes of testdata, with the headers of the client that its
// configuration names, and does with the answer what its source says.
type replay struct {
	question string // with the address and path of the example
	limiter  *limiter
	asks     []string // the client's headers that the limiter gets
	verdict  func(*answer) *answer
	away     func() *answer
}

func (f *replay) request(t *testing.T, from, path string, header ...string) *answer {
	t.Helper()
	own := ""
	for pair := range slices.Chunk(header, 2) {
		if slices.ContainsFunc(f.asks, func(name string) bool { return strings.EqualFold(name, pair[0]) }) {
			own += pair[0] + ": " + pair[1] + "\r\n"
		}
	}
	question := strings.NewReplacer(shown, from, "/things?page=2", path, "TOKEN", token, "X-Api-Key: alpha\r\n", own, "x-api-key: alpha\r\n", own).Replace(f.question)
	a, err := f.ask(question)
	if err != nil {
		return f.away()
	}
	return f.verdict(a)
}

func (f *replay) ask(question string) (*answer, error) {
	conn, err := net.Dial(f.limiter.network, f.limiter.addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience)) // and not the time-out of the gateway: this machine may be busy
	if _, err = io.WriteString(conn, question); err != nil {
		return nil, err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return &answer{res, string(body)}, err
}

// only returns the headers of these names.
func only(h http.Header, names []string) http.Header {
	passed := http.Header{}
	for _, name := range names {
		if values := h.Values(name); len(values) > 0 {
			passed[http.CanonicalHeaderKey(name)] = values
		}
	}
	return passed
}

// startAPISIX replays the plugin forward-auth of APISIX 3.18: any status below 300 is a yes, whose headers go to the
// application, and of a denial the client gets status, body and the headers that are named.
func (r *recipe) startAPISIX(t *testing.T, limits, away string) (front, *limiter) {
	t.Helper()
	var config struct {
		Rules []struct {
			Plugins struct {
				ForwardAuth struct {
					URI      string
					Degrades bool     `yaml:"allow_degradation"`
					Status   int      `yaml:"status_on_error"`
					Asks     []string `yaml:"request_headers"`
					Upstream []string `yaml:"upstream_headers"`
					Client   []string `yaml:"client_headers"`
				} `yaml:"forward-auth"`
			}
		} `yaml:"global_rules"`
	}
	l := startFor(t, limits)
	must.OK(t, yaml.Unmarshal([]byte(chosen(r.read(t, "apisix.yaml"), away, "allow_degradation: false", "allow_degradation: true")), &config))
	plugin := config.Rules[0].Plugins.ForwardAuth
	question := r.exchange(t)
	if !strings.HasPrefix(question, "GET "+pathIn(plugin.URI)+" ") {
		t.Errorf("testdata asks another address than %s", plugin.URI)
	}
	return &replay{
		question: question, limiter: l, asks: plugin.Asks,
		verdict: func(a *answer) *answer {
			if a.StatusCode < 300 {
				if len(only(a.Header, plugin.Upstream)) == 0 && a.Header.Get("RateLimit") != "" {
					t.Error("the application does not get RateLimit")
				}
				return responded(200, "served", nil)
			}
			return responded(a.StatusCode, a.body, only(a.Header, plugin.Client))
		},
		away: func() *answer {
			if plugin.Degrades {
				return responded(200, "served", nil)
			}
			return responded(plugin.Status, "", nil)
		},
	}, l
}

// startIstio replays the filter ext_authz of Envoy 1.28 and later, as Istio configures it: 200 is a yes, 5xx a failure of the
// limiter, and anything else a denial, with its body.
func (r *recipe) startIstio(t *testing.T, limits, away string) (front, *limiter) {
	t.Helper()
	var config struct {
		Mesh struct {
			Providers []struct {
				HTTP struct {
					Prefix string            `yaml:"pathPrefix"`
					Open   bool              `yaml:"failOpen"`
					Status string            `yaml:"statusOnError"`
					Asks   []string          `yaml:"includeRequestHeadersInCheck"`
					Adds   map[string]string `yaml:"includeAdditionalHeadersInCheck"`
					Denied []string          `yaml:"headersToDownstreamOnDeny"`
					Told   []string          `yaml:"headersToDownstreamOnAllow"`
				} `yaml:"envoyExtAuthzHttp"`
			} `yaml:"extensionProviders"`
		} `yaml:"meshConfig"`
	}
	l := startFor(t, limits)
	must.OK(t, yaml.Unmarshal([]byte(chosen(r.read(t, "mesh.yaml"), away, "failOpen: false", "failOpen: true")), &config))
	provider, question := config.Mesh.Providers[0].HTTP, r.exchange(t)
	if !strings.HasPrefix(question, "GET "+provider.Prefix+"/things?page=2 ") {
		t.Errorf("testdata asks another path than %s", provider.Prefix)
	}
	for name := range provider.Adds {
		if !strings.Contains(question, "\r\n"+name+": ") {
			t.Errorf("testdata lacks %s", name)
		}
	}
	status := must.Get(strconv.Atoi(provider.Status))(t)
	failed := func() *answer {
		if provider.Open {
			return responded(200, "served", nil)
		}
		return responded(status, "", nil)
	}
	return &replay{
		question: question, limiter: l, asks: provider.Asks, away: failed,
		verdict: func(a *answer) *answer {
			switch {
			case a.StatusCode >= 500:
				return failed()
			case a.StatusCode == 200:
				return responded(200, "served", only(a.Header, provider.Told))
			default:
				return responded(a.StatusCode, a.body, only(a.Header, append(provider.Denied, "Www-Authenticate", "Location")))
			}
		},
	}, l
}

// pathIn returns the path of an address of the limiter.
func pathIn(address string) string {
	_, path, _ := strings.Cut(address, "/v1/")
	return "/v1/" + path
}

// chosen returns a configuration in which everybody passes while the limiter is away, if that is chosen.
func chosen(config, away, closed, open string) string {
	if away == "closed" {
		return config
	}
	return strings.Replace(config, closed, open, 1)
}

// Envoy before 1.28 appends an address of its own, which the limiter has to know.
func TestEnvoyThatAppendsItsAddress(t *testing.T) {
	t.Parallel()
	r := recipes[slices.IndexFunc(recipes, func(r *recipe) bool { return r.name == "istio" })]
	for network, want := range map[string]int{"tcp": http.StatusOK, "tcp4": http.StatusInternalServerError} { // with --gateway-proxies, and without
		f := &replay{limiter: startLimiter(t, network, child.Dir(t), few)}
		question := strings.NewReplacer(shown, shown+",127.0.0.1", "TOKEN", token).Replace(r.exchange(t))
		a := must.Get(f.ask(question))(t)
		check.Equal(t, network, a.StatusCode, want)
	}
}
