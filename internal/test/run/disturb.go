package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"time"
)

// disturbance is what happens beside the tests: what a busy machine does to them, and a bit more.
type disturbance struct {
	build bool // a compiler runs beside them
	stops bool // their processes stand still for seconds
}

func (d disturbance) String() string {
	switch {
	case d.build && d.stops:
		return "beside a build, in processes that are stopped"
	case d.build:
		return "beside a build"
	case d.stops:
		return "in processes that are stopped"
	}
	return "undisturbed"
}

// Processes run for up to so long, and then stand still for up to so long.
const (
	longestRun  = 8 * time.Second
	longestStop = 4 * time.Second
)

// begin begins what happens beside all tests. The function that it returns ends it, and waits for that.
func (d disturbance) begin(ctx context.Context) (end func()) {
	if !d.build {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if err := buildOnce(ctx); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "the build beside the tests:", err)
				return
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// buildOnce compiles everything that the main module needs, with an empty cache.
func buildOnce(ctx context.Context) error {
	cache, err := os.MkdirTemp("", "weblimit-cache-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(cache) }()
	cmd := exec.CommandContext(ctx, "go", "build", "./...")
	cmd.Env = append(os.Environ(), "GOCACHE="+cache)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // go then ends its compilers
	cmd.WaitDelay = 10 * time.Second
	return cmd.Run()
}

// process disturbs one process until end is called.
func (d disturbance) process(p *os.Process) (end func()) {
	if !d.stops {
		return func() {}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(rand.N(longestRun)):
			}
			stop(p)
			select {
			case <-done:
			case <-time.After(rand.N(longestStop)):
			}
			goOn(p)
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}
