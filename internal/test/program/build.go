// Package program builds commands of this repository for tests, runs them as their readers do, and
// follows the tours that they print.
package program

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/weblimit/weblimit/internal/test/lent"
	"github.com/weblimit/weblimit/internal/test/race"
)

// Flags are the flags with which tests build programs. The race detector is in them where [race.InPrograms]
// says so: mostly where it is in the test, since all that they are made of has been compiled for tests just now. They have no
// debugging information, so that they are linked in half of the time.
func Flags() []string { return flags(race.InPrograms()) }

func flags(race bool) []string {
	flags := []string{"-buildvcs=false", "-ldflags=-s -w"}
	if race {
		flags = append(flags, "-race")
	}
	return flags
}

// Build compiles commands in one go, into the folder dir: packages of the module in folder, by their paths from
// there. Each has the last element of its path as its name. In a test run that lends programs, see [Lend], those of the
// repository are links to what has been built for all of its packages.
func Build(dir, folder string, packages ...string) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	o := order{folder, race.InPrograms(), packages}
	question, err := json.Marshal(o)
	if err != nil {
		return err
	}
	var k kept
	switch isLent, err := lent.Ask(lentPrograms+" "+string(question), &k); {
	case err != nil:
		return err
	case isLent && k.Dir != "":
		return o.link(dir, k.Dir)
	}
	return build(dir, o)
}

func build(dir string, o order) error {
	cmd := exec.Command("go", slices.Concat([]string{"build", "-o", dir + "/"}, flags(o.Race), o.Packages)...)
	cmd.Dir = o.Folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	return nil
}
