package chilimit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weblimit/weblimit/chilimit"
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

func ask(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

// One middleware may go around several routes: they share its buckets.
func TestOneMiddlewareAroundTwoHandlers(t *testing.T) {
	t.Parallel()
	limit := chilimit.Limit(core.NewMemory(), core.PerHour(1).By(keyfuncs.Everyone()))
	for i, want := range []int{200, 429} {
		check.Equal(t, fmt.Sprintf("request %d", i+1), ask(limit(http.HandlerFunc(hello)), "GET", "/").Code, want)
	}
}
