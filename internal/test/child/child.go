// Package child starts processes that do not outlive the test process that
// started them, collects what they write, and has folders for their sockets.
//
// A process that is to do what only a test binary can, such as use the package under test beside
// another process, is this test binary once more, in a [Role]:
//
//	var counter = child.NewRole("counter", func(t *testing.T, parent *child.Parent, to int) {
//		for n := range to {
//			parent.Send(n)
//		}
//	})
//
//	func TestChild(t *testing.T) { child.Run(t) }
//
//	func TestCounts(t *testing.T) {
//		p := counter.Start(t, 3)
//		if first := child.Receive[int](t, p); first != 0 { … }
//		p.Wait(t)
//	}
package child
