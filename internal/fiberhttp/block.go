package fiberhttp

import "bytes"

// block is the header block of a request as it was received.
//
// fasthttp appends the fields of a trailer, which a client may send behind a
// chunked body, to those of the block: behind the lines that a trusted proxy wrote,
// where the last one is believed. The block tells them apart.
type block []byte

// next cuts off the first line. The name is empty for a line that continues the
// one before.
func (b *block) next() (name, value []byte, ok bool) {
	if len(*b) == 0 {
		return nil, nil, false
	}
	line := []byte(*b)
	if i := bytes.IndexByte(line, '\n'); i >= 0 {
		line, *b = line[:i], line[i+1:]
	} else {
		*b = nil
	}
	if len(line) > 0 && line[0] != ' ' && line[0] != '\t' {
		if i := bytes.IndexByte(line, ':'); i >= 0 {
			return line[:i], line[i+1:], true
		}
	}
	return nil, nil, true
}

const transferEncoding = "transfer-encoding"

// chunked reports whether the body is chunked, so that a trailer may have followed.
// That the request still has a Transfer-Encoding says nothing: fasthttp removes it
// when the body is empty, and middleware may.
func (b block) chunked() bool {
	for len(b) > 0 {
		if b[0]|0x20 == 't' && len(b) > len(transferEncoding) && b[len(transferEncoding)] == ':' && isTransferEncoding(b) {
			return true
		}
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			return false
		}
		b = b[i+1:]
	}
	return false
}

// isTransferEncoding compares as fasthttp does, which takes further bytes for a
// hyphen.
func isTransferEncoding(b []byte) bool {
	for i := range len(transferEncoding) {
		if b[i]|0x20 != transferEncoding[i] {
			return false
		}
	}
	return true
}

// count counts the lines of a header, up to enough.
func (b block) count(name string, enough int) int {
	n := 0
	for len(b) > len(name) {
		if b[len(name)] == ':' && equalFold(b[:len(name)], name) {
			if n++; n == enough {
				break
			}
		}
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			break
		}
		b = b[i+1:]
	}
	return n
}

// lines appends the lines of a header, each without what continues it.
func (b block) lines(dst [][]byte, name string) [][]byte {
	for {
		found, value, ok := b.next()
		if !ok {
			return dst
		}
		if equalFold(found, name) {
			dst = append(dst, trimLine(value))
		}
	}
}

// cookies appends the values that cookies of a name have. Newer versions of fasthttp trim tabs
// around a line.
func (b block) cookies(dst [][]byte, name string, tabs bool) [][]byte {
	for {
		header, rest, ok := b.next()
		if !ok {
			return dst
		}
		if !equalFold(header, "Cookie") {
			continue
		}
		if rest = bytes.TrimSuffix(rest, []byte{'\r'}); tabs {
			rest = trimBlanks(rest)
		}
		for len(rest) > 0 {
			var pair []byte
			pair, rest, _ = bytes.Cut(rest, []byte{';'})
			if key, value, ok := bytes.Cut(pair, []byte{'='}); ok && string(bytes.Trim(key, " ")) == name {
				dst = append(dst, unquote(bytes.Trim(value, " ")))
			}
		}
	}
}

// unquote removes the quotes around a cookie's value.
func unquote(value []byte) []byte {
	if n := len(value); n > 1 && value[0] == '"' && value[n-1] == '"' {
		return value[1 : n-1]
	}
	return value
}

// equalFold compares ASCII letters of either case.
func equalFold(a []byte, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// trimLine removes what a line of the block has around its value.
func trimLine(value []byte) []byte { return trimBlanks(bytes.TrimSuffix(value, []byte{'\r'})) }

// trimBlanks removes the blanks around a value, of which fasthttp leaves tabs (RFC
// 9110, section 5.5).
func trimBlanks(value []byte) []byte {
	if n := len(value); n == 0 || value[0] > ' ' && value[n-1] > ' ' {
		return value
	}
	return bytes.Trim(value, " \t")
}
