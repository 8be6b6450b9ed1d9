package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weblimit/weblimit/cmd/weblimitd/internal/listen"
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/inspect"
)

// pagePath is where the page of package inspect is.
const pagePath = "/limits/"

// admin is what the admin listener serves.
type admin struct {
	daemon    *daemon
	operators *operators
	page      *inspect.Handler
}

// healthHandler answers load balancers and probes. It is on the data listener, too, and tells nothing
// but whether the service is ready.
func healthHandler(h *health) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if !h.isAlive() {
			answerJSON(w, http.StatusServiceUnavailable, map[string]string{"status": "stuck"})
			return
		}
		answerJSON(w, http.StatusOK, map[string]string{"status": "alive"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		word, ready := h.status()
		code := http.StatusOK
		if !ready {
			code = http.StatusServiceUnavailable
			w.Header().Set("Retry-After", "1")
		}
		answerJSON(w, code, map[string]string{"status": word})
	})
	return mux
}

// maxScrapes bounds the scrapes of each page of metrics at work, which need no login.
const maxScrapes = 4

// handler returns what the admin listener serves: health to everybody, metrics to whoever asks under a known host, and all else
// to operators. What streams, the page and profiles, has no write timeout.
func (a *admin) handler(pprofToo bool) http.Handler {
	s := a.daemon
	mux := http.NewServeMux()
	probes := healthHandler(s.health)
	mux.Handle("GET /healthz", probes)
	mux.Handle("GET /readyz", probes)
	mux.Handle("GET /metrics", a.operators.known(listen.AtMost(maxScrapes, promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{EnableOpenMetrics: true, Timeout: 20 * time.Second}))))
	for _, m := range s.mounts {
		for pattern, h := range m.admin {
			mux.Handle(pattern, a.operators.known(listen.AtMost(maxScrapes, h)))
		}
	}
	mux.Handle("GET /status", a.operators.only(inspect.Read, func(w http.ResponseWriter, _ *http.Request, _ string) {
		answerJSON(w, http.StatusOK, s.status())
	}))
	mux.Handle("POST /reload", a.operators.only(inspect.Act, a.reload))
	mux.Handle("POST /rollback", a.operators.only(inspect.Act, a.rollback))
	mux.Handle(pagePath, a.operators.only(inspect.Read, func(w http.ResponseWriter, r *http.Request, _ string) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // it has a stream
		a.page.ServeHTTP(w, r)
	}))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, pagePath, http.StatusSeeOther) })
	if pprofToo {
		for path, h := range map[string]http.HandlerFunc{
			"/debug/pprof/": pprof.Index, "/debug/pprof/cmdline": pprof.Cmdline, "/debug/pprof/profile": pprof.Profile,
			"/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
		} {
			mux.Handle("GET "+path, a.operators.only(inspect.Act, func(w http.ResponseWriter, r *http.Request, _ string) {
				_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
				h(w, r)
			}))
		}
	}
	return mux
}

// reload reads policy, certificates and tokens again, and answers with the policy that decides.
func (a *admin) reload(w http.ResponseWriter, r *http.Request, actor string) {
	a.daemon.log.LogAttrs(r.Context(), slog.LevelInfo, "weblimitd: reload", slog.String("actor", actor))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), reloadTimeout)
	defer cancel()
	if err := a.daemon.reload(ctx); err != nil {
		answerProblem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	answerJSON(w, http.StatusOK, a.daemon.status())
}

// rollback goes back to the policy before.
func (a *admin) rollback(w http.ResponseWriter, r *http.Request, actor string) {
	if a.daemon.policies == nil {
		answerProblem(w, http.StatusConflict, "There is no policy file.")
		return
	}
	before := a.daemon.policies.Status().Version.String()
	version, err := a.daemon.policies.Rollback()
	a.daemon.metrics.reloaded("rollback", err)
	if err != nil {
		answerProblem(w, http.StatusConflict, err.Error())
		return
	}
	a.daemon.log.LogAttrs(r.Context(), slog.LevelWarn, "weblimitd: policy rolled back",
		slog.String("actor", actor), slog.String("before", before), slog.String("version", version.String()))
	answerJSON(w, http.StatusOK, a.daemon.status())
}

// statusJSON is what operators see of the service. It holds no secret.
type statusJSON struct {
	Version   string                  `json:"version"`
	Go        string                  `json:"go"`
	Status    string                  `json:"status"`
	Ready     bool                    `json:"ready"`
	Since     time.Time               `json:"since"`
	Instance  string                  `json:"instance"`
	Loaded    string                  `json:"loaded"`
	Policy    *policyJSON             `json:"policy,omitempty"`
	Store     storeJSON               `json:"store"`
	Region    *regionJSON             `json:"region,omitempty"`
	Listeners map[string]listenerJSON `json:"listeners"`
	Parts     map[string]any          `json:"parts,omitempty"`
	Settings  map[string]settingJSON  `json:"settings"`
}

type policyJSON struct {
	File     string    `json:"file"`
	Version  string    `json:"version"`
	Since    time.Time `json:"since"`
	Changes  int64     `json:"changes"`
	Refused  int64     `json:"refused"`
	Error    string    `json:"error,omitempty"`
	Policies []string  `json:"policies"`
}

type storeJSON struct {
	Kind  string    `json:"kind"`
	Up    bool      `json:"up"`
	Since time.Time `json:"since"`
}

type listenerJSON struct {
	Address     string     `json:"address"`
	TLS         bool       `json:"tls"`
	Mutual      bool       `json:"mutual_tls"`
	Certificate *time.Time `json:"certificate_end,omitempty"`
	Connections int64      `json:"connections"`
}

type settingJSON struct {
	Value string `json:"value"`
	From  string `json:"from"`
}

func (s *daemon) status() *statusJSON {
	word, ready := s.health.status()
	out, since := s.health.storeOut()
	answer := &statusJSON{
		Version: core.Version(), Go: runtime.Version(), Status: word, Ready: ready, Since: s.health.began, Instance: s.instance, Loaded: s.loaded(),
		Store:     storeJSON{s.backend.kind, !out, since},
		Region:    s.backend.regionStatus(),
		Listeners: map[string]listenerJSON{}, Parts: map[string]any{}, Settings: map[string]settingJSON{},
	}
	if s.policies != nil {
		p := s.policies.Status()
		answer.Policy = &policyJSON{
			File: p.File, Version: p.Version.String(), Since: p.Since, Changes: p.Changes, Refused: p.Refused, Policies: s.policies.Names(),
		}
		if p.Err != nil {
			answer.Policy.Error = p.Err.Error()
		}
	}
	for name, l := range s.listeners {
		in := listenerJSON{Address: addressOf(l), Connections: l.Open()}
		if c := s.certs[name]; c != nil {
			until := c.Until()
			in.TLS, in.Mutual, in.Certificate = true, c.Mutual(), &until
		}
		answer.Listeners[name] = in
	}
	for _, m := range s.mounts {
		if m.status != nil {
			answer.Parts[m.name] = m.status()
		}
	}
	for _, setting := range s.options.set.All() {
		answer.Settings[setting.Name] = settingJSON{setting.Shown(), string(setting.Origin())}
	}
	return answer
}
