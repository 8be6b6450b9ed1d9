package adversary

import (
	"net/http"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/suites/frameworks"
)

var attacked = []*Framework{
	{"net/http", OverNetHTTP("net/http"), true, ServeStd(std(0))},
	{"chi", OverNetHTTP("chi"), true, ServeStd(std(1))},
	{"gin", OverNetHTTP("gin"), true, ServeStd(std(2))},
	{"echo", OverNetHTTP("echo"), true, ServeStd(std(3))},
	{"fiber", OverFastHTTP(), false, serveFiber("/")},
}

// std builds the application on one of the frameworks over net/http.
func std(i int) func(*core.Limiter) http.Handler { return Std(frameworks.All[i]) }
