package llmlimit

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/llmlimit/internal/peek"
)

// Other is the Name of calls whose model nobody knows, or for which there is no price. So made-up models share one key.
const Other = "other"

// Call is what was read of a request to a model.
type Call struct {
	API    API
	Model  string // as the request names it; "" if it can't be read
	Name   string // the price's Model that it matches, or Other
	Stream bool   // it asks for a stream, as far as its body says
	Input  int64  // at most so many input tokens, by the length of the body
	Output int64  // at most so many output tokens, as the request or the configuration says

	price     Price
	responses bool // it is one of OpenAI's responses, whose streams have errors of another form
}

// callKey is the key of a meter's call in a context.
type callKey struct{ meter *Meter }

// Call returns what was read of the request with this context. It returns false if [Meter.ReadRequest] has not read it.
func (m *Meter) Call(ctx context.Context) (Call, bool) {
	if c, ok := ctx.Value(callKey{m}).(*Call); ok {
		return *c, true
	}
	return Call{}, false
}

// callOf returns what was read of a request that a limit decides.
func (m *Meter) callOf(r keyfuncs.Request) *Call {
	if c, ok := r.Value(callKey{m}).(*Call); ok {
		return c
	}
	return &m.unread
}

// Read returns a handler that reads each request by [Meter.ReadRequest], for next. Put it around the limits.
func (m *Meter) Read(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(w, m.ReadRequest(r)) })
}

// ReadRequest reads which model a request is for and what it may cost, and returns a copy of the request that knows it:
// limits decide by it, and the next handler reads the same body from its beginning. It waits for the body, and keeps at
// most Config.Peek bytes of it.
//
// The model is [Other] if the body is longer, compressed, no JSON, or names its model twice, in other case, or not as
// text.
func (m *Meter) ReadRequest(r *http.Request) *http.Request {
	if _, ok := r.Context().Value(callKey{m}).(*Call); ok {
		return r
	}
	c := &Call{API: m.config.API(r)}
	b := &peek.Body{Complete: true}
	bodiless := r.Body == nil || r.Body == http.NoBody
	if !bodiless {
		b = peek.Begin(r.Body, m.config.Peek)
	}
	asked := readBody(b)
	m.readCall(c, asked, r, b)
	r = r.WithContext(context.WithValue(r.Context(), callKey{m}, c))
	if bodiless {
		return r
	}
	r.Body = b
	if m.config.AskForUsage && c.API == OpenAI && strings.HasSuffix(r.URL.Path, "/completions") && asked.stream && !asked.options && !asked.doubtful {
		askForUsage(r, b)
	}
	return r
}

// askForUsage adds the option to the body of a request, which is an object with fields.
func askForUsage(r *http.Request, b *peek.Body) {
	const option = `"stream_options":{"include_usage":true},`
	b.Insert(bytes.IndexByte(b.Head, '{')+1, option)
	r.GetBody = nil // which has another body
	if r.ContentLength > 0 {
		r.ContentLength += int64(len(option))
		r.Header = r.Header.Clone()
		r.Header.Set("Content-Length", strconv.FormatInt(r.ContentLength, 10))
	}
}

// readCall fills in a call by the request and the beginning of its body.
func (m *Meter) readCall(c *Call, asked *request, r *http.Request, b *peek.Body) {
	c.Model = asked.modelName()
	if model, ok := pathModel(r.URL.EscapedPath()); ok {
		c.Model = model
	}
	price, ok := m.config.Prices.Find(c.Model)
	if c.Name = price.Model; !ok {
		price, c.Name = m.config.Prices.Dearest(), Other
	}
	c.price = price
	_, last, _ := cutLast(r.URL.EscapedPath())
	c.Stream = asked.stream || strings.HasSuffix(last, "-stream") || strings.HasSuffix(last, ":streamGenerateContent")
	c.Input = m.inputBound(r, b)
	c.responses = c.API == OpenAI && last == "responses"
	if c.Output = 0; last != "embeddings" {
		c.Output = asked.outputBound(m.config.Output, price.MaxOutput)
	}
}

// pathModel returns the model that a path names.
func pathModel(path string) (model string, ok bool) {
	_, escaped := route(path)
	if escaped == "" {
		_, after, found := strings.Cut(path, "/openai/deployments/") // of Azure, which goes by it whatever the body says
		if escaped, _, _ = strings.Cut(after, "/"); !found {
			return "", false
		}
	}
	model, err := url.PathUnescape(escaped)
	if err != nil {
		model = ""
	}
	return model, true
}

// inputBound returns how many tokens the input can have: no tokenizer makes more of them than there are bytes.
func (m *Meter) inputBound(r *http.Request, b *peek.Body) int64 {
	length := int64(len(b.Head))
	if !b.Complete {
		if length = r.ContentLength; length < int64(len(b.Head)) {
			return MaxTokens
		}
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return MaxTokens
	}
	per := int64(m.config.BytesPerToken)
	return capped((length + per - 1) / per)
}

// Model returns the key function of the model: its price's Model, such as "gpt-4o-mini*", or [Other]. A request has as
// many keys as there are prices, and one more.
//
//	m.Limit("tokens", llmlimit.Tokens, core.PerMinute(100_000).By(user, m.Model()))
func (m *Meter) Model() keyfuncs.Func {
	return keyfuncs.Custom("model", func(r keyfuncs.Request) string { return m.callOf(r).Name })
}

// Models returns a condition that holds for requests whose Name is one of these, as the file of prices writes them. It
// panics if the prices have no such name.
func (m *Meter) Models(names ...string) keyfuncs.Condition {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		if name != Other && !m.config.Prices.has(name) {
			panic("weblimit: llmlimit: Models: the prices have no model " + name)
		}
		set[name] = true
	}
	return keyfuncs.Matches(func(r keyfuncs.Request) bool { return set[m.callOf(r).Name] })
}
