package fiberhttp

import (
	"fmt"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
)

func TestChunked(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]bool{
		"":                                    false,
		"\r\n":                                false,
		"Host: a\r\n\r\n":                     false,
		"Transfer-Encoding: chunked\r\n\r\n":  true,
		"TRANSFER-ENCODING:chunked\r\n\r\n":   true,
		"transfer-encoding: identity\n\n":     true, // no harm
		"Transfer\rEncoding: chunked\r\n\r\n": true, // as fasthttp compares
		"Host: a\r\nT: b\r\ntransfer-encoding: x\r\n\r\n": true,
		"Host: a\nTransfer-Encoding: chunked\n\n":         true,
		"Transfer-Encoding":                               false,
		"Transfer-Encodings: chunked\r\n\r\n":             false,
		"X-Transfer-Encoding: chunked\r\n\r\n":            false,
		"X: Transfer-Encoding: chunked\r\n\r\n":           false,
		"X: a\r\n Transfer-Encoding: chunked\r\n\r\n":     false, // continues the line before
	} {
		check.Equal(t, fmt.Sprintf("%q", raw), block(raw).chunked(), want)
	}
}

func TestBlockCountsLines(t *testing.T) {
	t.Parallel()
	b := block("X-A: 1\r\nx-a: 2\r\nX-Ab: 3\r\nX-B: 4\r\n X-A: 5\r\nX_A: 6\r\nX-A : 7\r\nX-A:\r\n\r\n")
	check.Equal(t, "lines of X-A", b.count("X-A", 9), 3)
	check.Equal(t, "lines of X-A, of the first two", b.count("X-A", 2), 2)
	check.Equal(t, "lines of X-B", b.count("X-B", 9), 1)
	check.Equal(t, "lines of X-C", b.count("X-C", 9), 0)
}
