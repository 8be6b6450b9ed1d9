// Package wait lets tests wait for what other goroutines and processes do, where no event tells of it.
package wait

import (
	"errors"
	"flag"
	"strconv"
	"testing"
	"time"
)

// patience is how long something may take, on a machine that has other work, or stood still. A test that waits
// for it passes as soon as it holds, so that a long one costs nothing.
const patience = 3 * time.Minute

// Until returns as soon as what holds, and ends the test if that takes minutes.
func Until(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	For(tb, what, func() error {
		if holds() {
			return nil
		}
		return errors.New("no")
	})
}

// For returns as soon as try has no error, and ends the test with its last one if that takes minutes.
func For(tb testing.TB, what string, try func() error) {
	tb.Helper()
	pause := time.Millisecond
	for began := time.Now(); ; pause = min(2*pause, 20*time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Since(began) > patience {
			tb.Fatalf("%v later it does not hold that %s: %v", patience, what, err)
		}
		time.Sleep(pause) // nothing tells when to look again
	}
}

// Beside makes so many parallel tests run at a time, unless the command line says how many: where tests wait more
// than they work, for other processes and for time-outs, a machine with two processors would run two. It is for TestMain.
func Beside(tests int) {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		_ = flag.Set("test.parallel", strconv.Itoa(tests)) // a number it takes
	}
}
