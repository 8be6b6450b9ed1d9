// Package program builds commands of this repository for tests, runs them as their readers do, and
// follows the tours that they print.
package program

import (
	"fmt"
	"os/exec"
	"slices"

	"github.com/weblimit/weblimit/internal/test/race"
)

// Flags are the flags with which tests build programs. The race detector is in them where [race.InPrograms]
// says so: mostly where it is in the test, since all that they are made of has been compiled for tests just now. They have no
// debugging information, so that they are linked in half of the time.
func Flags() []string {
	flags := []string{"-buildvcs=false", "-ldflags=-s -w"}
	if race.InPrograms() {
		flags = append(flags, "-race")
	}
	return flags
}

// Build compiles commands in one go, into the folder dir: packages of the module in folder, by their paths from
// there. Each has the last element of its path as its name.
func Build(dir, folder string, packages ...string) error {
	cmd := exec.Command("go", slices.Concat([]string{"build", "-o", dir + "/"}, Flags(), packages)...)
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	return nil
}
