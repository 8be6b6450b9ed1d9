package child

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
)

// apartVariable is set in the process of a test that runs in its own.
const apartVariable = "CHILD_APART"

// Apart runs a test in a process of its own, in parallel with others: one that measures all goroutines or the heap,
// or that changes what the process shares, such as its logger. It is the test's first statement:
//
//	if child.Apart(t) {
//		return
//	}
//
// It reports false in that process, where the test goes on.
func Apart(t *testing.T) bool {
	t.Helper()
	if os.Getenv(apartVariable) == t.Name() {
		return false
	}
	t.Parallel()
	var printed Output
	cmd := exec.Command(os.Args[0], "-test.run=^"+regexp.QuoteMeta(t.Name())+"$", "-test.v", "-test.timeout=0")
	cmd.Env = append(os.Environ(), apartVariable+"="+t.Name())
	cmd.Stdout, cmd.Stderr = &printed, &printed
	must.OK(t, Start(cmd))
	err := cmd.Wait()
	switch text := printed.String(); {
	case err != nil:
		t.Fatalf("%v\n%s", err, text)
	case strings.Contains(text, "--- SKIP: "+t.Name()+" "):
		t.Skip(text)
	case testing.Verbose():
		t.Log("in a process of its own:\n" + text)
	}
	return true
}
