package scan

// Sink is told the wanted fields, in the order of the text. A field that is there twice is told twice.
type Sink interface {
	// Number tells a number. It is not whole if it has a fraction, an exponent, or more than 18 digits: n is then 0.
	Number(id uint8, n int64, whole bool)
	// Length tells the end of a string, and how many bytes it has as it is written.
	Length(id uint8, bytes int64)
	// Short tells the end of a string. It is not whole if it is longer than MaxShort bytes. text is valid during the
	// call only.
	Short(id uint8, text []byte, whole bool)
	// Raw tells the next bytes of a string, and end that it is over.
	Raw(id uint8, part []byte, end bool)
	// Other tells a value of another type than is wanted by its first byte: { [ " t f n, or the digit 0 for any number.
	Other(id uint8, first byte)
	// Variant tells that a name differs from a wanted one only in its case. Some readers take one for the other.
	Variant()
}

const (
	// MaxShort bounds names and short strings, in bytes.
	MaxShort = 128
	// maxDepth bounds how deep wanted fields are nested. What is deeper is passed over, and only counted.
	maxDepth = 12
)

// state is what the next byte belongs to.
type state uint8

const (
	atValue  state = iota // the beginning of a value
	atFirst               // the same, or the end of an array
	atName                // a name, or the end of an object
	atNext                // a name, behind a comma
	inName                // the text of a name
	atColon               //
	inString              // a string that is a wanted field, or none
	inNumber              //
	inWord                // true, false or null
	inPassed              // an object or array in which nothing is wanted
	inQuoted              // a string in there
	behind                // a value is over: a comma, or the end of what it is in
	finished              // the text is over
	broken                // it is no JSON
)

type level struct {
	node  *node
	array bool
}

// Scanner reads one JSON text. Its zero value reads nothing; call Reset first.
type Scanner struct {
	tree    *Tree
	sink    Sink
	levels  [maxDepth]level
	depth   int
	state   state
	escape  escape
	value   *node // what is wanted of the value that is read, or nil
	passed  int64 // objects and arrays that are open in inPassed
	length  int64 // bytes of the string so far
	number  number
	text    [MaxShort]byte
	used    int
	toolong bool
}

// Reset has the scanner read a new text for the fields of a tree.
func (s *Scanner) Reset(tree *Tree, sink Sink) {
	*s = Scanner{tree: tree, sink: sink}
}

// Again has the scanner read a new text with the same tree and sink.
func (s *Scanner) Again() {
	s.depth, s.state, s.value, s.escape = 0, atValue, nil, escape{}
}

// Finished reports whether a whole value was read, and nothing but blanks behind it.
func (s *Scanner) Finished() bool { return s.state == finished }

// Broken reports whether the text is no JSON. The scanner may notice it late, or not at all where nothing is wanted.
func (s *Scanner) Broken() bool { return s.state == broken }

// Array reports whether the text is an array, and has begun.
func (s *Scanner) Array() bool { return s.depth > 0 && s.levels[0].array }

// Feed reads the next bytes. It returns early, with element set, behind an element of the outermost array, and otherwise
// reads all of them.
func (s *Scanner) Feed(p []byte) (n int, element bool) {
	for n < len(p) {
		switch s.state {
		case inString:
			n += s.string(p[n:])
		case inName:
			n += s.name(p[n:])
		case inQuoted:
			n += s.quoted(p[n:])
		case inPassed:
			n += s.pass(p[n:])
		case broken:
			return len(p), false
		default:
			if s.step(p[n]) {
				n++
			}
		}
		if s.state == behind && s.depth == 1 && s.levels[0].array && s.value != nil {
			s.value = nil
			return n, true
		}
	}
	return n, false
}

// step reads a byte, and reports whether it is used up. In behind, value is set once after the value.
func (s *Scanner) step(c byte) (used bool) {
	switch s.state {
	case inNumber:
		return s.digit(c)
	case inWord:
		if c >= 'a' && c <= 'z' {
			return true
		}
		s.end()
		return false
	}
	if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
		return true
	}
	switch s.state {
	case atFirst:
		if c == ']' {
			s.close(true)
			return true
		}
		s.begin(c)
	case atValue:
		s.begin(c)
	case atName, atNext:
		switch {
		case c == '"':
			s.state, s.used, s.toolong, s.escape = inName, 0, false, escape{}
		case c == '}' && s.state == atName:
			s.close(false)
		default:
			s.state = broken
		}
	case atColon:
		if s.state = atValue; c != ':' {
			s.state = broken
		}
	case behind:
		s.follow(c)
	default:
		s.state = broken
	}
	return true
}

