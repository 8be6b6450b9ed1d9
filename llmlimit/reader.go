package llmlimit

import (
	"mime"
	"net/http"
	"strconv"

	"github.com/weblimit/weblimit/llmlimit/internal/scan"
)

// Reader reads the usage of an answer, or of a stream, as its bytes pass: Write it the bytes of the body, in chunks cut
// anywhere. It keeps none of them, and less than 2 KiB in all, however long the answer is. It is for one answer, and
// must not be used concurrently.
type Reader struct {
	api    API
	form   form
	tally  tally
	json   scan.Scanner
	events lines
	frames *frames // of Amazon's event streams
}

// form is how the body of an answer is built.
type form uint8

const (
	whole  form = iota // one JSON text; or an array of events, as Gemini streams without alt=sse
	events             // server-sent events
	framed             // application/vnd.amazon.eventstream
)

// NewReader returns a reader of an answer with these headers. It returns nil if nothing can be read of it: the body is
// compressed, or of a type that the API does not send.
func NewReader(api API, header http.Header) *Reader {
	if encoding := header.Get("Content-Encoding"); encoding != "" && encoding != "identity" || len(header["Content-Encoding"]) > 1 {
		return nil
	}
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || len(header["Content-Type"]) != 1 {
		return nil
	}
	r := &Reader{api: api}
	switch {
	case api == Bedrock && kind == "application/vnd.amazon.eventstream":
		r.form, r.frames = framed, &frames{}
		r.frames.begin()
	case api != Bedrock && kind == "text/event-stream":
		r.form = events
	case kind == "application/json":
	default:
		return nil
	}
	tree := treeOf(api)
	if tree == nil {
		return nil
	}
	if api == Bedrock && r.form == whole {
		r.countHeaders(header)
		tree = wholeBedrockTree
	}
	r.json.Reset(tree, &r.tally)
	return r
}

func treeOf(api API) *scan.Tree {
	switch api {
	case OpenAI:
		return openAITree
	case Anthropic:
		return anthropicTree
	case Gemini:
		return geminiTree
	case Bedrock:
		return converseTree
	}
	return nil
}

// countHeaders reads the headers in which Bedrock tells the usage of invoke.
func (r *Reader) countHeaders(header http.Header) {
	for _, h := range [...]struct {
		name string
		id   uint8
	}{
		{"X-Amzn-Bedrock-Input-Token-Count", fieldInput},
		{"X-Amzn-Bedrock-Output-Token-Count", fieldOutput},
		{"X-Amzn-Bedrock-Cache-Read-Input-Token-Count", fieldCacheRead},
		{"X-Amzn-Bedrock-Cache-Write-Input-Token-Count", fieldCacheWrite},
	} {
		if n, err := strconv.ParseInt(header.Get(h.name), 10, 64); err == nil && len(header[h.name]) == 1 {
			r.tally.Number(h.id, n, true)
		}
	}
}

// Write reads the next bytes. It never fails, and does not keep p.
func (r *Reader) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n, _ := r.next(rest)
		rest = rest[n:]
	}
	return len(p), nil
}

// next reads bytes up to the end of the next event, and reports whether there is one.
func (r *Reader) next(p []byte) (n int, event bool) {
	switch r.form {
	case events:
		return r.events.read(p, &r.json)
	case framed:
		return r.frames.read(p, &r.tally)
	}
	return r.json.Feed(p)
}

// Report returns what was told so far.
func (r *Reader) Report() Report { return r.tally.report(r.api) }
