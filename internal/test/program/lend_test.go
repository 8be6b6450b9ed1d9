package program_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/lent"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/program"
)

// A run links a program once, however many packages drive it, and the next run does not link it again unless it has changed.
// Not parallel: it changes the environment.
func TestLentProgramsAreLinkedOnce(t *testing.T) {
	t.Setenv(lent.Variable, "")
	root, keptIn := t.TempDir(), t.TempDir()
	folder := filepath.Join(root, "greets")
	must.OK(t, os.MkdirAll(folder, 0o700))
	write := func(name, text string) { must.OK(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600)) }
	write("go.mod", "module example.com/greets\n")
	said := func(greeting string) *os.File {
		t.Helper()
		write("main.go", "package main\n\nfunc main() { print(\""+greeting+"\") }\n")
		stop := must.Get(lent.Serve(program.Lend(root, keptIn)))(t)
		defer stop()
		var files [2]*os.File
		for i := range files {
			dir := t.TempDir()
			must.OK(t, program.Build(dir, folder, "."))
			name := filepath.Join(dir, "greets")
			check.Equal(t, "output", string(must.Get(exec.Command(name).CombinedOutput())(t)), greeting)
			files[i] = must.Get(os.Open(name))(t) // as long as it is open, no other file is the same one
			t.Cleanup(func() { _ = files[i].Close() })
		}
		same(t, files[0], files[1])
		return files[0]
	}
	same(t, said("hello"), said("hello"))
	said("hello again")
	write("main.go", "package main\n\nfunc main() { nobody }\n")
	stop := must.Get(lent.Serve(program.Lend(root, keptIn)))(t)
	defer stop()
	check.Fails(t, "a program that does not compile", program.Build(t.TempDir(), folder, "."), "undefined: nobody")

	// What a test has written itself is called as its module says, and kept by nobody.
	folder = t.TempDir()
	write("go.mod", "module example.com/elsewhere\n")
	write("main.go", "package main\n\nfunc main() {}\n")
	must.OK(t, program.Build(folder, folder, "."))
	must.OK(t, exec.Command(filepath.Join(folder, "elsewhere")).Run())
}

func same(t *testing.T, a, b *os.File) {
	t.Helper()
	if !os.SameFile(must.Get(a.Stat())(t), must.Get(b.Stat())(t)) {
		t.Errorf("%s was linked again", b.Name())
	}
}
