package books

import (
	"errors"
	"fmt"
	"strings"
)

// ErrKept is what a [KeptError] is.
var ErrKept = errors.New("weblimit: what is kept in a book can't be reset; adjust the allowance instead")

// KeptError is the error of Reset of a store that keeps what some limits have counted in a book. All
// else that was to be reset was reset.
type KeptError struct {
	Limits []string // their names
}

// Error names the limits.
func (e *KeptError) Error() string {
	return fmt.Sprintf("%v: limit %s", ErrKept, strings.Join(e.Limits, ", "))
}

// Is reports whether target is ErrKept.
func (e *KeptError) Is(target error) bool { return target == ErrKept }
