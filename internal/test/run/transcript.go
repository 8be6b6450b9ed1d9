package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// outcome is what became of the tests of a package.
type outcome struct {
	program
	elapsed, cpu time.Duration
	result       string // pass, fail, or none: it has no tests
	passed       int
	skipped      []string
	seed         string // of the order of tests
	failed       []failure
	rest         []string // output of no test, such as a panic's or the compiler's
}

// failure is a test that failed, or had not ended when its process did.
type failure struct {
	test   string
	took   string
	output []string
}

// transcript reads what a test binary writes with -test.v=test2json, in which a byte marks the
// lines that the package testing writes. It implements io.Writer.
type transcript struct {
	outcome
	line    []byte
	test    string              // whose output the next lines are
	outputs map[string][]string // of tests that have not passed
	begun   []string            // tests that run: they have begun, do not wait for their turn, and have not ended
}

const mark = 0x16

func newTranscript(p program) *transcript {
	return &transcript{outcome: outcome{program: p}, outputs: make(map[string][]string)}
}

// Write implements io.Writer.
func (t *transcript) Write(b []byte) (int, error) {
	for _, c := range b {
		if c == mark && len(bytes.TrimSpace(t.line)) > 0 { // behind output without a line's end
			t.take()
		} else if c == mark { // the ends of subtests are indented
			t.line = t.line[:0]
		}
		t.line = append(t.line, c)
		if c == '\n' {
			t.take()
		}
	}
	return len(b), nil
}

var (
	// seedLine is how a test binary says in which order it runs its tests.
	seedLine = regexp.MustCompile(`^-test\.shuffle (\d+)\n$`)
	// endLine is how it says what became of a test.
	endLine = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP|BENCH): (.*) \((.*s)\)\n$`)
)

// take reads a line.
func (t *transcript) take() {
	line := string(bytes.TrimPrefix(t.line, []byte{mark}))
	framed := t.line[0] == mark
	t.line = t.line[:0]
	switch {
	case framed && strings.HasPrefix(line, "=== "):
		t.frame(strings.Fields(line))
	case framed && endLine.MatchString(line):
		found := endLine.FindStringSubmatch(line)
		t.endTest(found[1], found[2], found[3])
	case line == "PASS\n" || line == "FAIL\n":
		t.test = ""
	case seedLine.MatchString(line):
		t.seed = seedLine.FindStringSubmatch(line)[1]
	case ends(line): // of the process: which test it was writes nothing before it
		t.test = ""
		t.rest = append(t.rest, line)
	case t.test != "":
		t.outputs[t.test] = append(t.outputs[t.test], line)
	default:
		t.rest = append(t.rest, line)
	}
}

// frame reads "=== RUN   Test" and its like.
func (t *transcript) frame(words []string) {
	t.test = ""
	if len(words) < 3 {
		return
	}
	test := strings.Join(words[2:], " ")
	switch words[1] {
	case "RUN", "CONT":
		t.begun = append(t.begun, test)
		t.test = test
	case "NAME":
		t.test = test
	case "PAUSE":
		t.stops(test)
	}
}

// stops notes that a test does not run any more, or waits for its turn.
func (t *transcript) stops(test string) {
	t.begun = slices.DeleteFunc(t.begun, func(begun string) bool { return begun == test })
}

func (t *transcript) endTest(result, test, took string) {
	t.stops(test)
	t.test = test // its output, if there is any, comes behind
	switch result {
	case "PASS":
		t.passed++
	case "SKIP":
		t.skipped = append(t.skipped, test)
	case "FAIL":
		t.failed = append(t.failed, failure{test: test, took: took})
	}
}

// end returns the outcome of a program that has ended with an error, or nil.
func (t *transcript) end(err error) outcome {
	if len(t.line) > 0 {
		t.take()
	}
	switch {
	case err != nil:
		t.result = "fail"
		for _, test := range t.begun { // a panic, the time-out or a signal ended the process
			t.failed = append(t.failed, failure{test: test, took: "not ended"})
		}
		if len(t.failed) == 0 || len(t.begun) > 0 && crash(t.rest) < 0 {
			t.rest = append(t.rest, fmt.Sprintf("%v\n", err))
		}
	case t.passed+len(t.skipped) > 0:
		t.result = "pass"
	}
	for i, f := range t.failed {
		t.failed[i].output = t.outputs[f.test]
	}
	t.failed = innermost(t.failed)
	return t.outcome
}

// innermost leaves out tests that failed only because one of their subtests did.
func innermost(all []failure) []failure {
	return slices.DeleteFunc(slices.Clone(all), func(f failure) bool {
		return len(f.output) == 0 && slices.ContainsFunc(all, func(other failure) bool { return strings.HasPrefix(other.test, f.test+"/") })
	})
}
