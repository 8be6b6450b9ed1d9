// Command ports type-checks all packages that users can require, and all that they are made of, for other
// systems:
//
//	go run ./internal/test/ports linux/arm windows/amd64
//
// So it finds what has no meaning there: a name that a system lacks, or a constant that 32 bits do not hold. To
// compile them, as go build does, takes thirty times as long, and finds mistakes of assembly and of linking besides.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
)

func main() {
	ports := os.Args[1:]
	modules, err := exec.Command("scripts/modules", "--released").Output()
	if err != nil || len(ports) == 0 {
		fmt.Fprintln(os.Stderr, "run it from the root of the repository, with ports:", err)
		os.Exit(2)
	}
	errs := make([]error, len(ports))
	var all sync.WaitGroup
	processors := make(chan bool, runtime.GOMAXPROCS(0)) // each port needs some hundred MB
	for i, port := range ports {
		all.Go(func() {
			processors <- true
			errs[i] = typeCheck(port, strings.Fields(string(modules)))
			<-processors
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// typeCheck checks the packages of all modules for a port.
func typeCheck(port string, modules []string) error {
	goos, goarch, _ := strings.Cut(port, "/")
	c := newChecker(goarch)
	n := 0
	for _, module := range modules {
		packages, err := list(module, goos, goarch)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", port, module, err)
		}
		n += len(packages)
		if err := c.module(packages); err != nil {
			return fmt.Errorf("%s: %s: %w", port, module, err)
		}
	}
	fmt.Printf("%s: %d packages of %d modules, %d of them different\n", port, n, len(modules), len(c.checked))
	return nil
}
