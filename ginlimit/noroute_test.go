package ginlimit_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Requests do not name their engine, but their server does if the engine is its handler.
func TestARouteThatTheEngineDoesNotHave(t *testing.T) {
	t.Parallel()
	log := new(lines)
	limits := ginlimit.With(core.Config{Store: core.NewMemory(), Logger: slog.New(slog.NewTextHandler(log, nil))})
	limit := core.PerHour(5).By(keyfuncs.ClientIP())
	engine := gin.New()
	engine.Use(limits.Limit(
		limit.When(keyfuncs.Routes("POST /logni")).Named("misspelt"),
		limit.When(keyfuncs.Routes("POST /login")).Named("right"),
	))
	engine.POST("/login", func(c *gin.Context) { c.Status(http.StatusNoContent) })
	server := httptest.NewServer(engine)
	t.Cleanup(server.Close)
	must.OK(t, must.Get(server.Client().Post(server.URL+"/login", "", http.NoBody))(t).Body.Close())
	log.mu.Lock()
	defer log.mu.Unlock()
	check.Contains(t, "log", log.text.String(), `limit misspelt: the router has no route \"POST /logni\", so a condition on it never holds; did you mean \"POST /login\"?`)
	check.Equal(t, "lines about the other", bytes.Count(log.text.Bytes(), []byte("limit right")), 0)
}

// lines is a log that is written by several goroutines.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer // Guarded by mu.
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}
