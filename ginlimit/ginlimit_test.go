package ginlimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

func get(h http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Gin's c.Cookie unescapes, so what it reads as one session must be one bucket.
func TestSpellingsOfACookieAreOneBucket(t *testing.T) {
	t.Parallel()
	engine := gin.New()
	engine.Use(ginlimit.Limit(core.NewMemory(), core.PerHour(1).By(keyfuncs.Cookie("sid"))))
	engine.GET("/", func(c *gin.Context) {
		sid, _ := c.Cookie("sid")
		c.String(200, "%s", sid)
	})
	for i, spelling := range []string{"abc d", "%61bc d", "a%62c+d", "abc%20d", `"abc d"`} {
		w := get(engine, "/", "Cookie", "sid="+spelling)
		if want := 429; i > 0 && w.Code != want {
			t.Errorf("sid=%s: %d %s, want %d", spelling, w.Code, w.Body, want)
		}
	}
	if w := get(engine, "/", "Cookie", "sid=other"); w.Code != 200 || w.Body.String() != "other" {
		t.Errorf("another session: %d", w.Code)
	}
}

// Locals come before the context, whatever engine.ContextWithFallback says.
func TestLocalsComeBeforeTheContext(t *testing.T) {
	t.Parallel()
	for _, fallback := range []bool{false, true} {
		engine := gin.New()
		engine.ContextWithFallback = fallback
		engine.Use(func(c *gin.Context) { c.Set("user", c.Query("user")) })
		engine.Use(ginlimit.Limit(core.NewMemory(), core.PerHour(1).By(keyfuncs.User("user"))))
		for _, tt := range []struct {
			path string
			want int
		}{{"/?user=a", 404}, {"/?user=a", 429}, {"/?user=b", 404}} {
			check.Equal(t, fmt.Sprintf("fallback %v: %s", fallback, tt.path), get(engine, tt.path).Code, tt.want)
		}
	}
}

// What runs after the chain, such as a logger, sees the denial as it was sent.
func TestOuterMiddlewareSeesTheDenial(t *testing.T) {
	t.Parallel()
	engine := gin.New()
	var status, size int
	var aborted bool
	engine.Use(func(c *gin.Context) {
		c.Next()
		status, size, aborted = c.Writer.Status(), c.Writer.Size(), c.IsAborted()
	})
	engine.Use(ginlimit.Limit(core.NewMemory(), core.PerHour(1).By(keyfuncs.Everyone())))
	engine.GET("/", func(c *gin.Context) { c.String(200, "ok") })
	get(engine, "/")
	if w := get(engine, "/"); status != 429 || size != w.Body.Len() || !aborted {
		t.Errorf("status %d, %d of %d bytes, aborted %v", status, size, w.Body.Len(), aborted)
	}
}

// A denial by a guard aborts the chain, as one by the middleware does.
func TestGuardAbortsTheChain(t *testing.T) {
	t.Parallel()
	guard := ginlimit.With(core.Config{Store: core.NewMemory()}).Guard(core.PerHour(1).Named("to"))
	r, later := gin.New(), 0
	r.GET("/", func(c *gin.Context) { guard.Allow(c, "to:ann", 1) }, func(c *gin.Context) {
		later++
		c.String(http.StatusOK, "later")
	})
	for range 2 {
		r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}
	check.Equal(t, "runs of the next handler", later, 1)
}
