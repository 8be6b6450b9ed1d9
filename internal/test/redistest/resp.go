package redistest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// readMessage returns the bytes of one whole RESP2 or RESP3 value: a request (an array or an
// inline command) or a reply. kind is its first byte.
func readMessage(r *bufio.Reader) (message []byte, kind byte, err error) {
	var b bytes.Buffer
	if err := copyValue(&b, r); err != nil {
		return nil, 0, err
	}
	return b.Bytes(), b.Bytes()[0], nil
}

// copyValue copies one value and the values within it.
func copyValue(to *bytes.Buffer, r *bufio.Reader) error {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return err
	}
	to.Write(line)
	switch line[0] {
	case '$', '=', '!': // bulk string, verbatim string, bulk error: a length, then bytes
		n, err := length(line)
		if err != nil || n < 0 {
			return err
		}
		_, err = io.CopyN(to, r, int64(n)+int64(len("\r\n")))
		return err
	case '*', '~', '>': // array, set, push: a number of values
		return copyValues(to, r, line, 1, 0)
	case '%': // map: a number of pairs
		return copyValues(to, r, line, 2, 0)
	case '|': // attribute: a number of pairs, then the value they belong to
		return copyValues(to, r, line, 2, 1)
	}
	return nil // all others, and inline commands, are one line
}

// copyValues copies as many values as line says times each, and extra ones.
func copyValues(to *bytes.Buffer, r *bufio.Reader, line []byte, each, extra int) error {
	n, err := length(line)
	if err != nil {
		return err
	}
	for range n*each + extra { // none if n is -1, the null array of RESP2
		if err := copyValue(to, r); err != nil {
			return err
		}
	}
	return nil
}

func length(line []byte) (int, error) {
	n, err := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	if err != nil {
		return 0, fmt.Errorf("redistest: no RESP: %q", line)
	}
	return n, nil
}
