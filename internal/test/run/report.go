package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	module = "github.com/weblimit/weblimit"

	// linesPerFailure and failuresPerPackage bound what is shown, so that what broke is on the last screen.
	linesPerFailure    = 30
	failuresPerPackage = 5
)

// report prints what happens, and in the end what broke. Its methods may be called concurrently.
type report struct {
	verbose bool

	mu     sync.Mutex
	w      io.Writer
	began  time.Time
	broken []outcome // Guarded by mu.
	all    []outcome // Guarded by mu.
}

func newReport(w io.Writer) *report { return &report{w: w, began: time.Now()} }

// add prints the line of a package.
func (r *report) add(o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, o)
	word := "ok  "
	switch o.result {
	case "":
		return
	case "fail":
		word = "FAIL"
		r.broken = append(r.broken, o)
	}
	how := ""
	switch {
	case o.unit.dir == newest:
		how = "  with the newest releases"
	case !o.unit.race:
		how = "  without the race detector"
	}
	fmt.Fprintf(r.w, "%s %6.1fs  %s%s\n", word, o.elapsed.Seconds(), short(o.pkg.ImportPath), how)
	if r.verbose {
		fmt.Fprint(r.w, strings.Join(o.rest, ""))
	}
}

// red reports whether something broke.
func (r *report) red() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.broken) > 0
}

// end prints what broke, and the closing line.
func (r *report) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	passed, failed, skipped := 0, 0, 0
	for _, o := range r.all {
		passed += o.passed
		skipped += len(o.skipped)
		for _, test := range o.skipped {
			if r.verbose {
				fmt.Fprintf(r.w, "skipped: %s %s\n", short(o.pkg.ImportPath), test)
			}
		}
	}
	for _, o := range r.broken {
		failed += max(len(o.failed), 1)
		fmt.Fprint(r.w, o.story())
	}
	fmt.Fprintf(r.w, "\n%v\n%d passed, %d failed, %d skipped\n", time.Since(r.began).Round(time.Second), passed, failed, skipped)
}

// story says what broke in a package, and how to repeat it.
func (o outcome) story() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nFAIL %s\n", short(o.pkg.ImportPath))
	told := o.failed[:min(len(o.failed), failuresPerPackage)]
	for _, f := range told {
		fmt.Fprintf(&b, "  %s (%s)\n%s", f.test, f.took, shown(f.output))
	}
	if len(o.failed) == 0 || crash(o.rest) >= 0 {
		b.WriteString(shown(o.rest))
	}
	if more := len(o.failed) - len(told); more > 0 {
		fmt.Fprintf(&b, "  and %d more\n", more)
	}
	if len(told) == 0 || len(told) < len(o.failed) {
		fmt.Fprintf(&b, "  again: %s\n", o.repeat(""))
	}
	for _, f := range told {
		fmt.Fprintf(&b, "  again: %s\n", o.repeat(f.test))
	}
	return b.String()
}

// repeat returns the command that runs one test as it was run, or the package.
func (o outcome) repeat(test string) string {
	var b strings.Builder
	if o.unit.dir != "." {
		fmt.Fprintf(&b, "cd %s && ", o.unit.dir)
	}
	b.WriteString("CI=true go test")
	if o.unit.race {
		b.WriteString(" -race")
	}
	if o.seed != "" {
		b.WriteString(" -shuffle=" + o.seed)
	}
	if test != "" {
		fmt.Fprintf(&b, " -run '%s'", pattern(test))
	} else if o.unit.tests != "" {
		fmt.Fprintf(&b, " -run '%s'", o.unit.tests)
	}
	if own, ok := strings.CutPrefix(o.pkg.ImportPath, o.unit.importPath()); ok {
		b.WriteString(" ." + own)
	} else {
		b.WriteString(" " + o.pkg.ImportPath)
	}
	return b.String()
}

// importPath is that of the unit's module.
func (u unit) importPath() string {
	if u.dir == "." {
		return module
	}
	return module + "/" + u.dir
}

// pattern matches one test, and each of its parents.
func pattern(test string) string {
	parts := strings.Split(test, "/")
	for i, p := range parts {
		parts[i] = "^" + quoted.Replace(p) + "$"
	}
	return strings.Join(parts, "/")
}

// quoted makes a test's name a regular expression that a shell takes between apostrophes.
var quoted = func() *strings.Replacer {
	pairs := []string{"'", "."}
	for _, c := range `\.+*?()|[]{}^$` {
		pairs = append(pairs, string(c), `\`+string(c))
	}
	return strings.NewReplacer(pairs...)
}()

// crash returns the first line that tells of a panic, of a race or of a time-out; -1 if there is none.
func crash(lines []string) int {
	return slices.IndexFunc(lines, func(l string) bool {
		return ends(l) || strings.HasPrefix(l, "signal:") || strings.Contains(l, "WARNING: DATA RACE")
	})
}

// ends says whether a line is the first of a crash.
func ends(line string) bool {
	return strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:")
}

func short(importPath string) string {
	if s := strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/"); s != "" {
		return s
	}
	return importPath
}

// shown returns as many lines as are shown of one test: the first of a crash, else the first and the last ones.
func shown(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	if i := crash(lines); i >= 0 {
		lines = lines[i:min(i+linesPerFailure, len(lines))]
	} else if over := len(lines) - linesPerFailure; over > 0 {
		first := linesPerFailure / 3 // some tests say what is wrong first, and then all that they know
		lines = slices.Concat(lines[:first], []string{fmt.Sprintf("(%d lines between)\n", over)}, lines[first+over:])
	}
	text := strings.TrimRight(strings.Join(lines, ""), "\n")
	return "    " + strings.ReplaceAll(text, "\n", "\n    ") + "\n"
}
