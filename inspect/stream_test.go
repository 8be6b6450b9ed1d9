package inspect_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/inspect"
)

// open opens a stream and reads its first event. The stream ends with ctx.
func (in *instance) open(ctx context.Context, t *testing.T) *bufio.Reader {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, in.server.URL+"/ops/api/v1/stream", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth("olga", operator)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if kind := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || kind != "text/event-stream" {
		t.Fatalf("got %d %s", res.StatusCode, kind)
	}
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
		line, err := from.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == "\n" {
			return event.String()
		}
		event.WriteString(line)
	}
}

func TestTheStreamGoesOn(t *testing.T) {
	t.Parallel()
	in := start(t, memstore.New())
	events := in.open(t.Context(), t)
	in.request("alice")
	if event := next(t, events); !strings.Contains(event, `"requests":1`) && !strings.Contains(event, `"name":"per-user"`) {
		t.Errorf("the second event is %q", event)
	}
}

func TestStreamsAreBoundedAndEndWithTheirClients(t *testing.T) {
	t.Parallel()
	in := start(t, memstore.New(), func(c *inspect.Config) { c.MaxStreams = 2 })
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	in.open(ctx, t)
	in.open(ctx, t)
	if status, _ := in.call(t, "GET", "api/v1/stream", ""); status != http.StatusServiceUnavailable {
		t.Errorf("the third stream is answered with %d, want 503", status)
	}
	in.overview(t) // polling goes on
	hangUp()
	// Both places are free again as soon as the server has noticed.
	began := time.Now()
	for n := 0; n < 2; {
		status := in.tryStream(t)
		if n++; status != http.StatusOK {
			n = 0
		}
		if time.Since(began) > 2*time.Minute {
			t.Fatal("a stream goes on without its client")
		}
	}
}

// tryStream opens a stream, hangs up, and returns the status.
func (in *instance) tryStream(t *testing.T) int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, in.server.URL+"/ops/api/v1/stream", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth("olga", operator)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

func TestCloseEndsStreams(t *testing.T) {
	t.Parallel()
	in := start(t, memstore.New())
	events := in.open(t.Context(), t)
	in.page.Close()
	in.page.Close()
	for {
		if _, err := events.ReadString('\n'); err != nil {
			return
		}
	}
}

func TestAServerThatCanNotStreamSaysSo(t *testing.T) {
	t.Parallel()
	in := start(t, memstore.New())
	server := httptest.NewServer(http.TimeoutHandler(in.page, time.Minute, "late"))
	defer server.Close()
	in.server.URL = server.URL
	if status, _ := in.call(t, "GET", "api/v1/stream", ""); status != http.StatusNotImplemented {
		t.Errorf("got %d, want 501", status)
	}
	in.overview(t)
}

func TestAStreamOutlivesTheServersWriteTimeout(t *testing.T) {
	t.Parallel()
	in := start(t, memstore.New())
	server := httptest.NewUnstartedServer(http.StripPrefix("/ops", in.page))
	server.Config.WriteTimeout = 1500 * time.Millisecond
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(in.page.Close)
	in.server.URL = server.URL
	next(t, in.open(t.Context(), t)) // two seconds later
}