// follow reads what stands behind a value in an object or array.
func (s *Scanner) follow(c byte) {
	in := s.levels[s.depth-1]
	switch {
	case c == ',' && in.array:
		s.state, s.value = atValue, in.node.each
	case c == ',':
		s.state = atNext
	case c == ']' && in.array, c == '}' && !in.array:
		s.close(in.array)
	default:
		s.state = broken
	}
}

// begin reads the first byte of a value.
func (s *Scanner) begin(c byte) {
	if s.depth == 0 {
		s.value = s.tree.root
	}
	kind, is := Kind(0), c
	if s.value != nil {
		kind = s.value.kind
	}
	switch {
	case c == '{' || c == '[':
		s.open(c, kind)
		return
	case c == '"':
		s.state, s.used, s.length, s.toolong, s.escape = inString, 0, 0, false, escape{}
	case c == '-' || c >= '0' && c <= '9':
		s.state, s.number, is = inNumber, number{negative: c == '-'}, '0'
		s.number.add(c)
	case c == 't' || c == 'f' || c == 'n':
		s.state = inWord
	default:
		s.state = broken
		return
	}
	if kind != 0 && (kind == Number) != (is == '0') || kind != 0 && kind != Number && is != '"' {
		s.sink.Other(s.value.id, is)
		s.value = nil
	}
}

// open begins an object or array.
func (s *Scanner) open(c byte, kind Kind) {
	array := c == '['
	if kind != 0 {
		s.sink.Other(s.value.id, c)
	}
	n := s.value
	if n == nil || s.depth == maxDepth || array && n.each == nil || !array && n.fields == nil {
		if s.depth == 0 { // so that the end of the text is known
			n = &empty
		} else {
			s.state, s.passed = inPassed, 1
			return
		}
	}
	s.levels[s.depth] = level{n, array}
	s.depth++
	s.value = nil
	if s.state = atName; array {
		s.state, s.value = atFirst, n.each
	}
}

var empty node

// close ends the object or array that is innermost.
func (s *Scanner) close(array bool) {
	if s.depth == 0 || s.levels[s.depth-1].array != array {
		s.state = broken
		return
	}
	s.depth--
	s.end()
}

// end notes that a value is over.
func (s *Scanner) end() {
	s.value = nil
	if s.state = behind; s.depth == 0 {
		s.state = finished
	} else if s.depth == 1 && s.levels[0].array {
		s.value = &empty // for Feed
	}
}

// pass reads what is within an object or array in which nothing is wanted, up to its end or a string.
func (s *Scanner) pass(p []byte) int {
	for i, c := range p {
		switch c {
		case '"':
			s.state, s.escape = inQuoted, escape{}
			return i + 1
		case '{', '[':
			s.passed++
		case '}', ']':
			if s.passed--; s.passed == 0 {
				s.end()
				return i + 1
			}
		}
	}
	return len(p)
}

// quoted reads a string in there.
func (s *Scanner) quoted(p []byte) int {
	n, over := s.escape.skip(p)
	if over {
		s.state = inPassed
	}
	return n
}

// string reads the value of a field.
func (s *Scanner) string(p []byte) int {
	n, over := s.escape.skip(p)
	part := p[:n]
	if over {
		part = part[:n-1]
	}
	s.length += int64(len(part))
	if s.value == nil {
		if over {
			s.end()
		}
		return n
	}
	switch v := s.value; v.kind {
	case Raw:
		s.sink.Raw(v.id, part, over)
	case Length:
		if over {
			s.sink.Length(v.id, s.length)
		}
	case Short:
		s.keep(part)
		if over {
			text, whole := unescape(s.text[:s.used])
			s.sink.Short(v.id, text, whole && !s.toolong)
		}
	}
	if over {
		s.end()
	}
	return n
}

func (s *Scanner) keep(part []byte) {
	n := copy(s.text[s.used:], part)
	s.used += n
	s.toolong = s.toolong || n < len(part)
}

// name reads a name, and finds what is wanted of its value.
func (s *Scanner) name(p []byte) int {
	n, over := s.escape.skip(p)
	if !over {
		s.keep(p[:n])
		return n
	}
	s.keep(p[:n-1])
	s.state, s.value = atColon, nil
	text, whole := unescape(s.text[:s.used])
	if !whole || s.toolong {
		return n
	}
	in := s.levels[s.depth-1].node
	if s.value = in.fields[string(text)]; s.value == nil && in.folds(text) {
		s.sink.Variant()
	}
	return n
}
