package scan

import (
	"bytes"
	"unicode/utf8"
)

// escape says whether the next byte of a string is escaped.
type escape struct{ next bool }

// skip reads a string to its end, and returns how many bytes that are, with the quote.
func (e *escape) skip(p []byte) (n int, over bool) {
	for n < len(p) {
		if e.next {
			e.next = false
			n++
			continue
		}
		i := bytes.IndexByte(p[n:], '"')
		part := p[n:]
		if i >= 0 {
			part = p[n : n+i]
		}
		if j := bytes.IndexByte(part, '\\'); j >= 0 {
			e.next = true
			n += j + 1
			continue
		}
		if i >= 0 {
			return n + i + 1, true
		}
		return len(p), false
	}
	return n, false
}

// unescape decodes the escapes of a string in place. It is not whole if one of them is none, or half of a character.
func unescape(text []byte) (_ []byte, whole bool) {
	if bytes.IndexByte(text, '\\') < 0 {
		return text, true
	}
	out := text[:0]
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '\\' {
			out = append(out, c)
			continue
		}
		if i++; i == len(text) {
			return nil, false
		}
		switch text[i] {
		case '"', '\\', '/':
			out = append(out, text[i])
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, ok := hex(text[i+1:])
			if !ok || r >= 0xd800 && r < 0xe000 { // pairs are in no name that is wanted
				return nil, false
			}
			out = utf8.AppendRune(out, r) // at most 3 bytes for 6
			i += 4
		default:
			return nil, false
		}
	}
	return out, true
}

// hex reads four digits.
func hex(text []byte) (r rune, ok bool) {
	if len(text) < 4 {
		return 0, false
	}
	for _, c := range text[:4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|' ' >= 'a' && c|' ' <= 'f':
			r = r<<4 | rune(c|' '-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
