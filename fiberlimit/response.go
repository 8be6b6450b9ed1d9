package fiberlimit

import (
	"bytes"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/utils"
	"github.com/valyala/fasthttp"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/fiberhttp"
	"github.com/weblimit/weblimit/internal/stdhttp"
)

// header is a core.Header. It returns copies, and fasthttp copies what it is given.
type header struct{ h *fasthttp.ResponseHeader }

var _ core.Header = header{}

func (h header) Get(name string) string { return string(h.h.Peek(name)) }

// Set replaces all lines of a field: by itself fasthttp replaces the first one.
func (h header) Set(name, value string) {
	h.h.Del(name)
	h.h.Set(name, value)
}

// Add sets a field that is not there yet. Names are in canonical form and values
// without line breaks, so that fasthttp need not see to it.
func (h header) Add(name, value string) {
	h.h.SetCanonical(utils.UnsafeBytes(name), utils.UnsafeBytes(value))
}

// header returns the header to write a decision to.
func (r *request) header() core.Header {
	h := header{&r.c.Response().Header}
	if r.response.finds(h.h) {
		return innerHeader{h}
	}
	return unwritten{h}
}

// unwritten is a header without fields of limiters: the common case, in which they are not looked for.
type unwritten struct{ header }

var _ fiberhttp.Unwritten = unwritten{}

// Get has none of them.
func (unwritten) Get(string) string { return "" }

// Append sets a field.
func (h unwritten) Append(name, value string) { h.Add(name, value) }

// innerHeader is the header of a limiter inside another one, or behind middleware that has written
// such fields, which a denial removes.
type innerHeader struct{ header }

// Del removes all lines of a field.
func (h innerHeader) Del(name string) { h.h.Del(name) }

// Values returns all lines of a field.
func (h header) Values(name string) []string {
	var values []string
	for _, value := range h.h.PeekAll(name) {
		values = append(values, string(value))
	}
	return values
}

// clearValidators prepares a response for a denial, as stdhttp does. If bodies are streams, the
// body of a denied request stays unread, and fasthttp would take it for the next request on the
// connection. A client behind a proxy could smuggle requests that way, with headers of its
// choice. So the connection is closed.
func clearValidators(c *fiber.Ctx) {
	if c.Request().IsBodyStream() {
		c.Response().SetConnectionClose()
	}
	for _, name := range stdhttp.StaleHeaders() {
		c.Response().Header.Del(name)
	}
	header{&c.Response().Header}.Set(fiber.HeaderCacheControl, "no-store")
}

// deny writes a denial, as stdhttp does. fasthttp adds the length, and leaves
// out the body of a response to HEAD.
func deny(c *fiber.Ctx, d *core.Decision) {
	clearValidators(c)
	accept := bytes.Join(c.Request().Header.PeekAll(fiber.HeaderAcceptLanguage), []byte{','})
	var buf [512]byte
	body, language := d.AppendProblem(buf[:0], string(accept))
	res := c.Response()
	res.Header.SetContentType(core.ProblemType)
	if language != "" {
		res.Header.Set(fiber.HeaderContentLanguage, language)
		c.Vary(fiber.HeaderAcceptLanguage)
	}
	res.SetStatusCode(d.Status())
	res.SetBody(body)
}
