package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON returns a JSON text, indented and in ASCII: what a terminal would interpret is escaped, and a
// program that reads it gets the same strings. It fails for what is no JSON.
func JSON(text []byte) ([]byte, error) {
	var indented bytes.Buffer
	err := json.Compact(&indented, text)
	if err == nil && depth(indented.Bytes()) <= maxDepth {
		indented.Reset()
		err = json.Indent(&indented, bytes.TrimSpace(text), "", "  ")
	}
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, indented.Len()+1)
	for left := indented.Bytes(); len(left) > 0; {
		r, size := utf8.DecodeRune(left)
		switch {
		case r < 0x7f: // within strings, JSON itself allows no control characters
			out = append(out, byte(r))
		case r < 0x10000:
			out = fmt.Appendf(out, `\u%04x`, r) // only strings have such characters
		default:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		}
		left = left[size:]
	}
	return append(out, '\n'), nil
}

// maxDepth is how deep a text is nested that is still indented: indenting a deeper one would make it
// larger by far.
const maxDepth = 32

// depth returns how deep a valid JSON text is nested.
func depth(text []byte) (deepest int) {
	now, inString := 0, false
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case inString && b == '\\':
			i++
		case b == '"':
			inString = !inString
		case inString:
		case b == '[' || b == '{':
			now++
			deepest = max(deepest, now)
		case b == ']' || b == '}':
			now--
		}
	}
	return deepest
}
