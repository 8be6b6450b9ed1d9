//go:build unix

package child_test

import (
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/child"
)

func TestAStoppedProcessGoesOn(t *testing.T) {
	t.Parallel()
	p := adder.Start(t, 10)
	p.Stop(t)
	p.Send(t, 1)
	p.Continue(t)
	check.Equal(t, "sum", child.Receive[sum](t, p), sum{1, 11})
	p.Kill()
	<-p.Ended()
}
