package fibertest

import (
	"net/http"
	"testing"

	"github.com/weblimit/weblimit/keyfuncs"
)

// fasthttp is what the release of fasthttp in this program does with a request. It is tried, since a module
// can bring a newer one than Fiber asks for.
type fasthttp struct {
	// reorders: a header that is removed leaves a gap, which the last one fills. 1.69 to 1.74 do so.
	reorders bool

	// apart: the fields of a trailer are kept apart from the header's, and what middleware sets under the name of
	// one goes there, too. 1.75 and later do so.
	apart bool
}

// refuses says that cookies in a trailer are refused, and that the encoding of an empty body is removed.
func (f fasthttp) refuses() bool { return f.reorders || f.apart }

func (s suite[C]) releaseOfFasthttp(t *testing.T) (f fasthttp) {
	t.Helper()
	r := chunkedPost("abc")
	r.Header["A-Debug"], r.Header[tenant] = []string{"1"}, []string{"a"}
	r.Trailer = http.Header{tenant: {"x"}}
	s.seen(t, Options[C]{}, r, func(c C, _ keyfuncs.Request) {
		s.f.Request(c).Del("A-Debug")
		f.reorders = c.Get(tenant) == "x"
		s.f.Request(c).Set(tenant, "m")
		f.apart = c.Get(tenant) == "a"
	})
	return f
}
