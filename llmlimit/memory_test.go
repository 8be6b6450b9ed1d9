package llmlimit

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// inProcess is a provider without a network: its answers stop behind some bytes until they are closed.
type inProcess struct {
	rec recording
	at  int
}

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: p.rec.headers(), Body: io.NopCloser(strings.NewReader(p.rec.body[:p.at])), Request: r}, nil
}

// open opens streams and reads some bytes of each.
func open(t testing.TB, client http.RoundTripper, n int, path string) (bodies []io.ReadCloser) {
	t.Helper()
	room := make([]byte, 64)
	for range n {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.anthropic.com"+path, strings.NewReader(`{"max_tokens":7}`)))(t)
		res := must.Get(client.RoundTrip(r))(t)
		for range 4 {
			_ = must.Get(res.Body.Read(room))(t)
		}
		bodies = append(bodies, res.Body)
	}
	return bodies
}

func streams(t testing.TB, name string) (client http.RoundTripper, limiter *core.Limiter, path string) {
	t.Helper()
	m := must.Get(New(Config{}))(t)
	limiter = core.ForLimits(core.NewMemory(), tokensOf(lot)(m))
	rec := recordings[name]
	return m.Limited(inProcess{rec, 300}, limiter), limiter, rec.path
}

// Streams have no goroutines, whether they are read to their end or closed before.
func TestStreamsHaveNoGoroutines(t *testing.T) { //nolint:paralleltest // it counts those of the process
	client, limiter, path := streams(t, "Anthropic, streamed")
	before := runtime.NumGoroutine()
	bodies := open(t, client, 1000, path)
	if n := runtime.NumGoroutine() - before; n > 0 { // below 0 if one of an earlier test has ended
		t.Errorf("1000 streams have %d goroutines, want none", n)
	}
	for i, body := range bodies {
		if i%2 == 0 {
			check.OK(t, check.ErrorOf(io.Copy(io.Discard, body)))
		}
		check.OK(t, body.Close())
	}
	check.OK(t, limiter.Drain(t.Context()))
	wait.Until(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

// A Reader has fewer than 2 KiB, as its doc says, of which a stream of Amazon's has the most.
func TestMemoryOfAReader(t *testing.T) {
	t.Parallel()
	plain, framed := unsafe.Sizeof(Reader{}), unsafe.Sizeof(Reader{})+unsafe.Sizeof(frames{})
	if plain > 1<<10 || framed > 2<<10 {
		t.Errorf("a reader has %d bytes, and %d for Amazon's event streams", plain, framed)
	}
}

// What 10,000 streams hold at once, with all that a limiter keeps of them.
func BenchmarkTenThousandStreams(b *testing.B) {
	for _, name := range []string{"Anthropic, streamed", "Bedrock converse, streamed"} {
		b.Run(name, func(b *testing.B) {
			const n = 10_000
			for b.Loop() {
				client, _, path := streams(b, name)
				before := heap()
				bodies := open(b, client, n, path)
				b.ReportMetric(float64(heap()-before)/n, "bytes/stream")
				b.ReportMetric(float64(runtime.NumGoroutine()), "goroutines")
				for _, body := range bodies {
					check.OK(b, body.Close())
				}
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// What reading takes of a stream's time, in chunks as they come from a network.
func BenchmarkReader(b *testing.B) {
	for name, rec := range recordings {
		b.Run(name, func(b *testing.B) {
			body, header := []byte(rec.body), rec.headers()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				r := NewReader(rec.api, header)
				_, _ = r.Write(body)
			}
		})
	}
	b.Run("a long answer", func(b *testing.B) {
		body := []byte(fmt.Sprintf(`{"choices":[{"message":{"content":%q}}]}`, strings.Repeat("some text of an answer, ", 50_000)))
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			r := NewReader(OpenAI, http.Header{"Content-Type": {jsonType}})
			_, _ = r.Write(body)
		}
	})
}

// Reading takes no memory beside the Reader.
func TestReadingAllocatesNothing(t *testing.T) { //nolint:paralleltest // it counts allocations
	for name, rec := range recordings {
		r, body := NewReader(rec.api, rec.headers()), []byte(rec.body)
		_, _ = r.Write(body)
		if got := testing.AllocsPerRun(10, func() { _, _ = r.Write(body) }); got > 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}
