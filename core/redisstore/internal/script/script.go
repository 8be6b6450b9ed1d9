// Package script holds the Lua script that decides on Redis, and no network.
//
// The script is one text, since checks of one request must be decided in one call. It is
// kept in pieces that can be read one by one, below lua: one for each algorithm, named as
// its Go twin in core/store, and those of the way that is common to all, which frame.lua
// puts together. The joined text is checked in as lua/joined/limits.lua, where the line
// numbers in Redis's error messages lead; a test keeps it true.
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

// The marks of a piece. What comes before its first section is for readers only.
const (
	include = "--> " // this line stands for "piece", or for "piece.section"
	section = "--# " // a section begins, which goes by the name of the piece if it is the only one
)

// join returns a piece, or a section of one, with all that it includes.
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
		code := strings.TrimLeft(line, " ")
		if heading, ok := strings.CutPrefix(line, section); ok {
			inside = strings.TrimSpace(heading) == wanted
			continue
		}
		if !inside {
			continue
		}
		included, ok := strings.CutPrefix(code, include)
		if !ok {
			joined.WriteString(line)
			continue
		}
		indent := line[:len(line)-len(code)]
		for line := range strings.Lines(join(strings.TrimSpace(included))) {
			if line != "\n" {
				joined.WriteString(indent)
			}
			joined.WriteString(line)
		}
	}
	if joined.Len() == 0 {
		panic(fmt.Sprintf("weblimit: the script has no section %q", name))
	}
	// A blank line parts a section from the next one.
	return strings.TrimRight(joined.String(), "\n") + "\n"
}
