// Command saas is a service with plans: tenants with API keys and monthly quotas, a page for whoever
// bills them, notices and top-ups. It runs on memory, or on PostgreSQL and Redis if DATABASE_URL and
// REDIS_ADDR are set.
//
// The application is in the folder server, a module of its own, so that the module of weblimit does not
// require a client of PostgreSQL. This program only builds and runs it. The first time that takes
// some seconds.
package main

import (
	"errors"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	folder, err := server()
	if err != nil {
		return err
	}
	temporary, err := os.MkdirTemp("", "saas")
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

// server returns the folder of the application, from the root of the repository or from here.
func server() (string, error) {
	for _, folder := range []string{filepath.Join("examples", "saas", "server"), "server"} {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder, nil
		}
	}
	return "", errors.New("run it in the root of a clone of weblimit: go run ./examples/saas")
}
