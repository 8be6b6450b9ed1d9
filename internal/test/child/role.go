package child

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"
)

// roleVariable names the role of a test binary that was started as a child.
const roleVariable = "CHILD_ROLE"

// roles are those of this test binary, which registers them before its tests run.
var roles = map[string]func(*testing.T, *Parent){}

// Role is what this test binary does when a test starts it again.
type Role[Order any] struct{ name string }

// NewRole makes a role, in a variable of the package of tests. do gets the order that the test gives; the
// process ends with it, and fails if its t does.
func NewRole[Order any](name string, do func(t *testing.T, parent *Parent, order Order)) Role[Order] {
	if roles[name] != nil {
		panic("child: two roles " + name)
	}
	roles[name] = func(t *testing.T, parent *Parent) {
		var order Order
		if !parent.Receive(&order) {
			t.Fatal("no order")
		}
		do(t, parent, order)
	}
	return Role[Order]{name}
}

// Run does what a process is for that was started in a role, and skips the test in all others. Each
// package with roles calls it in a test of the name TestChild. So the process runs the package's TestMain,
// which stops what servers it starts.
func Run(t *testing.T) {
	role := os.Getenv(roleVariable)
	if role == "" {
		t.Skip("the processes of other tests")
	}
	roles[role](t, &Parent{in: json.NewDecoder(os.Stdin), out: os.Stdout})
}

// Start starts a process in the role. It is killed when the test ends, if it still runs.
func (r Role[Order]) Start(tb testing.TB, order Order) *Process {
	tb.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), roleVariable+"="+r.name)
	p := start(tb, cmd)
	p.Send(tb, order)
	return p
}
