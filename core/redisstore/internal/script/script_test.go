package script

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/must"
)

var update = flag.Bool("update", false, "write the joined script")

const joinedFile = "lua/joined/limits.lua"

// Redis's error messages name lines of the joined text, and a review shows there what a
// change to a piece does to the whole.
func TestTheJoinedScriptIsCheckedIn(t *testing.T) {
	t.Parallel()
	if *update {
		must.OK(t, os.WriteFile(joinedFile, []byte(Source), 0o600))
	}
	checkedIn := must.Get(os.ReadFile(joinedFile))(t)
	if string(checkedIn) != Source {
		t.Error("the pieces have changed: run go test ./core/redisstore/internal/script -update")
	}
}

// pieceOf returns the name of an algorithm's piece. In capitals it is the algorithm's constant.
func pieceOf(a store.Algorithm) string {
	if a == store.Calendar {
		return "calendar"
	}
	return strings.ReplaceAll(a.String(), " ", "")
}

// Each algorithm of core/store/counting has a piece here, named like its Go file.
func TestEveryAlgorithmHasAPiece(t *testing.T) {
	t.Parallel()
	for _, algorithm := range counting.Algorithms() {
		name := pieceOf(algorithm)
		if _, err := os.Stat(filepath.Join("..", "..", "..", "store", "counting", name+".go")); err != nil {
			t.Errorf("%v has no Go file of that name: %v", algorithm, err)
		}
		if _, err := os.Stat(filepath.Join("lua", name+".lua")); err != nil {
			t.Errorf("%v has no piece: %v", algorithm, err)
		}
		if !strings.Contains(Source, include+name+".decide\n") {
			t.Errorf("the script does not decide %v: no line %q", algorithm, include+name+".decide")
		}
	}
}

// The pieces that all algorithms share have branches by algorithm. A new algorithm would fall
// into an else unnoticed, and its records be read in the layout of another. So each of these
// pieces names every algorithm: in a condition, or in the comment behind its else.
func TestSharedPiecesNameEveryAlgorithm(t *testing.T) {
	t.Parallel()
	for _, piece := range []string{"frame", "parse", "find", "convert", "read", "bringback"} {
		text := must.Get(os.ReadFile(filepath.Join("lua", piece+".lua")))(t)
		_, code, _ := strings.Cut(string(text), section)
		for _, algorithm := range counting.Algorithms() {
			constant := strings.ToUpper(pieceOf(algorithm))
			if named := regexp.MustCompile(`\b` + constant + `\b`); !named.MatchString(code) {
				t.Errorf("%s.lua does not name %s: which branch does it take?", piece, constant)
			}
		}
	}
}

// A piece or section that is not included would be dead, and look alive.
func TestEverySectionIsIncluded(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("lua/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		piece := strings.TrimSuffix(filepath.Base(file), ".lua")
		for line := range strings.Lines(string(text)) {
			heading, ok := strings.CutPrefix(line, section)
			if !ok {
				continue
			}
			name := piece + "." + strings.TrimSpace(heading)
			if strings.TrimSpace(heading) == piece {
				name = piece
			}
			if name != "frame" && !strings.Contains(Source, include+name+"\n") {
				t.Errorf("%s is not included", name)
			}
		}
	}
}
