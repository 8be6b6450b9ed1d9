package main

import (
	"fmt"
	"io"
	"os"
)

// maxOnce bounds a file that is read once, at the start: settings, a password, certificate authorities.
const maxOnce = 1 << 20

// readOnce reads such a file. It may be a pipe, as of a shell's <(…), of which nobody can tell the size before.
func readOnce(name string) ([]byte, error) {
	file, err := os.Open(name) //nolint:gosec // G304: the operator names it
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxOnce+1))
	if err == nil && len(text) > maxOnce {
		err = fmt.Errorf("%s has more than %d bytes", name, maxOnce)
	}
	return text, err
}
