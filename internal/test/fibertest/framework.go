package fibertest

import (
	"bufio"
	"context"
	"net"
	"net/http"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Ctx is what the contexts of both versions have in common. C is *fiber.Ctx or fiber.Ctx.
type Ctx[C any] interface {
	Next() error
	Get(key string, defaultValue ...string) string
	Query(key string, defaultValue ...string) string
	Params(key string, defaultValue ...string) string
	Cookies(key string, defaultValue ...string) string
	Locals(key any, value ...any) any
	Body() []byte
	Hostname() string
	IP() string
	Path(override ...string) string
	Status(status int) C
	SendString(body string) error
	SendStatus(status int) error
}

// Framework is a version of Fiber and its adapter.
type Framework[C Ctx[C]] interface {
	// Name is that of the adapter's package.
	Name() string
	// App is fiber.New, and Error fiber.NewError.
	App(options Options[C]) App[C]
	Error(status int, text string) error

	// The rest of the framework, by a context.
	Context(c C) context.Context
	SetContext(ctx context.Context, c C)
	Conn(c C) net.Conn
	SetPeer(c C, addr net.Addr)
	Route(c C) (route any, path string)
	Request(c C) RequestHeader
	Response(c C) ResponseHeader
	Answer(c C) (status int, body []byte)
	Hijack(c C, handler func(net.Conn))
	Stream(c C, writer func(*bufio.Writer))
	Proxy(c C, url string) error
	Recover() func(C) error

	// The exported names of the adapter.
	Limit(store core.Store, limits ...core.Limit) func(C) error
	New(limiter *core.Limiter, config ...Config[C]) func(C) error
	With(config core.Config, own ...Config[C]) (guard func(limits ...core.Limit) *Guard[C])
	Middleware(layers ...limittest.Layer) []func(C) error
	Guard(s *limittest.Settings, limits ...core.Limit) any
	FromContext(c C) (core.Decision, bool)
	Key(kind string, f func(C) string) keyfuncs.Func
	Matches(f func(C) bool) keyfuncs.Condition

	// Reader returns what a limiter at one place makes of its requests, until it calls release.
	Reader() func(C) (r keyfuncs.Request, release func())
	// Foresight returns what limiters of one app foresee: the templates of the routes that are going to be
	// asked, in order. known is false if the limiter does not find where it stands.
	Foresight() func(C) (templates []string, known bool)

	// PreforkVariable is set in the children of Prefork.
	PreforkVariable() string
}

// Config is the Config of either adapter.
type Config[C any] struct {
	Skip      func(C) bool
	Denied    func(C, core.Decision) error
	NoContext bool
}

// ConfigOf is [limittest.Adapter.Config], where deny is the adapter's Deny.
func ConfigOf[C Ctx[C]](l limittest.Layer, deny func(C, core.Decision) error) Config[C] {
	config := Config[C]{NoContext: l.NoContext}
	if l.Skip != nil {
		config.Skip = func(c C) bool { return l.Skip(func(name string) string { return c.Get(name) }) }
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
				return c.SendString(body)
			}
			return c.Status(status).SendString(body)
		}
	}
	return config
}

// Guard is the Guard of either adapter.
type Guard[C any] = adapter.GuardOf[func(c C, key string, cost int64) (bool, error)]

// Options are fields of fiber.Config, some by shorter names.
type Options[C any] struct {
	CaseSensitive, StrictRouting, UnescapePath bool

	ExactNames        bool // DisableHeaderNormalizing
	NoPreParse        bool // DisablePreParseMultipartForm
	StreamRequestBody bool
	BodyLimit         int
	ReadBufferSize    int

	ProxyHeader        string   // believed from any peer, unless Proxies says from which
	Proxies            []string // peers that are trusted
	EnableIPValidation bool

	Prefork bool // of Listen

	ErrorHandler func(C, error) error
}

// App is a *fiber.App.
type App[C any] interface {
	Router[C]
	Mount(prefix string, sub App[C])
	Files(prefix, folder string)

	// Test is the app's, without a time-out.
	Test(r *http.Request) (*http.Response, error)
	// ServeConn serves one connection.
	ServeConn(conn net.Conn) error
	// Serve serves a listener until Shutdown, and Listen an address.
	Listen(addr string) error
	Serve(l net.Listener) error
	Shutdown() error
}

// Router is an app or a group.
type Router[C any] interface {
	Use(path string, handlers ...func(C) error)         // "" for all paths
	Add(method, path string, handlers ...func(C) error) // "" for all methods
	Get(path string, handlers ...func(C) error)         // HEAD, too
	Group(prefix string, handlers ...func(C) error) Router[C]
}

// RequestHeader is a *fasthttp.RequestHeader.
type RequestHeader interface {
	Set(name, value string)
	Del(name string)
	SetCookie(name, value string)
	DelCookie(name string)
	SetContentLength(n int)
}

// ResponseHeader is a *fasthttp.ResponseHeader.
type ResponseHeader interface {
	Add(name, value string)
	Set(name, value string)
	PeekAll(name string) [][]byte
}
