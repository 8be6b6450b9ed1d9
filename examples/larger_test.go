package examples_test

import (
	"runtime"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/program"
)

// application is one of the larger examples: what stands before a URL in what it prints, the status of a request
// to it without a password, and whether it prints a tour that its own tests do not follow.
type application struct {
	before string
	status int
	tour   bool
}

var larger = map[string]application{
	"observed": {"The page:", 401, true},
	"saas":     {"The page:", 401, false},
	"service":  {"curl -i", 200, true},
}

// endsByItself asks a running application, and ends it as Ctrl-C does, which is no error.
func endsByItself(t *testing.T, name, file string, want application) {
	if runtime.GOOS == "windows" {
		t.Skip("a test can't send Ctrl-C there")
	}
	running := program.Start(t, program.Command(file))
	t.Cleanup(running.Interrupt)
	if want.tour {
		followTour(t, name, running)
	} else {
		status, _, _ := request(t, "GET", running.URL(want.before))
		check.Equal(t, "the status of "+name, status, want.status)
	}
}
