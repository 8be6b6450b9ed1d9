//go:build !unix

package policy

import "os"

// hangups are the signals that reload a file: none here.
var hangups []os.Signal
