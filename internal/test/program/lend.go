package program

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/weblimit/weblimit/internal/test/lent"
)

// lentPrograms is the name under which programs are lent.
const lentPrograms = "programs"

// order is what a test process wants to have built.
type order struct {
	Folder   string // absolute
	Race     bool
	Packages []string
}

// kept is where programs are; "" for those that nobody keeps.
type kept struct{ Dir string }

// Lend returns the programs that a test run lends: those of the folder root and below it. They stay in the folder dir, where those of
// which nothing has changed need not be linked again, by the next package that drives them or by the next run.
func Lend(root, dir string) lent.Servers {
	var one sync.Mutex // several would wait for the processors anyway
	return lent.Servers{lentPrograms: func(what string) (any, error) {
		var o order
		if err := json.Unmarshal([]byte(what), &o); err != nil {
			return nil, err
		}
		within, err := filepath.Rel(root, o.Folder)
		if err != nil || !filepath.IsLocal(within) { // a test has written it, and no other asks for it
			return kept{}, nil
		}
		place := filepath.Join(dir, strings.ReplaceAll(filepath.ToSlash(within), "/", "_"), "race-"+strconv.FormatBool(o.Race))
		one.Lock()
		defer one.Unlock()
		return kept{place}, build(place, o)
	}}
}

// link has the programs of an order in a folder by links to where they are kept.
func (o order) link(dir, place string) error {
	for _, p := range o.Packages {
		name := path.Base(path.Join(filepath.ToSlash(o.Folder), p)) // of "." and of "./name" as well
		if err := os.Symlink(filepath.Join(place, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
