package service

import (
	"strconv"
	"time"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// Answers are appended to memory that the next call uses again, which encoding/json can't.

// appendText appends a string as JSON. What is not UTF-8 becomes U+FFFD. DEL is escaped, too, since answers are read
// on terminals.
func appendText(dst []byte, text string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			r, size := utf8.DecodeRuneInString(text[i:])
			dst = utf8.AppendRune(dst, r)
			i += size
			continue
		}
		i++
	}
	return append(dst, '"')
}

// appendField appends a comma, a name and a colon.
func appendField(dst []byte, name string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}

func appendBool(dst []byte, name string, b bool) []byte {
	return strconv.AppendBool(appendField(dst, name), b)
}

func appendInt(dst []byte, name string, n int64) []byte {
	return strconv.AppendInt(appendField(dst, name), n, 10)
}

// appendMillis appends a duration, rounded up so that nobody comes too early.
func appendMillis(dst []byte, name string, d time.Duration) []byte {
	return appendInt(dst, name, int64((d+time.Millisecond-1)/time.Millisecond))
}

func appendString(dst []byte, name, text string) []byte {
	return appendText(appendField(dst, name), text)
}
