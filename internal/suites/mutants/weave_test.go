package mutants

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

const program = `package main

import "fmt"

type counter struct{ n int }

func (c *counter) add(n ...int) {
	for _, each := range n {
		c.n += each
	}
}

func sum(a, b int) (total int) { return a + b }

func skipped(_ int) int { return 7 }

const base = 10

func main() {
	c := counter{base}
	c.add(1, 2)
	fmt.Print(c.n, sum(3, 4), product(6, 2), skipped(0))
}
`

// A program makes the mistake that the environment names, and none without it.
func TestAProgramMakesTheMistakeThatIsNamed(t *testing.T) {
	t.Parallel()
	root, dir := t.TempDir(), t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(root, "main.go"), []byte(program), 0o600))
	must.OK(t, os.WriteFile(filepath.Join(root, "other.go"), []byte("package main\n\nfunc product(a, b int) int { return a * b }\n"), 0o600))
	must.OK(t, os.WriteFile(filepath.Join(root, "go.mod"), []byte("module woven\n\ngo 1.26.0\n"), 0o600))
	all := []Mutant{
		{File: "main.go", Old: "c.n += each", New: "c.n -= each"},
		{File: "main.go", Old: "func sum(a, b int) (total int) { return a + b }", New: "func sum(a, b int) (total int) { return a * b }"},
		{File: "main.go", Old: "return a +", New: "return b +"},
		{File: "other.go", Old: "a * b", New: "a / b"},
		{File: "main.go", Old: "return 7", New: "return 8"},         // its parameter has no name
		{File: "main.go", Old: "base = 10", New: "base = 11"},       // not in a function
		{File: "main.go", Old: "c := counter{base}", New: "c := 1"}, // nobody can call main
		{File: "main.go", Old: "not there", New: ""},
	}
	overlay, done, err := weave(root, dir, all)
	must.OK(t, err)
	file := filepath.Join(dir, "program")
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", file, ".")
	build.Dir = root
	out, err := build.CombinedOutput()
	must.Equal(t, "what the compiler says", string(out), "")
	must.OK(t, err)
	for wrong, want := range map[string]string{"": "13 7 12 7", "1": "7 7 12 7", "2": "13 12 12 7", "3": "13 8 12 7", "4": "13 7 3 7", "5": "13 7 12 7"} {
		run := exec.CommandContext(t.Context(), file)
		run.Env = append(os.Environ(), Variable+"="+wrong)
		check.Equal(t, "with mistake "+wrong, string(must.Get(run.Output())(t)), want)
	}
	for n := range len(all) {
		check.Equal(t, all[n].Old, done[n+1], n < 4)
	}
}
