//go:build !unix

package policy

import "os"

// noSignal is never sent.
type noSignal struct{}

func (noSignal) Signal()        {}
func (noSignal) String() string { return "none" }

// hangups are the signals that reload a file: none here.
var hangups = []os.Signal{noSignal{}}
