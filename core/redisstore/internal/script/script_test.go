package script

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write the joined script")

const joinedFile = "lua/joined/limits.lua"

// Redis names lines of the joined text in its error messages, and reviewers see there
// what a change of a piece comes to.
func TestTheJoinedScriptIsCheckedIn(t *testing.T) {
	t.Parallel()
	if *update {
		if err := os.WriteFile(joinedFile, []byte(Source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	checkedIn, err := os.ReadFile(joinedFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(checkedIn) != Source {
		t.Error("the pieces have changed: go test ./core/redisstore/internal/script -update")
	}
}
