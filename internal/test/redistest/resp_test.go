package redistest

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestReadMessageTakesOneWholeMessage(t *testing.T) {
	t.Parallel()
	for name, message := range map[string]string{
		"inline command":    "PING\r\n",
		"request":           "*2\r\n$3\r\nGET\r\n$3\r\na\r\n\r\n",
		"status":            "+OK\r\n",
		"error":             "-ERR no\r\n",
		"integer":           ":-1\r\n",
		"null of RESP2":     "$-1\r\n",
		"null array":        "*-1\r\n",
		"null of RESP3":     "_\r\n",
		"boolean":           "#t\r\n",
		"double":            ",1.5\r\n",
		"big number":        "(123456789012345678901234567890\r\n",
		"verbatim string":   "=7\r\ntxt:a\r\n\r\n",
		"bulk error":        "!6\r\nERR no\r\n",
		"map in an array":   "*2\r\n%1\r\n+k\r\n*1\r\n:1\r\n~1\r\n:2\r\n",
		"push":              ">2\r\n+invalidate\r\n*0\r\n",
		"attribute's value": "|1\r\n+ttl\r\n:3\r\n:5\r\n",
		"empty bulk":        "$0\r\n\r\n",
	} {
		r := bufio.NewReader(strings.NewReader(message + "+NEXT\r\n"))
		got, kind, err := readMessage(r)
		if string(got) != message || kind != message[0] || err != nil {
			t.Errorf("%s: %q, %c, %v, want %q", name, got, kind, err, message)
		}
		if next, _, err := readMessage(r); string(next) != "+NEXT\r\n" || err != nil {
			t.Errorf("after %s: %q, %v", name, next, err)
		}
		for cut := range len(message) {
			_, _, err := readMessage(bufio.NewReader(strings.NewReader(message[:cut])))
			if !errors.Is(err, io.EOF) {
				t.Errorf("%s cut to %q: %v, want %v", name, message[:cut], err, io.EOF)
			}
		}
	}
}

func TestReadMessageRefusesALengthThatIsNone(t *testing.T) {
	t.Parallel()
	for _, message := range []string{"*x\r\n", "$\r\n", "*1\r\n$y\r\n", "%1.5\r\n"} {
		if got, _, err := readMessage(bufio.NewReader(strings.NewReader(message))); err == nil {
			t.Errorf("%q: %q", message, got)
		}
	}
}
