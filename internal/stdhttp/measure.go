package stdhttp

import (
	"io"
	"net/http"

	"github.com/weblimit/weblimit/core"
)

// MeasureBody replaces r's body by one that notes when the handler waits for the client.
func MeasureBody(work *core.Work, r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &measuredBody{r.Body, work}
	}
}

// measuredBody notes when it waits for the client. Close can wait, too: net/http reads some of
// the rest of the body.
type measuredBody struct {
	io.ReadCloser
	work *core.Work
}

func (b *measuredBody) Read(p []byte) (int, error) {
	b.work.Wait()
	defer b.work.Resume()
	return b.ReadCloser.Read(p)
}

func (b *measuredBody) Close() error {
	b.work.Wait()
	defer b.work.Resume()
	return b.ReadCloser.Close()
}

// MeasureWriter returns a writer that notes when it waits for the client to read. It
// has the methods that w has beyond those of an http.ResponseWriter.
func MeasureWriter(work *core.Work, w http.ResponseWriter) http.ResponseWriter {
	return watch(w, Measuring(work))
}

// Measuring returns what notes in work when a handler waits for its client to read.
func Measuring(work *core.Work) Watcher { return measuring{work} }

type measuring struct{ work *core.Work }

func (m measuring) Clock() int64 {
	m.work.Wait()
	return 0
}

func (m measuring) Wrote(int64, error) { m.work.Resume() }
func (m measuring) Sent(int)           {}
func (m measuring) Hijacked()          { m.work.Forget() }

// Measure has next serve a request that load measures.
func Measure(work *core.Work, w http.ResponseWriter, r *http.Request, next http.Handler) {
	defer work.End() // also if the handler panics
	MeasureBody(work, r)
	next.ServeHTTP(MeasureWriter(work, w), r)
}
