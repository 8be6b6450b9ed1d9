// Plots draws the figures of docs/choose/algorithms.md, docs/run/rollout.md, docs/choose/where.md and README.md from the code that they are
// about, and prints what these pages say of them: the rows of tables, and the figures with
// their texts.
//
//	go run ./internal/test/plots -o docs/pictures
//
// make plots does it. A test fails when docs is not what the code draws and prints.
package main

import (
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weblimit/weblimit/internal/test/figure"
)

func main() {
	folder := flag.String("o", "docs/pictures", "the folder of the pictures")
	flag.Parse()
	all := figures()
	for name, d := range all {
		if err := os.WriteFile(filepath.Join(*folder, name), []byte(d.svg), 0o644); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(strings.Join(slices.Concat(integersTable(), headersTable()), "\n"))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Println(all[name].markdown("../pictures/" + name))
	}
}

// drawing is a finished figure.
type drawing struct {
	svg   string
	about string // for those who do not see it
}

func finish(f *figure.Figure, title, about string) drawing {
	return drawing{f.SVG(title, about), about}
}

// markdown returns the line that shows the figure on a page.
func (d drawing) markdown(path string) string { return "![" + d.about + "](" + path + ")" }

// figures returns the figures by their names in docs/pictures.
func figures() map[string]drawing {
	all := map[string]drawing{
		"overview.svg":   drawOverview(),
		"comparison.svg": drawComparison(),
		"rollout.svg":    drawRollout(),
		"where.svg":      drawWhere(),
	}
	for _, a := range algorithms() {
		all[a.file] = a.draw()
	}
	return all
}
