package inspect_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/inspect"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// open opens a stream and reads its first event. The stream ends with ctx.
func (in *instance) open(ctx context.Context, t *testing.T) *bufio.Reader {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/ops/api/v1/stream", http.NoBody))(t)
	r.SetBasicAuth("olga", operator)
	res := must.Get(in.client.Do(r))(t)
	t.Cleanup(func() { res.Body.Close() })
	check.All(t, "status and type", []any{res.StatusCode, res.Header.Get("Content-Type")}, 200, "text/event-stream")
	events := bufio.NewReader(res.Body)
	if event := next(t, events); !strings.Contains(event, "event: overview\ndata: {") || !strings.Contains(event, `"per-user"`) {
		t.Fatalf("got %q", event)
	}
	return events
}

// next reads an event.
func next(t *testing.T, from *bufio.Reader) string {
	t.Helper()
	var event strings.Builder
	for {
		line := must.Get(from.ReadString('\n'))(t)
		if line == "\n" {
			return event.String()
		}
		event.WriteString(line)
	}
}

func TestTheStreamGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := start(t, core.NewMemory())
		events := in.open(t.Context(), t)
		in.request("alice")
		if event := next(t, events); !strings.Contains(event, `"requests":1`) && !strings.Contains(event, `"name":"per-user"`) {
			t.Errorf("the second event is %q", event)
		}
	})
}

func TestStreamsAreBoundedAndEndWithTheirClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := start(t, core.NewMemory(), func(c *inspect.Config) { c.MaxStreams = 2 })
		for range 2 { // the places of those who hang up are free again
			ctx, hangUp := context.WithCancel(t.Context())
			in.open(ctx, t)
			in.open(ctx, t)
			status, _ := in.call(t, "GET", "api/v1/stream", "")
			check.Equal(t, "status of the third stream", status, http.StatusServiceUnavailable)
			in.overview(t) // polling goes on
			hangUp()
			synctest.Wait()
		}
	})
}

func TestCloseEndsStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := start(t, core.NewMemory())
		events := in.open(t.Context(), t)
		in.page.Close()
		in.page.Close()
		if _, err := events.ReadString('\n'); err == nil {
			t.Error("the stream goes on")
		}
	})
}

func TestAServerThatCanNotStreamSaysSo(t *testing.T) {
	t.Parallel()
	in := start(t, core.NewMemory())
	in.serve(t, http.StripPrefix("/ops", http.TimeoutHandler(in.page, time.Minute, "late")), 0)
	status, _ := in.call(t, "GET", "api/v1/stream", "")
	check.Equal(t, "status", status, http.StatusNotImplemented)
	in.overview(t)
}

func TestAStreamOutlivesTheServersWriteTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := start(t, core.NewMemory())
		in.serve(t, http.StripPrefix("/ops", in.page), 1500*time.Millisecond)
		events := in.open(t.Context(), t)
		for range 10 { // for twenty seconds, which is longer than the client may take for one event, too
			next(t, events)
		}
	})
}
