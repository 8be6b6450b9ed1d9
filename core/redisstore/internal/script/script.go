// Package script holds the Lua script that decides on Redis, and no network.
//
// The script is one text, because the checks of one request are decided in one call. Its
// pieces, in the directory lua, can be read one by one: one for each algorithm, named like
// its Go twin in core/store, and the steps that all algorithms share. frame.lua says where
// each piece goes. The joined text is checked in as lua/joined/limits.lua: the line numbers
// in Redis's error messages are those of that file. A test keeps it up to date.
package script

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed lua/*.lua
var pieces embed.FS

// Source is the script, joined from its pieces.
var Source = join("frame")

// The marks in a piece. What comes before its first section is for its readers only.
const (
	include = "--> " // the piece, or its "piece.section", goes below this line
	section = "--# " // a section begins; the only one of a piece has the piece's name
)

// join returns a piece, or a section of one, with all that it includes. The lines that
// include stay, so that a line of the joined text is found in its piece.
func join(name string) string {
	piece, wanted, several := strings.Cut(name, ".")
	if !several {
		wanted = piece
	}
	text, err := pieces.ReadFile("lua/" + piece + ".lua")
	if err != nil {
		panic(fmt.Sprintf("weblimit: the script has no piece %q: %v", name, err))
	}
	var joined strings.Builder
	inside := false
	for line := range strings.Lines(string(text)) {
		if heading, ok := strings.CutPrefix(line, section); ok {
			inside = strings.TrimSpace(heading) == wanted
			continue
		}
		if !inside {
			continue
		}
		joined.WriteString(line)
		code := strings.TrimLeft(line, " ")
		if included, ok := strings.CutPrefix(code, include); ok {
			indent := line[:len(line)-len(code)]
			for line := range strings.Lines(join(strings.TrimSpace(included))) {
				if line != "\n" {
					joined.WriteString(indent)
				}
				joined.WriteString(line)
			}
		}
	}
	if joined.Len() == 0 {
		panic(fmt.Sprintf("weblimit: the script has no section %q", name))
	}
	// The blank lines at the end separate the section from the next one.
	return strings.TrimRight(joined.String(), "\n") + "\n"
}
