package examples_test

import (
	"runtime"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/program"
)

// application is one of the larger examples: the path of its page, which asks for a password, and whether it
// prints a tour that its own tests do not follow.
type application struct {
	page string
	tour bool
}

var larger = map[string]application{
	"observed": {"/ops/limits/", true},
	"saas":     {"/console/", false},
	"service":  {"", true},
}

// endsByItself asks a running application, and ends it as Ctrl-C does, which is no error.
func endsByItself(t *testing.T, name, file string, want application) {
	if runtime.GOOS == "windows" {
		t.Skip("a test can't send Ctrl-C there")
	}
	running := program.Start(t, program.Command(file))
	t.Cleanup(running.Interrupt)
	if want.page != "" {
		status, _, _ := request(t, "GET", running.URL("The page:")+want.page)
		check.Equal(t, "the status of the page of "+name, status, 401)
	}
	if want.tour {
		followTour(t, name, running)
	}
}
