package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

func TestWhatPortsLack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":      "module example.com/m\n\ngo 1.25.0\n",
		"m.go":        "package m\n\nimport \"example.com/m/part\"\n\nvar _ = part.Large\n",
		"part/all.go": "package part\n\nvar Large = 1 << 40\n",
		"stop.go":     "package m\n\nimport \"syscall\"\n\nvar Stop = syscall.SIGSTOP\n",
	} {
		file := filepath.Join(dir, name)
		must.OK(t, os.MkdirAll(filepath.Dir(file), 0o700))
		must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	}
	check.OK(t, typeCheck("linux/arm64", []string{dir}))
	check.Fails(t, "32 bits", typeCheck("linux/arm", []string{dir}), "(overflows)")
	check.Fails(t, "another system", typeCheck("windows/amd64", []string{dir}), "undefined: syscall.SIGSTOP")
}
