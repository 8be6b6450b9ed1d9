package scan

import "strings"

// maxDigits bounds the digits of a whole number, so that it is an int64.
const maxDigits = 18

// number is a number as far as it was read.
type number struct {
	value    int64
	digits   int8
	negative bool
	part     bool // it has a fraction, an exponent, or too many digits
}

// add reads a byte, and reports whether it belongs to the number.
func (n *number) add(c byte) bool {
	switch {
	case c >= '0' && c <= '9':
		if n.digits == maxDigits {
			n.part = true
			return true
		}
		n.value = n.value*10 + int64(c-'0')
		n.digits++
	case c == '.' || c == 'e' || c == 'E' || c == '+':
		n.part = true
	case c == '-':
		n.part = n.part || n.digits > 0
	default:
		return false
	}
	return true
}

// digit reads a byte of a number, and reports whether it belongs to it: the end of a number is known by what follows.
func (s *Scanner) digit(c byte) bool {
	if s.number.add(c) {
		return true
	}
	if strings.IndexByte(",]} \t\r\n", c) < 0 {
		s.state = broken
		return true
	}
	if v := s.value; v != nil && v.kind == Number {
		n := &s.number
		switch {
		case n.part || n.digits == 0:
			s.sink.Number(v.id, 0, false)
		case n.negative:
			s.sink.Number(v.id, -n.value, true)
		default:
			s.sink.Number(v.id, n.value, true)
		}
	}
	s.end()
	return false
}
