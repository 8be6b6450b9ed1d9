// Command house prints figures of how this repository is built, so that a change of structure can be judged by numbers:
//
//	make house                # the working tree
//	make house BASE=6167379   # before and after, "9732→9105", of that commit and the working tree
//
// It looks at the product: all Go files outside tests, but for internal/test, internal/suites, internal/newest, examples
// and bench. A room is a folder. What it counts:
//
//   - Lines: code is a line with a token on it, a comment is a line with nothing but a comment. The share of comments is
//     of all lines that are not blank.
//   - Arrows: in a package, from file A to file B if A uses a constant, variable, type, function or method that B declares.
//     Names are resolved by the type checker. Packages of other modules are not loaded, since that would take minutes, so a
//     method is missed whose receiver came through a generic function of theirs.
//   - Upward arrows: the files of a package are put in an order in which few arrows run backwards, by the greedy heuristic
//     of Eades, Lin and Smyth (1993), and each file is then moved to the place where fewest do until no move helps. The
//     arrows that still run backwards are counted. With 0 of them a package can be read from top to bottom. The order
//     depends on nothing but the arrows and the names of files.
//   - Exported names: as in the first lines of api/*.txt, which tests keep true.
//   - Copies: pairs of runs of six or more equal lines, after blank lines, comments, imports and lines of punctuation are
//     left out, and the lines that are in any of them. Generated files are left out.
//   - Functions above 60 lines, from func to the closing brace.
//   - Variables of type any in internal/seam.
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
)

func main() {
	base := flag.String("base", "", "a commit to compare with")
	flag.Parse()
	if err := run(*base); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

// run prints the figures of the working tree in the current directory, beside those of base if it is not "".
func run(base string) error {
	after, err := figures(os.DirFS("."))
	if err != nil {
		return err
	}
	if base == "" {
		return show(os.Stdout, after, after)
	}
	committed, err := commit(base)
	if err != nil {
		return err
	}
	before, err := figures(committed)
	if err != nil {
		return fmt.Errorf("%s: %w", base, err)
	}
	return show(os.Stdout, before, after)
}

// figures returns all tables about a repository.
func figures(repository fs.FS) ([]table, error) {
	h, err := read(repository)
	if err != nil {
		return nil, err
	}
	arrows, err := h.arrows()
	if err != nil {
		return nil, err
	}
	faces, err := faces(repository)
	if err != nil {
		return nil, err
	}
	lines, functions, copies := h.lines(), h.functions(), h.copies()
	total := []table{{
		title: "the product", head: []string{"total"},
		rows: []row{
			{"lines of Go", []int{sum(lines, 1)}},
			{"of them in generated files", []int{h.generated()}},
			{"lines of code", []int{sum(lines, 2)}},
			{"arrows between files of a package", []int{sum(arrows, 1)}},
			{"upward arrows", []int{sum(arrows, 2)}},
			{"exported names", []int{sum(faces, 0)}},
			{"functions above 60 lines", []int{len(functions.rows)}},
			{"copies of six lines or more", []int{sum(copies, 0)}},
			{"lines that stand in copies", []int{h.copied()}},
			{"variables of type any in internal/seam", []int{h.untyped()}},
		},
	}}
	return append(total, lines, adapters(lines, faces), arrows, faces, functions, copies), nil
}
