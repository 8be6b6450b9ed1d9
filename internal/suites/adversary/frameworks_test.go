package adversary

import (
	"strings"

	"github.com/weblimit/weblimit/internal/suites/frameworks"
)

// attacked are all of frameworks.All.
var attacked = func() (all []*Framework) {
	for _, f := range frameworks.All {
		name := strings.ToLower(f.Name)
		if name == "fiber" {
			all = append(all, &Framework{name, OverFastHTTP(), false, serveFiber("/")})
			continue
		}
		all = append(all, &Framework{name, OverNetHTTP(name), true, ServeStd(Std(f))})
	}
	return all
}()
