// Package strict reads JSON as one program after another must read it: names in their exact spelling
// and once each, numbers that are whole, text that is UTF-8, and nothing behind the value. What
// readers of JSON understand differently is an error, with a JSON Pointer (RFC 6901) to the place.
package strict

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds how deep objects and arrays are nested: each level is a call in a call.
const maxDepth = 16

// maxFields bounds the fields of one object, each of which is compared with those before it.
const maxFields = 256

// Error says what is wrong, and where.
type Error struct {
	Pointer string // a JSON Pointer to the value, "" for the whole text
	Detail  string // a sentence without its period; holds nothing of the text but names of fields, quoted
}

func (e *Error) Error() string {
	if e.Pointer == "" {
		return e.Detail
	}
	return e.Pointer + ": " + e.Detail
}

// Reader reads one JSON value from the beginning to the end. After an error it must not be used.
type Reader struct {
	text  []byte
	at    int
	depth int
	path  []byte // to the value that is being read; after an error, to the one that is wrong
}

// NewReader returns a reader of a text, which must not change while it is read.
func NewReader(text []byte) *Reader { return &Reader{text: text, path: make([]byte, 0, 64)} }

// Errorf returns an error about the value that is being read.
func (r *Reader) Errorf(format string, args ...any) error {
	return &Error{string(r.path), fmt.Sprintf(format, args...)}
}

// Kind returns the first character of the next value, a digit 0 for all numbers, or 0 at the end.
func (r *Reader) Kind() byte {
	r.space()
	if r.at >= len(r.text) {
		return 0
	}
	if c := r.text[r.at]; c != '-' && (c < '0' || c > '9') {
		return c
	}
	return '0'
}

func (r *Reader) space() {
	for r.at < len(r.text) {
		switch r.text[r.at] {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return
		}
	}
}

// take moves over c, if that is next.
func (r *Reader) take(c byte) bool {
	r.space()
	if r.at < len(r.text) && r.text[r.at] == c {
		r.at++
		return true
	}
	return false
}

// End returns an error if anything follows.
func (r *Reader) End() error {
	if r.space(); r.at < len(r.text) {
		return r.Errorf("something follows the JSON value")
	}
	return nil
}

// expected returns the error that the next value is not what is wanted.
func (r *Reader) expected(want string) error {
	switch r.Kind() {
	case 0:
		return r.Errorf("the JSON text ends where %s should be", want)
	case '{':
		return r.Errorf("an object, want %s", want)
	case '[':
		return r.Errorf("an array, want %s", want)
	case '"':
		return r.Errorf("text, want %s", want)
	case '0':
		return r.Errorf("a number, want %s", want)
	case 't', 'f':
		return r.Errorf("true or false, want %s", want)
	case 'n':
		return r.Errorf("null, want %s; leave a field out that has no value", want)
	}
	return r.Errorf("not JSON: want %s", want)
}

func (r *Reader) enter(open byte, want string) error {
	if r.Kind() != open {
		return r.expected(want)
	}
	r.at++
	if r.depth++; r.depth > maxDepth {
		return r.Errorf("nested deeper than %d levels", maxDepth)
	}
	return nil
}

// Object reads an object: it calls each for every field, which must read the value.
func (r *Reader) Object(each func(name string) error) error {
	if err := r.enter('{', "an object"); err != nil {
		return err
	}
	before := len(r.path)
	var room [12]string // for the fields of a call without allocating
	seen := room[:0]
	for first := true; !r.take('}'); first = false {
		if !first && !r.take(',') {
			return r.Errorf("not JSON: want a comma or the end of the object")
		}
		if r.Kind() != '"' {
			return r.Errorf("not JSON: want the name of a field")
		}
		name, err := r.quoted(128)
		if err != nil {
			return err
		}
		if !r.take(':') {
			return r.Errorf("not JSON: want a colon behind the name of a field")
		}
		r.path = appendPointer(r.path, name)
		for _, other := range seen {
			if other == name {
				return r.Errorf("the field is there twice")
			}
		}
		if seen = append(seen, name); len(seen) > maxFields {
			return r.Errorf("more than %d fields", maxFields)
		}
		if err := each(name); err != nil {
			return err // with the path as it is, for what the caller has to say
		}
		r.path = r.path[:before]
	}
	r.depth--
	return nil
}

// Array reads an array of at most a number of values: it calls each for every one, which must read it.
func (r *Reader) Array(most int, each func(i int) error) error {
	if err := r.enter('[', "an array"); err != nil {
		return err
	}
	before := len(r.path)
	for i := 0; !r.take(']'); i++ {
		if i > 0 && !r.take(',') {
			return r.Errorf("not JSON: want a comma or the end of the array")
		}
		if i == most {
			return r.Errorf("more than %d values", most)
		}
		r.path = strconv.AppendInt(append(r.path, '/'), int64(i), 10)
		if err := each(i); err != nil {
			return err
		}
		r.path = r.path[:before]
	}
	r.depth--
	return nil
}

// Unknown returns the error for a field that nobody knows. known are those that there are.
func (r *Reader) Unknown(known ...string) error {
	return r.Errorf("unknown field, want one of %s", strings.Join(known, ", "))
}

