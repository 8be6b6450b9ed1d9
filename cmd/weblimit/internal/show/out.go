package show

import (
	"io"
	"strings"
)

// Style is how a text stands out where there is colour. Words never depend on it.
type Style string

// The styles.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Yellow Style = "33"
	Green  Style = "32"
)

// maxLine bounds a line.
const maxLine = 2000

// Out writes lines and tables. All text that it is given becomes safe on the way.
type Out struct {
	W      io.Writer
	Colour bool
	Width  int // columns of the terminal; 0 if it is none
}

// Line writes one line of texts and keys.
func (o *Out) Line(style Style, text string, more ...any) {
	var line strings.Builder
	line.WriteString(Safe(text, maxLine))
	for _, part := range more {
		switch part := part.(type) {
		case Key:
			line.WriteString(part.safe(maxLine))
		case string:
			line.WriteString(Safe(part, maxLine))
		}
	}
	o.write(o.styled(style, line.String()) + "\n")
}

// Item writes a name and a text beside it, with the text wrapped where the terminal ends.
func (o *Out) Item(name, text string) {
	const indent, column = 2, 13
	prefix := strings.Repeat(" ", indent) + o.styled(Dim, pad(Safe(name, column-1), column, false))
	width := maxLine
	if o.Width > 0 {
		width = max(o.Width-indent-column, 20)
	}
	for i, line := range wrap(Safe(text, maxLine), width) {
		if i > 0 {
			prefix = strings.Repeat(" ", indent+column)
		}
		o.write(prefix + line + "\n")
	}
}

// Blank writes an empty line.
func (o *Out) Blank() { o.write("\n") }

// write writes what is safe. A reader that is gone, as in `weblimit blocks | head`, is no error to
// report to anybody.
func (o *Out) write(safe string) { _, _ = io.WriteString(o.W, safe) }

func (o *Out) styled(style Style, safe string) string {
	if !o.Colour || style == Plain || safe == "" {
		return safe
	}
	return "\x1b[" + string(style) + "m" + safe + "\x1b[0m"
}

// pad fills a safe text up with blanks.
func pad(safe string, columns int, right bool) string {
	blanks := strings.Repeat(" ", max(columns-Width(safe), 0))
	if right {
		return blanks + safe
	}
	return safe + blanks
}

// wrap breaks a safe text at blanks, into lines of so many columns where it can.
func wrap(safe string, columns int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(safe) {
		switch {
		case line == "":
			line = word
		case Width(line)+1+Width(word) <= columns:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}
