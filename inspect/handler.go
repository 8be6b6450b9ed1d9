package inspect

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/browser"
)

// Handler serves the page and its API. It is safe for concurrent use.
type Handler struct {
	config      Config
	crossOrigin http.CrossOriginProtection
	health      health
	labels      labels
	instances   instances
	overviews   cached[*overview]
	blocks      blockList
	streams     atomic.Int64

	closing sync.Once
	closed  chan struct{}
}

// New returns a handler, or an error that says which part of the configuration can't work. It does
// not talk to the store. Make one per store, when the process starts: it hears of the store's events
// from then on, until the process ends.
func New(config Config) (*Handler, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	h := &Handler{config: config, closed: make(chan struct{})}
	h.health.since = time.Now()
	h.labels.resolve = config.Label
	config.Store.Registry().Watch(h.health.note)
	return h, nil
}

// Close ends all streams, for [http.Server.RegisterOnShutdown]: the server would wait for them. Pages
// poll afterwards. It may be called several times.
func (h *Handler) Close() { h.closing.Do(func() { close(h.closed) }) }

func (h *Handler) log() *slog.Logger {
	if h.config.Logger != nil {
		return h.config.Logger
	}
	return slog.Default()
}

// request is an authorized request.
type request struct {
	http.ResponseWriter
	*http.Request
	actor string
	may   Permission
}

// route is one path of the API.
type route struct {
	method string
	may    Permission
	serve  func(*Handler, *request) *problem
}

// api are the routes below api/v1/.
var api = map[string]route{
	"overview": {http.MethodGet, Read, (*Handler).serveOverview},
	"stream":   {http.MethodGet, Read, (*Handler).serveStream},
	"limits":   {http.MethodGet, Read, (*Handler).serveLimits},
	"clients":  {http.MethodGet, Read, (*Handler).serveClients},
	"blocks":   {http.MethodGet, Read, (*Handler).serveBlocks},
	"health":   {http.MethodGet, Read, (*Handler).serveHealth},
	"explain":  {http.MethodPost, Read, (*Handler).serveExplain},
	"reset":    {http.MethodPost, Act, (*Handler).serveReset},
	"block":    {http.MethodPost, Act, (*Handler).serveBlock},
	"unblock":  {http.MethodPost, Act, (*Handler).serveUnblock},
}

const apiPrefix = "/api/v1/"

// ServeHTTP implements [http.Handler]. It reads the end of the path only, so that it does not matter
// which part the router has cut off.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if !h.knowsHost(r) {
		(&problem{http.StatusMisdirectedRequest, "This page is not served under the host of this request. If it should be, add the host to inspect.Config.Hosts."}).write(w)
		return
	}
	actor, may := h.authorize(r)
	if actor == "" {
		if len(h.config.Users) > 0 {
			w.Header().Set("WWW-Authenticate", `Basic realm="weblimit", charset="UTF-8"`)
		}
		(&problem{http.StatusUnauthorized, "This page is for operators: log in."}).write(w)
		return
	}
	if may != Read && may != Act {
		(&problem{http.StatusForbidden, "You may not see this page."}).write(w)
		return
	}
	if p := h.serve(&request{w, r, actor, may}); p != nil {
		p.write(w)
	}
}

func (h *Handler) serve(r *request) *problem {
	path := r.URL.Path
	if at := strings.LastIndex(path, apiPrefix); at >= 0 {
		to, ok := api[path[at+len(apiPrefix):]]
		if !ok {
			return &problem{http.StatusNotFound, "The API has no such path."}
		}
		return h.serveAPI(r, to)
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		r.ResponseWriter.Header().Set("Allow", "GET, HEAD")
		return &problem{http.StatusMethodNotAllowed, "The page takes GET alone."}
	}
	name := path[strings.LastIndexByte(path, '/')+1:]
	if asset, ok := assets[name]; ok { // "" is the page
		asset.serve(r)
		return nil
	}
	if strings.Contains(name, ".") {
		return &problem{http.StatusNotFound, "The page has no such file."}
	}
	// Without the slash, the page's links would point beside it. Relative, so that it leads nowhere else.
	r.ResponseWriter.Header().Set("Location", "./"+url.PathEscape(name)+"/")
	r.WriteHeader(http.StatusSeeOther)
	return nil
}

func (h *Handler) serveAPI(r *request, to route) *problem {
	header := r.ResponseWriter.Header()
	header.Set("Cache-Control", "no-store")
	if r.Method != to.method {
		header.Set("Allow", to.method)
		return &problem{http.StatusMethodNotAllowed, "This path takes " + to.method + " alone."}
	}
	if browser.FromOtherSite(r.Request) {
		return &problem{http.StatusForbidden, "The request comes from a page of another origin."}
	}
	if to.method == http.MethodPost {
		if p := h.checkPost(r.Request); p != nil {
			return p
		}
	}
	if r.may < to.may {
		return &problem{http.StatusForbidden, "You may look, and not act."}
	}
	return to.serve(h, r)
}

// secure sets the headers of every response.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("X-Robots-Tag", "noindex, nofollow")
	h.Set("Cache-Control", "no-store")
}

// problem is an error as clients get it, by RFC 9457.
type problem struct {
	status int
	detail string
}

func (p *problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{http.StatusText(p.status), p.status, p.detail})
	if err != nil {
		body = fmt.Appendf(nil, `{"status":%d}`, p.status)
	}
	w.Header().Set("Content-Type", core.ProblemType)
	w.WriteHeader(p.status)
	_, _ = w.Write(append(body, '\n'))
}

// answer writes a JSON response.
func (r *request) answer(v any) *problem {
	body, err := json.Marshal(v)
	if err != nil {
		return &problem{http.StatusInternalServerError, "The answer can't be written as JSON."}
	}
	r.ResponseWriter.Header().Set("Content-Type", "application/json")
	_, _ = r.ResponseWriter.Write(append(body, '\n'))
	return nil
}
