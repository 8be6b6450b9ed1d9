// Package launch builds and runs an example whose application is a module of its own, in the folder
// server, so that the module of weblimit does not require what only the application needs. The first
// time that takes some seconds.
package launch

import (
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
)

// Main builds and runs the application of examples/name until it ends. It passes on what would end
// this program.
func Main(name string) {
	log.SetFlags(0)
	if err := run(name); err != nil {
		log.Fatal(err)
	}
}

func run(name string) error {
	folder, err := server(name)
	if err != nil {
		return err
	}
	temporary, err := os.MkdirTemp("", name)
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	program := filepath.Join(temporary, "server.exe") // Windows wants the ending, others do not mind
	build := exec.Command("go", "-C", folder, "build", "-o", program, ".")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return err
	}
	cmd := exec.Command(program)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		for s := range signals {
			// A terminal's Ctrl-C reaches both processes, so this may come too late.
			_ = cmd.Process.Signal(s)
		}
	}()
	return cmd.Wait()
}

// server returns the folder of the application, from the root of the repository or from the example.
func server(name string) (string, error) {
	for _, folder := range []string{filepath.Join("examples", name, "server"), "server"} {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder, nil
		}
	}
	return "", fmt.Errorf("run it in the root of a clone of weblimit: go run ./examples/%s", name)
}