// Text reads a string of at most a number of bytes.
func (r *Reader) Text(most int) (string, error) {
	if r.Kind() != '"' {
		return "", r.expected("text")
	}
	return r.quoted(most)
}

// Bool reads true or false.
func (r *Reader) Bool() (bool, error) {
	switch r.Kind() {
	case 't':
		return true, r.word("true")
	case 'f':
		return false, r.word("false")
	}
	return false, r.expected("true or false")
}

func (r *Reader) word(word string) error {
	if end := r.at + len(word); end <= len(r.text) && string(r.text[r.at:end]) == word {
		r.at = end
		return nil
	}
	return r.Errorf("not JSON")
}

// Int reads a whole number from least to most, written without a fraction and an exponent: others are
// read with different precision by different programs.
func (r *Reader) Int(least, most int64) (int64, error) {
	want := fmt.Sprintf("a whole number from %d to %d", least, most)
	if r.Kind() != '0' {
		return 0, r.expected(want)
	}
	start := r.at
	for r.at < len(r.text) && strings.IndexByte("+-.0123456789eE", r.text[r.at]) >= 0 {
		r.at++
	}
	digits := r.text[start:r.at]
	n, err := strconv.ParseInt(string(digits), 10, 64)
	// Written again it must be the same text: neither +1, 01 nor -0.
	if err != nil || string(strconv.AppendInt(nil, n, 10)) != string(digits) || n < least || n > most {
		return 0, r.Errorf("want %s", want)
	}
	return n, nil
}

// quoted reads a string, whose first quote is next.
func (r *Reader) quoted(most int) (string, error) {
	r.at++
	start := r.at
	for r.at < len(r.text) {
		switch c := r.text[r.at]; {
		case c == '"':
			text := r.text[start:r.at]
			r.at++
			if len(text) > most {
				return "", r.Errorf("text of more than %d bytes", most)
			}
			if !utf8.Valid(text) {
				return "", r.Errorf("text that is not UTF-8")
			}
			return string(text), nil
		case c == '\\':
			return r.escaped(start, most)
		case c < ' ':
			return "", r.Errorf("not JSON: a control character in text must be escaped")
		}
		r.at++
	}
	return "", r.Errorf("not JSON: text without an end")
}

// escaped goes on with a string at its first escape.
func (r *Reader) escaped(start, most int) (string, error) {
	text := append(make([]byte, 0, 64), r.text[start:r.at]...)
	for r.at < len(r.text) {
		c := r.text[r.at]
		r.at++
		switch {
		case c == '"':
			if !utf8.Valid(text) {
				return "", r.Errorf("text that is not UTF-8")
			}
			return string(text), nil
		case c < ' ':
			return "", r.Errorf("not JSON: a control character in text must be escaped")
		case c != '\\':
			text = append(text, c)
		default:
			var err error
			if text, err = r.escape(text); err != nil {
				return "", err
			}
		}
		if len(text) > most {
			return "", r.Errorf("text of more than %d bytes", most)
		}
	}
	return "", r.Errorf("not JSON: text without an end")
}

func (r *Reader) escape(text []byte) ([]byte, error) {
	if r.at >= len(r.text) {
		return nil, r.Errorf("not JSON: text without an end")
	}
	c := r.text[r.at]
	r.at++
	switch c {
	case '"', '\\', '/':
		return append(text, c), nil
	case 'b':
		return append(text, '\b'), nil
	case 'f':
		return append(text, '\f'), nil
	case 'n':
		return append(text, '\n'), nil
	case 'r':
		return append(text, '\r'), nil
	case 't':
		return append(text, '\t'), nil
	case 'u':
		first, ok := r.hex()
		// Half of a pair is no character. Some programs pass it on, others replace it, so that keys would differ.
		if ok && utf16.IsSurrogate(first) {
			ok = r.at+1 < len(r.text) && r.text[r.at] == '\\' && r.text[r.at+1] == 'u'
			if ok {
				r.at += 2
				var second rune
				second, ok = r.hex()
				first = utf16.DecodeRune(first, second)
				ok = ok && first != utf8.RuneError
			}
		}
		if ok {
			return utf8.AppendRune(text, first), nil
		}
		return nil, r.Errorf("not JSON: an escape that is no character")
	}
	return nil, r.Errorf("not JSON: an unknown escape in text")
}

// hex reads four hexadecimal digits.
func (r *Reader) hex() (rune, bool) {
	if r.at+4 > len(r.text) {
		return 0, false
	}
	var n rune
	for _, c := range r.text[r.at : r.at+4] {
		switch {
		case '0' <= c && c <= '9':
			n = n<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			n = n<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	r.at += 4
	return n, true
}

// appendPointer appends a name to a JSON Pointer.
func appendPointer(path []byte, name string) []byte {
	path = append(path, '/')
	for i := range len(name) {
		switch c := name[i]; c {
		case '~':
			path = append(path, "~0"...)
		case '/':
			path = append(path, "~1"...)
		default:
			path = append(path, c)
		}
	}
	return path
}
