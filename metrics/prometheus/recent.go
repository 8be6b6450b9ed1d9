package prometheus

import "sync/atomic"

// recentSize is a power of two. Applications have few limits, and a limit has few busy routes.
const recentSize = 16

// recent remembers what is found by some names, so that most decisions need no map. A place keeps
// the first name that comes: if two names took turns, all processors would write to it. Its zero
// value is ready to use, and safe for concurrent use.
type recent[V any] [recentSize]atomic.Pointer[V]

// place returns the place of a name.
func (r *recent[V]) place(name string) *atomic.Pointer[V] {
	i := len(name)
	if i > 0 {
		i += int(name[i-1]) + 7*int(name[i/2])
	}
	return &r[i%recentSize]
}
