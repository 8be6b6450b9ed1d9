package advice

import "runtime"

// Built looks for a server's frames below the constructor that calls it. A limiter that is built anew for each
// request limits nobody.
func (a *Advisor) Built() {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for {
		frame, more := frames.Next()
		switch frame.Function {
		case "net/http.(*conn).serve", "net/http.serverHandler.ServeHTTP", "github.com/valyala/fasthttp.(*Server).serveConn", "google.golang.org/grpc.(*Server).handleStream":
			a.say(InHandler, "a limiter is built while a request is served; build it once, at start-up")
			return
		}
		if !more {
			return
		}
	}
}
