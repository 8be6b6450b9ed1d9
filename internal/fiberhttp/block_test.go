package fiberhttp

import "testing"

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
		if got := block(raw).chunked(); got != want {
			t.Errorf("%q: %v", raw, got)
		}
	}
}

func TestBlockCountsLines(t *testing.T) {
	t.Parallel()
	b := block("X-A: 1\r\nx-a: 2\r\nX-Ab: 3\r\nX-B: 4\r\n X-A: 5\r\nX_A: 6\r\nX-A : 7\r\nX-A:\r\n\r\n")
	if n := b.count("X-A", 9); n != 3 {
		t.Errorf("X-A has %d lines", n)
	}
	if n := b.count("X-A", 2); n != 2 {
		t.Errorf("X-A has %d lines of the first two", n)
	}
	if n := b.count("X-B", 9); n != 1 {
		t.Errorf("X-B has %d lines", n)
	}
	if n := b.count("X-C", 9); n != 0 {
		t.Errorf("X-C has %d lines", n)
	}
}
