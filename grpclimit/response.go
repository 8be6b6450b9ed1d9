package grpclimit

import (
	"context"
	"net/textproto"
	"strings"
	"sync"

	"google.golang.org/grpc/metadata"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
)

// response collects the headers that all limiters of a call have set.
//
// They are sent as header metadata with the first message, and as trailers if there is none.
// Set before the handler runs, they would switch off retries: clients retry a failed call only
// if its response has nothing but trailers (gRPC proposal A6).
type response struct {
	mu     sync.Mutex
	sent   bool    // Guarded by mu.
	fields []field // Guarded by mu.
	room   [3]field
}

// field is a response header with its canonical name.
type field struct{ name, value string }

// responseOf returns the response of the outermost limiter of a call. own becomes it if there
// is no limiter around this one.
func responseOf(ctx context.Context, own *response) *response {
	if outer, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return outer.response
	}
	return own.open()
}

// open prepares an unused response.
func (r *response) open() *response {
	r.fields = r.room[:0]
	return r
}

// write adds the headers of a decision, which may be in room, and, of a denial, the pushback. It returns false if headers
// were sent already.
func (r *response) write(d *core.Decision, room *adapter.HeaderRoom, pushbackValue string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sent {
		return false
	}
	f := (*fields)(r)
	adapter.SetHeaders(d, f, room)
	if pushbackValue != "" {
		f.Set(pushback, pushbackValue) // once: clients do not retry if it is there twice
	}
	return true
}

// send sends the headers by set, once. It fails if set does.
func (r *response) send(set func(metadata.MD) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sent || len(r.fields) == 0 {
		return nil
	}
	if err := set(r.metadata()); err != nil {
		return err
	}
	r.sent = true
	return nil
}

// metadata returns the headers as metadata. r.mu is held.
func (r *response) metadata() metadata.MD {
	md := make(metadata.MD, len(r.fields))
	values := make([]string, len(r.fields))
	for i, f := range r.fields {
		values[i] = f.value
		md[lower(f.name)] = values[i : i+1 : i+1]
	}
	return md
}

// lower returns a name in lower case, as HTTP/2 has it.
func lower(name string) string {
	if known, ok := lowered[name]; ok {
		return known
	}
	return strings.ToLower(name)
}

// lowered holds the names of all rate limit headers, by their canonical form and the usual one.
var lowered = func() map[string]string {
	names := map[string]string{}
	for _, name := range core.ExposeHeaders() {
		l := strings.ToLower(name)
		names[name], names[textproto.CanonicalMIMEHeaderKey(name)] = l, l
	}
	return names
}()

// fields is a response as a [core.Header].
type fields response

// Get implements [core.Header].
func (f *fields) Get(name string) string {
	for i := range f.fields {
		if f.fields[i].name == name {
			return f.fields[i].value
		}
	}
	return ""
}

// Set implements [core.Header].
func (f *fields) Set(name, value string) {
	for i := range f.fields {
		if f.fields[i].name == name {
			f.fields[i].value = value
			return
		}
	}
	f.fields = append(f.fields, field{name, value})
}

// Del removes a header.
func (f *fields) Del(name string) {
	for i := range f.fields {
		if f.fields[i].name == name {
			f.fields = append(f.fields[:i], f.fields[i+1:]...)
			return
		}
	}
}
