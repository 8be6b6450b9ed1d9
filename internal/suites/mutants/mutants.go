// Package mutants has mistakes, each made in one place of the code on purpose, and says who notices them: the
// tests of `make test`, and for those of the stores also the histories of `make prove`.
//
//	go test -run '^TestNoticed$' -timeout 0 -mutants .                      # all of them; make mutants
//	go test -run '^TestNoticed$' -timeout 0 -mutants 'refund|^quota/'       # some of them, by what is wrong or by file
//	go test -run '^TestNoticed$' -timeout 0 -mutants . -tree /path/to/other # in another checkout
//
// The tests of a package are built once, with all mistakes of Go code in them; see weave. Who has noticed is written to
// noticed.txt, and comes first the next time.
package mutants

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Root is the repository's, from the folder of a suite.
const Root = "../../.."

// Mutant is a mistake.
type Mutant struct {
	File     string // from the root of the repository
	Old, New string // Old is in the file once
	What     string // what is wrong then

	Tests string // the packages whose tests are to notice, from the root, with blanks between them

	Histories string // that are to notice, as go test's -run has them; empty if none are made for it
	Unproved  string // why histories can't notice, if they can't
}

// All returns all mistakes.
func All() []Mutant {
	return slices.Concat(stores, keys, adapters, ledger, files, services, regional, models, shares)
}

// Stores returns those that histories are made for.
func Stores() []Mutant { return slices.Clone(stores) }

// Count returns how often Old is in the file, in a checkout.
func (m *Mutant) Count(root string) (int, error) {
	text, err := os.ReadFile(filepath.Join(root, m.File))
	return bytes.Count(text, []byte(m.Old)), err
}

// Overlay writes what go's -overlay takes, and the changed file, to a folder. It returns the path.
func (m *Mutant) Overlay(root, dir string) (path string, err error) {
	original, err := filepath.Abs(filepath.Join(root, m.File))
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	if n := bytes.Count(text, []byte(m.Old)); n != 1 {
		return "", fmt.Errorf("%s: %d times in the file, and not once: %q (%s)", m.File, n, m.Old, m.What)
	}
	wrong := filepath.Join(dir, filepath.Base(m.File))
	if err := os.WriteFile(wrong, bytes.Replace(text, []byte(m.Old), []byte(m.New), 1), 0o600); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: wrong}})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, overlay, 0o600)
}
