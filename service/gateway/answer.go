package gateway

import (
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/stdhttp"
)

// Headers for gateways.
const (
	// StatusHeader has the status that the client is to get: of a denial for nginx, and 200 for other
	// gateways if the request may pass. A gateway that was set up to ask something else by mistake, such as
	// the application, can tell that this is no limiter.
	StatusHeader = "Weblimit-Status"

	// ProblemHeader has the body of a denial for nginx.
	ProblemHeader = "Weblimit-Problem"
)

const allowedStatus = "200"

// answer tells a gateway the decision.
func answer(w http.ResponseWriter, r *http.Request, d *core.Decision, by way) {
	h := w.Header()
	d.SetHeaders(adapter.HeaderMap(h))
	switch {
	case d.Allowed:
		// Envoy takes nothing but 200 for a yes.
		if by == forwardAuth {
			h[StatusHeader] = []string{allowedStatus}
		}
		h["Content-Length"] = []string{"0"}
		w.WriteHeader(http.StatusOK)
	case by == authRequest:
		stdhttp.ClearValidators(h)
		body, language := d.AppendProblem(make([]byte, 0, 512), strings.Join(r.Header["Accept-Language"], ","))
		if language != "" {
			h["Content-Language"] = []string{language}
		}
		h[StatusHeader] = []string{strconv.Itoa(d.Status())}
		h[ProblemHeader] = []string{strings.ReplaceAll(string(body), "\x7f", `\u007f`)} // the only control character that JSON allows
		h["Content-Length"] = []string{"0"}
		shorten(h, d.Status())
		w.WriteHeader(http.StatusForbidden)
	default:
		stdhttp.Deny(w, r, d)
	}
}

// maxHeader bounds the header of an answer for nginx, whose buffer has 4 KiB by default, for the status line
// and the fields of net/http, too. A larger answer would be a failure of the limiter to it, which a client can cause: then
// the limiter would be away for all.
const maxHeader = 3840

// shorten leaves out of an answer what the client can do without if it is too large. Only texts of the
// application can make it so large, in Config.Limiter.Details or MissingKey.
func shorten(h http.Header, status int) {
	size := 0
	for name, values := range h {
		for _, value := range values {
			size += len(name) + len(value) + len(": \r\n")
		}
	}
	if size <= maxHeader {
		return
	}
	for name := range h {
		switch name {
		case "Retry-After", "Cache-Control", "Content-Length", StatusHeader:
		default:
			delete(h, name)
		}
	}
	h[ProblemHeader] = []string{`{"type":"about:blank","title":"` + http.StatusText(status) + `","status":` + strconv.Itoa(status) + `}`}
}

// refuse answers a subrequest that says nothing that could be decided. The log has the reason, and the
// body, which a gateway passes on to its client, has nothing of it: whoever finds the limiter by accident
// learns neither addresses nor names of headers.
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, status int, reason string, about ...slog.Attr) {
	g.log.add(r, reason, about)
	h := w.Header()
	h["Content-Type"] = []string{core.ProblemType}
	h["Cache-Control"] = []string{"no-store"}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(`{"type":"about:blank","title":"` + http.StatusText(status) + `","status":` + strconv.Itoa(status) +
			`,"detail":"The gateway did not ask its rate limiter as it must. The limiter's log says why."}`)) // fails only when the gateway is gone
	}
}

// complaints are lines in the log about gateways. A client may be able to cause them, so there is one
// per reason and minute.
type complaints struct {
	logger *slog.Logger

	mu     sync.Mutex
	before map[string]complaint // by reason, of which there are few. Guarded by mu.
}

type complaint struct {
	at    time.Time
	since int64 // how many more there were
}

func (c *complaints) add(r *http.Request, reason string, about []slog.Attr) {
	c.mu.Lock()
	last, now := c.before[reason], time.Now()
	if !last.at.IsZero() && now.Sub(last.at) < time.Minute {
		last.since++
		c.before[reason] = last
		c.mu.Unlock()
		return
	}
	if c.before == nil {
		c.before = make(map[string]complaint)
	}
	c.before[reason] = complaint{at: now}
	c.mu.Unlock()
	about = append([]slog.Attr{slog.String("reason", reason), slog.String("peer", r.RemoteAddr)}, about...)
	if last.since > 0 {
		about = append(about, slog.Int64("repeated", last.since))
	}
	c.logger.LogAttrs(r.Context(), slog.LevelError, "weblimit: a gateway's subrequest was refused", about...)
}
