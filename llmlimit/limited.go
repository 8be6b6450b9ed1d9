package llmlimit

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/stdhttp"
)

// Limited returns a transport for the client of a program that calls models itself: limiter decides each request before
// it is sent, and is charged what its answer has used. Keys are read of the request that is sent, and of its context.
//
//	client := &http.Client{Transport: meter.Limited(nil, limiter)}
//
// A denial is an answer as the provider would write it, by [Meter.Denied], so that the provider's own library waits and
// asks again. base is http.DefaultTransport if it is nil. Limited panics if limiter is nil.
func (m *Meter) Limited(base http.RoundTripper, limiter *core.Limiter) http.RoundTripper {
	if limiter == nil {
		panic("weblimit: llmlimit: Limited: the limiter is nil")
	}
	if base == nil {
		base = http.DefaultTransport
	}
	return &limited{m, base, adapter.New(limiter, "llmlimit", "*http.Request")}
}

type limited struct {
	meter   *Meter
	base    http.RoundTripper
	limiter *adapter.Limiter
}

// RoundTrip implements [http.RoundTripper].
func (t *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	r = t.meter.ReadRequest(r)
	ctx := &adapter.Context{Context: r.Context()}
	t.limiter.Decide(stdhttp.Of(r), ctx, nil)
	d := &ctx.Decision
	if !d.Allowed {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		if r.Context().Err() != nil { // as while it waited for its turn
			return nil, context.Cause(r.Context())
		}
		return t.meter.denial(r, d), nil
	}
	res, err := t.base.RoundTrip(uncompressed(r.WithContext(ctx)))
	if err != nil {
		d.Settle(core.Outcome{Status: http.StatusBadGateway, Err: err, Canceled: r.Context().Err() != nil})
		return nil, err
	}
	if res.Request == nil {
		res.Request = r
	}
	settle := func(err error) {
		d.Settle(core.Outcome{Status: res.StatusCode, Err: err, Canceled: r.Context().Err() != nil})
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		settle(nil)
		return res, nil
	}
	c, _ := r.Context().Value(callKey{t.meter}).(*Call)
	t.meter.wrap(ctx, res, c, settle)
	return res, nil
}

// denial returns a denial as an answer.
func (m *Meter) denial(r *http.Request, d *core.Decision) *http.Response {
	res := &http.Response{
		StatusCode: d.Status(), Status: strconv.Itoa(d.Status()) + " " + http.StatusText(d.Status()),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Request: r,
	}
	d.SetHeaders(res.Header)
	text := m.describe(res.Header, r, d)
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return res
}
