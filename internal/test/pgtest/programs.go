package pgtest

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
)

// lowest is the lowest version that the tests support.
const lowest = 14

// debian is where Debian keeps each version's programs, outside of PATH.
const debian = "/usr/lib/postgresql/*/bin"

// installation says where PostgreSQL's programs are.
type installation struct{ initdb, postgres, psql string }

// programs looks for PostgreSQL in PATH, then for Debian's highest version.
var programs = sync.OnceValues(func() (installation, error) {
	found, err := inDirectory("")
	if err == nil {
		return found, nil
	}
	dirs, _ := filepath.Glob(debian)
	slices.SortFunc(dirs, func(a, b string) int { return version(b) - version(a) })
	for _, dir := range dirs {
		if version(dir) < lowest {
			break
		}
		if found, err := inDirectory(dir); err == nil {
			return found, nil
		}
	}
	return installation{}, fmt.Errorf("no PostgreSQL %d or later in PATH or %s", lowest, debian)
})

// inDirectory returns the programs in dir, or in PATH if dir is "".
func inDirectory(dir string) (installation, error) {
	look := func(name string) (string, error) { return exec.LookPath(filepath.Join(dir, name)) }
	initdb, err1 := look("initdb")
	postgres, err2 := look("postgres")
	psql, err3 := look("psql")
	if err3 != nil { // Debian has it in PATH alone
		psql, err3 = exec.LookPath("psql")
	}
	return installation{initdb, postgres, psql}, errors.Join(err1, err2, err3)
}

// version returns the number in Debian's directory of programs, or 0.
func version(dir string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
	if err != nil {
		return 0
	}
	return n
}
