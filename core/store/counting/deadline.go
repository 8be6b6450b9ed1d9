package counting

import "time"

// Deadline is what the contexts of limiters are: contexts that end at one time and for no
// other reason, such as a client that hangs up. A store that keeps the deadline by other means
// need not call Done, which starts a timer.
type Deadline interface {
	// Ends returns when the context ends.
	Ends() time.Time
}
