package llmlimit

import (
	"net/http"
	"strings"

	"github.com/weblimit/weblimit/core"
)

// Transport returns a transport that charges what answers have used to the limits that decided their requests, for an
// httputil.ReverseProxy behind them:
//
//	proxy.Transport = meter.Transport(nil)
//	handler := meter.Read(nethttp.Limit(store, limits...)(proxy))
//
// Answers get the headers of [Meter.SetHeaders] in place of those of the provider, which are about another account. It
// asks for answers that are not compressed, since it reads them. base is http.DefaultTransport if it is nil.
//
// A body settles once: at its end, when it fails, or when it is closed. Where the provider does not answer at all, the
// estimate stays charged, unless the limit refunds it: see core.Limit.RefundOn.
func (m *Meter) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return transport{m, base}
}

type transport struct {
	meter *Meter
	base  http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = t.meter.ReadRequest(r)
	res, err := t.base.RoundTrip(uncompressed(r))
	if err != nil {
		return nil, err
	}
	if res.Request == nil {
		res.Request = r
	}
	return res, t.meter.ModifyResponse(res)
}

// uncompressed returns a request that asks for an answer that can be read. Without the header, http.Transport would ask
// for gzip, and keep chunks back until they can be decoded.
func uncompressed(r *http.Request) *http.Request {
	changed := *r
	changed.Header = r.Header.Clone()
	if changed.Header == nil {
		changed.Header = http.Header{}
	}
	changed.Header.Set("Accept-Encoding", "identity")
	return &changed
}

// ModifyResponse does to an answer what [Meter.Transport] does, for httputil.ReverseProxy.ModifyResponse where its
// transport is another one. The request must have asked for an answer that is not compressed: nothing is read of
// others, and they cost their estimate. It returns no error.
func (m *Meter) ModifyResponse(res *http.Response) error {
	ctx := res.Request.Context()
	c, ok := ctx.Value(callKey{m}).(*Call)
	if !ok {
		c = &m.unread
	}
	if d, ok := core.FromContext(ctx); ok {
		removeForeign(res.Header)
		m.SetHeaders(res.Header, c.API, d)
	}
	if res.StatusCode != http.StatusSwitchingProtocols { // its body is a connection, and its estimate stays charged
		m.wrap(ctx, res, c, nil)
	}
	return nil
}

// removeForeign removes what a provider says of the account that the gateway has with it.
func removeForeign(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, "X-Ratelimit-") || strings.HasPrefix(name, "Anthropic-Ratelimit-") || strings.HasPrefix(name, "Ratelimit") {
			delete(h, name)
		}
	}
}
