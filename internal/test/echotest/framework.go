package echotest

import (
	"net/http"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Ctx is what the contexts of both versions have in common: echo.Context and *echo.Context.
type Ctx interface {
	Request() *http.Request
	SetRequest(r *http.Request)
	Set(key string, value any)
	Param(name string) string
	QueryParam(name string) string
	RealIP() string
	NoContent(status int) error
	String(status int, text string) error
}

// Framework is a version of Echo and its adapter. C is its context, and M its echo.MiddlewareFunc.
type Framework[C Ctx, M any] interface {
	// Name is that of the adapter's package.
	Name() string

	// App is echo.New, and Error echo.NewHTTPError.
	App(options Options[C]) App[C, M]
	Error(status int, text string) error
	Response(c C) http.ResponseWriter
	// Sent is what the response says of itself.
	Sent(c C) (status int, size int64, committed bool)

	// Middleware makes one of f, and the others are those of Echo.
	Middleware(f func(c C, next func(C) error) error) M
	Recover() M
	Gzip() M
	BodyLimit1K() M
	RemoveTrailingSlash() M
	KeyAuth(lookup string, valid func(key string) bool) M

	// The exported names of the adapter.
	Limit(store core.Store, limits ...core.Limit) M
	New(limiter *core.Limiter, own Config[C]) M
	Guard(config core.Config, own Config[C], limits ...core.Limit) *Guard[C]
	Of(layers ...limittest.Layer) []M
	GuardOf(s *limittest.Settings, limits ...core.Limit) any
	FromContext(c C) (core.Decision, bool)
	Key(kind string, f func(C) string) keyfuncs.Func
	Matches(f func(C) bool) keyfuncs.Condition
}

// Options are of an app.
type Options[C any] struct {
	ErrorHandler func(err error, c C) // nil for Echo's own
	Address      Address
}

// Address is how RealIP finds the client.
type Address int

const (
	// Default is as Echo does without an IPExtractor.
	Default Address = iota
	// Direct is echo.ExtractIPDirect.
	Direct
	// Trusting believes headers of everybody.
	Trusting
)

// App is an *echo.Echo.
type App[C Ctx, M any] interface {
	http.Handler
	Router[C, M]
	Pre(middleware ...M)
	Use(middleware ...M)
	Group(prefix string, middleware ...M) Router[C, M]
}

// Router is an app or a group.
type Router[C Ctx, M any] interface {
	Route(method, path string, handler func(C) error, middleware ...M) // method "" for all
}

// Guard is the Guard of either adapter.
type Guard[C any] = adapter.GuardOf[func(c C, key string, cost int64) (bool, error)]

// Config is the Config of either adapter.
type Config[C any] struct {
	Skip      func(C) bool
	Denied    func(c C, d core.Decision) error
	NoContext bool
}

// ConfigOf is [limittest.Adapter.Config]. write writes a body without a status, and deny is the
// adapter's Deny.
func ConfigOf[C Ctx](l limittest.Layer, response func(C) http.ResponseWriter, deny func(C, core.Decision) error) Config[C] {
	config := Config[C]{NoContext: l.NoContext}
	if l.Skip != nil {
		config.Skip = func(c C) bool { return l.Skip(c.Request().Header.Get) }
	}
	if l.Log != nil {
		config.Denied = func(c C, d core.Decision) error {
			l.Log(d)
			return deny(c, d)
		}
	}
	if l.Denied != nil {
		config.Denied = func(c C, d core.Decision) error {
			status, body := l.Denied(d)
			switch {
			case status == 0 && body == "":
				return nil
			case status == 0:
				_, err := response(c).Write([]byte(body))
				return err
			}
			return c.String(status, body)
		}
	}
	return config
}
