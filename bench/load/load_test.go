package load

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/must"
)

func TestRunCountsAnswersByStatus(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n.Add(1) % 3 {
		case 0:
			w.WriteHeader(http.StatusNoContent)
		case 1:
			http.Error(w, "too many", http.StatusTooManyRequests)
		default:
			_, _ = w.Write([]byte("body " + r.URL.Path))
		}
	}))
	defer server.Close()
	r := must.Get(Run(Config{
		Addr: strings.TrimPrefix(server.URL, "http://"), Path: "/p", Connections: 4,
		Warmup: 10 * time.Millisecond, Time: 200 * time.Millisecond,
	}))(t)
	sum := 0
	for status, count := range r.Statuses {
		if status != 200 && status != 204 && status != 429 {
			t.Errorf("%d answers with status %d", count, status)
		}
		sum += count
	}
	if sum != r.Requests || int64(sum) > n.Load() {
		t.Errorf("%d requests, %d by status, %d served", r.Requests, sum, n.Load())
	}
}

func TestRunFailsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"closed": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"in chunks": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("a"))
			w.(http.Flusher).Flush()
		},
	} {
		server := httptest.NewServer(handler)
		if r, err := Run(Config{Addr: strings.TrimPrefix(server.URL, "http://"), Connections: 1}); err == nil {
			t.Errorf("%s: %+v and no error", name, r)
		}
		server.Close()
	}
}
