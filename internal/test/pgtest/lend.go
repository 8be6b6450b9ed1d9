package pgtest

import (
	"sync"

	"github.com/weblimit/weblimit/internal/test/lent"
)

// lentServer is the name of the server that is lent.
const lentServer = "postgres"

// reach is how another process reaches a server that it is lent.
type reach struct{ Dir, Data string }

// Lend returns the server that [Shared] finds, for a process that lends it to test processes. It has to call
// [StopAll] in the end.
func Lend() lent.Servers {
	return lent.Servers{lentServer: func(string) (any, error) {
		s, err := startShared()
		if err != nil {
			return nil, err
		}
		return reach{s.dir, s.data}, nil
	}}
}

// shared asks for the shared server once, or starts it. Its error is kept, so that every test reports it.
var shared = sync.OnceValues(func() (*Server, error) {
	var r reach
	if found, err := lent.Ask(lentServer, &r); found || err != nil {
		return &Server{dir: r.Dir, data: r.Data}, err
	}
	return startShared()
})

// Tests of all packages can be connected at once.
func startShared() (*Server, error) { return start([]string{"max_connections=500"}) }
