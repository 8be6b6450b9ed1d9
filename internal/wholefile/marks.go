package wholefile

import "strings"

// Marks returns how many characters of a YAML or JSON text can begin a value or separate two, so that a
// file with too many values is refused before a reader builds them: a value takes a reader of YAML up to
// a kilobyte, and a text two bytes. Each mark makes at most three values. Marks does not know what is in
// quotes and comments, so it counts too many there, and nowhere too few.
func Marks(text []byte) (n int) {
	for i, c := range text {
		switch c {
		case ',', '[', '{':
			n++
		case ':', '-', '?':
			if i+1 == len(text) || isBlank(text[i+1]) || strings.IndexByte(",[]{}", text[i+1]) >= 0 || i > 0 && strings.IndexByte(`"']}`, text[i-1]) >= 0 {
				n++
			}
		case '#':
			if i == 0 || isBlank(text[i-1]) { // a comment is kept with its value
				n++
			}
		}
	}
	return n
}

// isBlank reports whether a byte can belong to a blank or a line break: YAML has some beyond ASCII.
func isBlank(c byte) bool { return c <= ' ' || c >= 0x80 }
