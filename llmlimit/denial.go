package llmlimit

import (
	"net/http"
	"strconv"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/stdhttp"
	"github.com/weblimit/weblimit/llmlimit/internal/problem"
)

// Denied answers a denied request as its provider would: status, headers by [Meter.SetHeaders], and the body of an error.
// It is for Config.Denied of package nethttp, and of others over net/http. Requests of an unknown API get the usual body.
func (m *Meter) Denied(w http.ResponseWriter, r *http.Request, d core.Decision) {
	c := m.callFor(r)
	if c.API == Unknown {
		m.SetHeaders(w.Header(), OpenAI, d)
		stdhttp.Deny(w, r, &d)
		return
	}
	stdhttp.ClearValidators(w.Header())
	text := m.describe(w.Header(), r, &d)
	w.WriteHeader(d.Status())
	_, _ = w.Write(text) //nolint:gosec // G705: JSON with nothing of the request in it; fails only when the client is gone
}

func (m *Meter) callFor(r *http.Request) *Call {
	if c, ok := r.Context().Value(callKey{m}).(*Call); ok {
		return c
	}
	return &Call{API: m.config.API(r)}
}

// describe writes the headers of a denial, and returns its body.
func (m *Meter) describe(h http.Header, r *http.Request, d *core.Decision) []byte {
	api := m.callFor(r).API
	f := failure{status: d.Status(), message: problem.Detail(d, r), retry: d.RetryAfter}
	if binding, ok := d.Binding(); ok && !binding.Hidden {
		f.measure, _ = m.measure(binding.Rule.Name)
	}
	m.SetHeaders(h, api, *d)
	if api == Bedrock {
		h.Set("X-Amzn-Errortype", f.amazonType())
	}
	text := f.appendJSON(nil, api)
	h.Set("Content-Type", "application/json")
	if h.Get("Content-Encoding") == "" { // else middleware compresses it
		h.Set("Content-Length", strconv.Itoa(len(text)))
	}
	return text
}
