package listen

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
)

func TestAtMost(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	h := AtMost(2, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { entered <- struct{}{}; <-leave }))
	ask := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		return w
	}
	codes := make(chan int, 2)
	for range 2 {
		go func() { codes <- ask().Code }()
		<-entered
	}
	w := ask()
	check.Equal(t, "the third", w.Code, http.StatusServiceUnavailable)
	check.Equal(t, "Retry-After", w.Header().Get("Retry-After"), "1")
	close(leave)
	check.Equal(t, "the first", <-codes, http.StatusOK)
	check.Equal(t, "the second", <-codes, http.StatusOK)
	go func() { codes <- ask().Code }()
	<-entered
	check.Equal(t, "a later one", <-codes, http.StatusOK)
}
