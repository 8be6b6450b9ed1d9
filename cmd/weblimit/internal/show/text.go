// Package show writes to terminals what others have chosen: keys that clients make up, answers of
// servers, errors of both. What it writes has no control characters, escape sequences,
// bidirectional overrides or invisible letters, and a bounded width.
package show

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// maxMarks is how many combining marks a letter may have. More of them would grow into other lines.
const maxMarks = 2

// Safe returns text as a terminal can show it, in at most so many columns. What can't be shown is
// written as in Go: \x1b for a byte, \u202e for a character; a backslash is doubled, so that it
// can't pretend to be one. Text that is cut ends in "…". A limit of 0 is none.
func Safe(text string, columns int) string { return safe(text, columns, "") }

// Key is a client's key. It is shown so that it can be pasted into a shell: a key that a shell would
// read as more than a word is in quotes, 'user:$(id)', and one with quotes, backslashes or what
// can't be shown is in those of bash and zsh, $'user:\x1b', which harm nothing in other shells.
type Key string

// safe returns the key as a terminal can show it, and a shell can read it unless it is cut.
func (k Key) safe(columns int) string {
	text := string(k)
	if strings.Trim(text, wordBytes) == "" && text != "" && text[0] != '-' && text[0] != '#' && text[0] != '=' {
		return Safe(text, columns)
	}
	begin := "'"
	if all := safe(text, 0, "'"); all != text {
		begin = "$'"
	}
	if columns > 0 {
		columns = max(columns-len(begin)-1, 1)
	}
	return begin + safe(text, columns, "'") + "'"
}

// wordBytes are bytes that no shell interprets within a word.
const wordBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.,:/@%+=#"

// safe is Safe that also escapes some bytes of ASCII.
func safe(text string, columns int, special string) string {
	var b strings.Builder
	used, marks := 0, maxMarks // nothing to put a mark on yet
	room := func(n int) bool { return columns <= 0 || used+n <= columns }
	fits := 0 // length of what leaves room for the "…"
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		piece, n := text[i:i+size], runeWidth(r)
		isMark := n == 0
		if isMark {
			marks++
		}
		switch {
		case r == utf8.RuneError && size == 1:
			piece = fmt.Sprintf(`\x%02x`, text[i])
		case r == '\\':
			piece = `\\`
		case r < utf8.RuneSelf && strings.IndexByte(special, byte(r)) >= 0:
			piece = escaped(r)
		case !plain(r) || isMark && marks > maxMarks:
			piece = escaped(r)
		}
		if piece != text[i:i+size] {
			n, isMark = len(piece), false
		}
		if !isMark {
			marks = 0
		}
		if !room(n) {
			return b.String()[:fits] + "…"
		}
		b.WriteString(piece)
		used += n
		if room(1) {
			fits = b.Len()
		}
		i += size
	}
	return b.String()
}

func escaped(r rune) string {
	switch {
	case r < utf8.RuneSelf:
		return fmt.Sprintf(`\x%02x`, r)
	case r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// plain reports whether a character shows as itself: it is no control or format character, and not
// blank but for the space.
func plain(r rune) bool {
	return unicode.IsPrint(r) && r != '\u2800' &&
		!unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) && !unicode.Is(unicode.Variation_Selector, r)
}

// Width returns how many columns a safe text takes.
func Width(safe string) int {
	n := 0
	for _, r := range safe {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}
