package child_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/child"
)

type sum struct{ Of, Is int }

// adder adds what it is sent, to what it begins with.
var adder = child.NewRole("adder", func(t *testing.T, parent *child.Parent, begin int) {
	fmt.Print("it adds") // no message
	s := sum{Is: begin}
	for n := 0; parent.Receive(&n); {
		s.Of++
		s.Is += n
		parent.Send(s)
	}
	if s.Of == 0 {
		t.Error("nothing to add")
	}
})

// TestChild is the processes of the other tests.
func TestChild(t *testing.T) { child.Run(t) }

func TestARoleTalksWithItsTest(t *testing.T) {
	t.Parallel()
	p := adder.Start(t, 10)
	for n := 1; n <= 3; n++ {
		p.Send(t, n)
		check.Equal(t, "sum", child.Receive[sum](t, p), sum{n, 10 + n*(n+1)/2})
	}
	p.Close()
	p.Wait(t)
}

// failing is a test that ends its function by a panic.
type failing struct{ testing.TB }

func (failing) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

func TestAProcessThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(tb testing.TB, p *child.Process){
		"by the messages that it owes": func(tb testing.TB, p *child.Process) { child.Receive[sum](tb, p) },
		"by its end":                   func(tb testing.TB, p *child.Process) { p.Wait(tb) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := adder.Start(t, 10)
			p.Close()
			defer func() {
				said := fmt.Sprint(recover())
				for _, want := range []string{"exit status 1", "nothing to add", "it adds"} {
					if !strings.Contains(said, want) {
						t.Errorf("%q does not say %q", said, want)
					}
				}
			}()
			ask(failing{t}, p)
		})
	}
}

// babbler is killed while it sends.
var babbler = child.NewRole("babbler", func(_ *testing.T, parent *child.Parent, _ int) {
	parent.Send(1)
	fmt.Print("\x1e2")
	parent.Wait()
	select {}
})

func TestHalfAMessageIsNone(t *testing.T) {
	t.Parallel()
	p := babbler.Start(t, 0)
	check.Equal(t, "message", child.Receive[int](t, p), 1)
	p.Kill()
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "has ended") {
			t.Error(said)
		}
	}()
	child.Receive[int](failing{t}, p)
}
