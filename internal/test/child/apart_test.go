package child_test

import (
	"os"
	"testing"

	"github.com/weblimit/weblimit/internal/test/child"
)

func TestATestRunsApart(t *testing.T) {
	if child.Apart(t) {
		return
	}
	if os.Getenv("CHILD_APART") != t.Name() {
		t.Error("it goes on in the process that started it")
	}
}
